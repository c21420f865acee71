"""The folder of a run: one run at a time, never over another's, and resumable. Only the main process writes."""

from __future__ import annotations

import errno
import shutil
import tempfile
import tomllib
import weakref
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryFile
from typing import TYPE_CHECKING, Any

from limbeck.core.checksum import DamagedError, read_sealed, write_sealed
from limbeck.core.errors import LimbeckError, MismatchError
from limbeck.core.files import explained, write_text
from limbeck.core.process import barrier, is_main
from limbeck.jobs.settings import Job, differences, read_run, run_checksum, write_run
from limbeck.students.model_folder import quiet, save_folder

if TYPE_CHECKING:
    from limbeck.tasks.base import Model

RUN_FILE = "run.toml"
RECORD_FILE = "record.json"
LOCK_FILE = ".lock"
PRINTS_FILE = "fingerprints.json"  # of what the run reads: knobs name files, and files change


class TemporaryFolder:
    """A folder for a run without one: it is there as long as its holder, at most until Python ends."""

    def __init__(self) -> None:
        self.path = Path(tempfile.mkdtemp(prefix="limbeck-"))
        weakref.finalize(self, shutil.rmtree, self.path, ignore_errors=True)


@contextmanager
def locked(out: Path | str, *, resume: bool) -> Iterator[Path]:
    """The folder, made and locked. A folder that holds a run is entered only to resume it."""
    folder = Path(out)
    if not is_main():
        yield folder
        return
    new = not folder.exists()
    with explained(folder):
        folder.mkdir(parents=True, exist_ok=True)
        probe = folder / ".write-test"
        probe.touch()
        probe.unlink()
    try:
        with _held(folder / LOCK_FILE):
            try:
                _refuse_other_run(folder, resume)
                yield folder
            finally:
                # Unlinked while it is held: a run that comes now makes a lock of its own.
                (folder / LOCK_FILE).unlink(missing_ok=True)
    finally:
        if new and not any(folder.iterdir()):
            folder.rmdir()


@contextmanager
def _held(lock: Path) -> Iterator[None]:
    from filelock import FileLock, Timeout

    try:
        held = FileLock(lock)
        held.acquire(timeout=0)
    except Timeout:
        raise LimbeckError(
            f"another run is writing to {lock.parent}", "wait for it, or choose another folder with --out"
        ) from None
    try:
        yield
    finally:
        held.release()


def check_out(folder: Path, *, resume: bool) -> None:
    """Refuses what `locked` would, and leaves nothing behind."""
    with explained(folder):
        place = next(each for each in (folder, *folder.absolute().parents) if each.exists())
        if not place.is_dir():
            raise OSError(errno.EEXIST if place == folder else errno.ENOTDIR, "")
        with TemporaryFile(dir=place):  # or the system says why not
            pass
    if (folder / LOCK_FILE).exists():
        with _held(folder / LOCK_FILE):
            pass
    _refuse_other_run(folder, resume)


def _refuse_other_run(folder: Path, resume: bool) -> None:
    if not resume and (folder / RUN_FILE).exists():
        done = (folder / RECORD_FILE).exists()
        raise LimbeckError(
            f"{folder} already holds {'a finished' if done else 'an unfinished'} run",
            f"{'' if done else 'resume it with --resume, or '}choose another folder with --out",
        )


def write_or_match_run(folder: Path, run: Job, fingerprints: Mapping[str, str]) -> None:
    """A new run is written to run.toml and fingerprints.json; one that is resumed must have the same knobs and inputs.

    Knobs that concern speed or display alone may differ. A column of a comparison that could not be built before is
    written down when it can."""
    file, prints = folder / RUN_FILE, folder / PRINTS_FILE
    written = write_run(run)
    if not file.exists():
        write_sealed(prints, {**fingerprints, RUN_FILE: [run_checksum(run, tomllib.loads(written))]})
        write_text(file, written)
        return
    table = read_run(file)
    before = _read_prints(prints) if prints.exists() else dict(fingerprints)
    begun, checksums = type(run)(**table), before.pop(RUN_FILE, None)
    if checksums is not None and run_checksum(begun, table) not in checksums:
        raise MismatchError(
            f"{file} is damaged, or was changed after the run wrote it",
            "put it back as it was, or choose another folder with --out",
        )
    then, now = begun.settled_as(run), run.settled_as(begun)
    if changed := differences(then, now):
        raise MismatchError(
            f"{folder} was started with other knobs ({'; '.join(changed[:4])})",
            "resume with the same ones, or choose another folder with --out",
        )
    new = {name for name in fingerprints.keys() - before.keys() if _untrained(folder, column=name.partition(" of ")[2])}
    other = [name for name in fingerprints if name not in new and fingerprints[name] != before.get(name)]
    if other:
        raise MismatchError(
            f"since {folder} was started its {' and '.join(other)} changed",
            "put the files back as they were, or choose another folder with --out",
        )
    rewritten = write_run(now)
    renewed = then != begun or now != then
    if new or renewed:  # a run killed between the two files finds the checksum of either
        now_too = {run_checksum(now, tomllib.loads(rewritten)), *(checksums or [])}
        write_sealed(prints, {**before, **fingerprints, RUN_FILE: sorted(now_too)})
    if renewed:
        write_text(file, rewritten)


def _read_prints(file: Path) -> dict[str, Any]:
    try:
        return read_sealed(file)
    except DamagedError as error:
        raise MismatchError(
            f"{file} is damaged, so whether teacher and data are still those of this run is not known: {error}",
            "delete it if they are, then --resume; or choose another folder with --out",
        ) from None


def _untrained(folder: Path, column: str) -> bool:
    """Neither with a teacher nor without: it was refused before, or never reached."""
    begun = [path for name in (column, f"plain-{column}") for path in (folder / "arms").glob(f"{name}-seed*")]
    return bool(column) and not begun


def publish(model: Path, place: Path, card: str = "") -> None:
    """A copy of a model folder, with its card, in place in one move."""
    if is_main():
        with _moved_to(place) as part:
            shutil.copytree(model, part)
            if card:
                (part / "README.md").write_text(card, encoding="utf-8")
    barrier()


def ensure_saved(model: Model, place: Path) -> Path:
    """The folder of a model; one that is not in a folder of its own is saved in `place`."""
    if model.source and Path(model.source).is_dir():
        return Path(model.source)
    if is_main():
        with _moved_to(place) as part, quiet():
            save_folder(model.network, model.processor, part)
    barrier()
    return place


@contextmanager
def _moved_to(place: Path) -> Iterator[Path]:
    """A new folder beside `place`, which replaces it at the end. What a killed run left of one is deleted."""
    part = place.with_name(f".{place.name}.part")
    with explained(place):
        shutil.rmtree(part, ignore_errors=True)
        yield part
        shutil.rmtree(place, ignore_errors=True)
        part.rename(place)
