"""A file is whole or not there, and a refusal of the system is a sentence."""

import contextlib
import errno
import os
import shutil

import pytest

from limbeck.core.errors import DataError, LimbeckError
from limbeck.core.files import (
    atomic,
    explained,
    write_text,
)


def test_a_file_appears_when_it_is_whole(tmp_path):
    path = tmp_path / "new" / "file"
    with atomic(path) as part:
        part.write_text("whole")
        assert not path.exists()
    assert path.read_text() == "whole"
    assert list(path.parent.iterdir()) == [path]


def test_what_fails_leaves_the_old_file_and_no_other(tmp_path):
    path = write_text(tmp_path / "file", "old")
    with contextlib.suppress(KeyboardInterrupt), atomic(path) as part:
        part.write_text("half")
        raise KeyboardInterrupt
    assert path.read_text() == "old"
    assert list(tmp_path.iterdir()) == [path]


def test_others_may_read_it_as_the_umask_says(tmp_path):
    mask = os.umask(0o027)
    try:
        path = write_text(tmp_path / "file", "text")
    finally:
        os.umask(mask)
    assert path.stat().st_mode & 0o777 == 0o640


def full_disk_of_shutil():
    return shutil.Error([("a", "b", "[Errno 28] No space left on device: 'b'")])


@pytest.mark.parametrize(
    ("error", "words"),
    [
        (OSError(errno.ENOSPC, "x"), "the disk is full"),
        (OSError(errno.EDQUOT, "x"), "quota"),
        (PermissionError(errno.EACCES, "x"), "no permission"),
        (OSError(errno.EROFS, "x"), "read-only"),
        (NotADirectoryError(errno.ENOTDIR, "x"), "a file, not a folder"),
        (RuntimeError("IO error: No space left on device (os error 28)"), "the disk is full"),
        (full_disk_of_shutil(), "the disk is full"),
    ],
)
def test_refusals_of_the_system_are_explained(tmp_path, error, words):
    with pytest.raises(LimbeckError, match=f"cannot write {tmp_path}: .*{words}.*\n  → "), explained(tmp_path):
        raise error


@pytest.mark.parametrize("error", [ValueError("ours"), FileNotFoundError(errno.ENOENT, "x"), DataError("a", "b")])
def test_any_other_error_stays_what_it_is(tmp_path, error):
    with pytest.raises(type(error)) as caught, explained(tmp_path):
        raise error
    assert caught.value is error
