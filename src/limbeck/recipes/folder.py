"""The folder of a run: one run at a time, never over another's, and resumable."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TypeVar

from filelock import FileLock, Timeout

from limbeck.core.errors import LimbeckError, MismatchError
from limbeck.core.files import explained, write_text
from limbeck.core.knob import Settings
from limbeck.recipes.run import differences, read_run, write_run

RUN_FILE = "run.toml"
RECORD_FILE = "record.json"
S = TypeVar("S", bound=Settings)

# What may change between a run and its continuation: it alters neither what is learnt nor what is measured.
_FREE = {"out"}


@contextmanager
def claimed(out: Path | str, *, resume: bool) -> Iterator[Path]:
    """The folder, made and locked. A folder that holds a run is entered only to resume it."""
    folder = Path(out)
    with explained(folder):
        folder.mkdir(parents=True, exist_ok=True)
        probe = folder / ".write-test"
        probe.touch()
        probe.unlink()
    lock = FileLock(folder / ".lock")
    try:
        lock.acquire(timeout=0)
    except Timeout:
        raise LimbeckError(
            f"another run is writing to {folder}", "wait for it, or choose another folder with --out"
        ) from None
    try:
        if not resume and (folder / RUN_FILE).exists():
            done = (folder / RECORD_FILE).exists()
            raise LimbeckError(
                f"{folder} already holds {'a finished' if done else 'an unfinished'} run",
                "choose another folder with --out"
                if done
                else "go on with it by --resume, or choose another folder with --out",
            )
        yield folder
    finally:
        lock.release()
        (folder / ".lock").unlink(missing_ok=True)


def agree(folder: Path, run: S) -> None:
    """Writes the run file, or, where one is, checks that this is the same run."""
    path = folder / RUN_FILE
    if path.exists():
        changed = [line for line in differences(type(run)(**read_run(path)), run) if line.split(":")[0] not in _FREE]
        if changed:
            raise MismatchError(
                f"{folder} was started with other knobs ({'; '.join(changed[:4])})",
                "resume with the same ones, or choose another folder with --out",
            )
    else:
        write_text(path, write_run(run))
