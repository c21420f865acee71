"""Files written whole or not at all, and paths that mean something on another machine."""

from __future__ import annotations

import errno
import os
import re
import shlex
import shutil
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from limbeck.core.errors import LimbeckError
from limbeck.core.process import is_main

try:
    import fcntl
except ImportError:
    fcntl = None  # type: ignore[assignment]

SETTLED_SECONDS, STALE_SECONDS = 1.0, 3600.0  # ages at which a part is marked as held, and past all doubt left behind


@contextmanager
def atomic(path: Path | str) -> Iterator[Path]:
    """Yields a temporary path beside `path`, and puts it in place when the block ends well.

    Only the main process writes: in the others the path is elsewhere, and what is written there is thrown away."""
    path = Path(path)
    if not is_main():
        with tempfile.TemporaryDirectory() as scratch:
            yield Path(scratch) / path.name
        return
    with explained(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        handle, name = tempfile.mkstemp(prefix=f".{path.name}.", suffix=".part", dir=path.parent)
        part = Path(name)
        try:
            if fcntl is None:
                os.close(handle)
            else:
                with suppress(OSError):  # a file system without locks
                    fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)  # held while this process lives: see sweep
            yield part
            with part.open("rb") as written:
                os.fsync(written.fileno())
            os.chmod(part, 0o666 & ~_umask())
            os.replace(part, path)
        finally:
            if fcntl is not None:
                os.close(handle)
            part.unlink(missing_ok=True)


def sweep(folder: Path) -> None:
    """Deletes what killed processes left half-written."""
    for part in folder.glob(".*.part"):
        with suppress(OSError):  # held, gone, or in a folder that cannot be written
            age = time.time() - part.stat().st_mtime
            if age > STALE_SECONDS or (age > SETTLED_SECONDS and _is_free(part)):
                part.unlink()


def _is_free(part: Path) -> bool:
    """Whether the process that wrote it is gone."""
    if fcntl is None:
        return False
    with part.open("rb") as file:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)  # raises an OSError while it is held
    return True


@contextmanager
def atomic_folder(path: Path | str) -> Iterator[Path]:
    """Yields an empty folder beside `path`, and puts it in place when the block ends well.

    In every process: where ranks share the path, only the main one may call it."""
    path = Path(path)
    with explained(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        part = Path(tempfile.mkdtemp(prefix=f".{path.name}.", dir=path.parent))
        try:
            yield part
            make_readable(part)
            if path.exists():
                shutil.rmtree(path)
            part.rename(path)
        finally:
            shutil.rmtree(part, ignore_errors=True)


def make_readable(folder: Path) -> None:
    """Lets others read a folder, as far as the umask does: safetensors and tempfile write for their owner alone."""
    allowed = ~_umask()
    folder.chmod(0o777 & allowed)
    for path in folder.rglob("*"):
        path.chmod((0o777 if path.is_dir() else 0o666) & allowed)


@contextmanager
def locked(path: Path | str, timeout: float = -1) -> Iterator[None]:
    """Holds the lock file `path`, waiting for it; the operating system frees it when its holder dies.

    The file stays: whoever waits for one that is deleted waits beside those who make it anew. Processes other than the
    main one write nothing, so they hold nothing. A `timeout` in seconds ends in filelock's Timeout."""
    if not is_main():
        yield
        return
    from filelock import FileLock

    with FileLock(path, timeout=timeout):
        yield


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
    """A command line with portable paths, also behind the = of a flag."""
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


def portable_texts(value: Any) -> Any:
    """Sentences, alone or inside lists and tables, with portable paths where they name an absolute one that exists."""
    if isinstance(value, Mapping):
        return {key: portable_texts(inner) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [portable_texts(inner) for inner in value]
    return _PATH.sub(_portable_match, value) if isinstance(value, str) else value


_PATH = re.compile(r"(?<![\w./~-])/[^\s;,()\[\]\"']*[^\s;,.:()\[\]\"']")


def _portable_match(found: re.Match[str]) -> str:
    return portable(found[0]) if os.path.exists(found[0]) else found[0]
