"""A file is whole or not there, and a refusal of the system is a sentence."""

import contextlib
import errno
import os
import shutil

import pytest

from limbeck.core.errors import DataError, LimbeckError
from limbeck.core.files import atomic, explained, portable, portable_command, portable_knobs, write_text


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


@pytest.fixture
def home(tmp_path, monkeypatch):
    """A project beside shared data, as the working directory."""
    place = tmp_path / "work" / "project"
    (place / "data").mkdir(parents=True)
    (place.parent / "shared").mkdir()
    monkeypatch.chdir(place)
    return place


def test_a_path_is_told_without_folders_of_the_machine(home, tmp_path):
    assert portable(home / "data" / "train.csv") == "data/train.csv"
    assert portable(home) == "."
    assert portable(home.parent / "shared" / "de" / "x.gz") == "../shared/de/x.gz"
    assert portable(tmp_path / "far" / "away" / "x.gz") == "away/x.gz"
    assert portable("/x.gz") == "x.gz"
    for unchanged in ("data/train.csv", "../other/x", "google/bert", "hf://datasets/x", ""):
        assert portable(unchanged) == unchanged


def test_a_link_inside_the_project_is_inside(home, tmp_path):
    (tmp_path / "disk").mkdir()
    (home / "link").symlink_to(tmp_path / "disk")
    assert portable(home / "link" / "x") == "link/x"
    (tmp_path / "alias").symlink_to(home)
    assert portable(tmp_path / "alias" / "data") == "data"


def test_below_the_root_everything_would_be_one_level_up(monkeypatch):
    monkeypatch.chdir("/tmp")
    assert portable("/tmp/x") == "x"
    assert portable("/home/someone/secret/x") == "secret/x"


def test_only_paths_that_exist_are_knobs_with_folders(home):
    table = {"data": {"train": str(home / "data")}, "files": [str(home.parent / "shared"), "/gone/x"], "seeds": 3}
    assert portable_knobs(table) == {"data": {"train": "data"}, "files": ["../shared", "/gone/x"], "seeds": 3}
    assert portable_knobs({"text": "a / b", "ratio": 0.5, "none": None}) == {
        "text": "a / b",
        "ratio": 0.5,
        "none": None,
    }


def test_a_command_line_has_portable_paths(home):
    line = f"limbeck distill --data {home}/data/a.csv --teacher=/opt/models/big --out '{home}/my runs' --recipe hinton"
    told = "limbeck distill --data data/a.csv --teacher=models/big --out 'my runs' --recipe hinton"
    assert portable_command(line) == told
