"""Files written whole or not at all, and paths that mean something on another machine."""

from __future__ import annotations

import errno
import os
import shlex
import shutil
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from limbeck.core.errors import LimbeckError


@contextmanager
def atomic(path: Path | str) -> Iterator[Path]:
    """Yields a temporary path beside `path`, and puts it in place when the block ends well."""
    path = Path(path)
    with explained(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        handle, name = tempfile.mkstemp(prefix=f".{path.name}.", suffix=".part", dir=path.parent)
        os.close(handle)
        part = Path(name)
        try:
            yield part
            with part.open("rb") as written:
                os.fsync(written.fileno())
            os.chmod(part, 0o666 & ~_umask())
            os.replace(part, path)
        finally:
            part.unlink(missing_ok=True)


def write_text(path: Path | str, text: str) -> Path:
    with atomic(path) as part:
        part.write_text(text, encoding="utf-8")
    return Path(path)


def portable(path: Path | str) -> str:
    """A path without the folders of this machine: relative to the working directory where it lies inside it or one
    level up (../shared/data), else its last two parts. What is relative already, such as a Hub id, stays."""
    written = os.path.expanduser(path)
    if not os.path.isabs(written):
        return str(path)
    here = os.getcwd()
    above = os.path.dirname(here)
    for place in (os.path.abspath(written), os.path.realpath(written)):
        for folder in (here, above if above != os.path.dirname(above) else here):  # all of a disk lies below its root
            if os.path.commonpath([folder, place]) == folder:
                return Path(os.path.relpath(place, here)).as_posix()
    return "/".join(Path(written).parts[1:][-2:])


def portable_knobs(table: Mapping[str, Any]) -> dict[str, Any]:
    """The table of a run file with portable paths, where a value is an absolute path that exists."""
    return {name: _portable_value(value) for name, value in table.items()}


def portable_command(line: str) -> str:
    """A command line with portable paths, also in --flag=/path."""
    return shlex.join(map(_portable_word, shlex.split(line)))


def _portable_value(value: Any) -> Any:
    if isinstance(value, Mapping):
        return portable_knobs(value)
    if isinstance(value, list | tuple):
        return type(value)(map(_portable_value, value))
    is_path = isinstance(value, str) and os.path.isabs(value) and os.path.exists(value)
    return portable(value) if is_path or isinstance(value, Path) else value


def _portable_word(word: str) -> str:
    flag, equals, value = word.partition("=")
    if equals and flag.startswith("-") and os.path.isabs(value):
        return f"{flag}={portable(value)}"
    return portable(word) if os.path.isabs(word) else word


@contextmanager
def explained(path: Path | str) -> Iterator[None]:
    """Turns the operating system's refusals about `path` into a sentence with a remedy."""
    try:
        yield
    except LimbeckError:
        raise
    except Exception as error:
        # safetensors, torch and shutil report a full disk as errors of their own
        full = "No space left" in str(error) or _is_full(Path(path))
        reason = _REASONS.get(getattr(error, "errno", None) or (errno.ENOSPC if full else 0))
        if reason is None:
            raise
        raise LimbeckError(f"cannot write {path}: {reason[0]}", reason[1]) from None


_RESUME = "then run the same command with --resume; what was finished is kept"
_REASONS = {
    errno.ENOSPC: ("the disk is full", f"free some space, {_RESUME}"),
    errno.EDQUOT: ("the disk quota is used up", f"free some space, {_RESUME}"),
    errno.EACCES: ("no permission", "choose another folder with --out, or make this one writable"),
    errno.EPERM: ("no permission", "choose another folder with --out, or make this one writable"),
    errno.EROFS: ("the file system is read-only", "choose another folder with --out"),
    errno.ENOTDIR: ("part of the path is a file, not a folder", "choose another folder with --out"),
    errno.EEXIST: ("a file of that name is in the way", "choose another folder with --out"),
}


def _is_full(path: Path) -> bool:
    place = next((folder for folder in (path, *path.parents) if folder.is_dir()), Path())
    return shutil.disk_usage(place).free < 2**16


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask
