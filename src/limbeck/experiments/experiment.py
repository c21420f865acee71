"""A paper's experiment: which jobs it is made of, which figures the paper prints, and what they say of ours.

A paper is one file with an `experiment(Experiment(...))`. `parts` names the jobs as a person would type them, each in a
folder of its own; `conclude` makes the experiment's Record of theirs.
"""

from __future__ import annotations

import difflib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from limbeck.core.card import Paper
from limbeck.core.errors import DataError, KnobError
from limbeck.core.knob import Settings
from limbeck.core.record import Record

PLACE = Path("runs/reproduce")
RECORD_FILE = "record.json"
QUICK = "a quick run: figures say nothing about the paper"


@dataclass(frozen=True)
class Needs:
    """The data of an experiment: a folder with these files, packed by gzip or not."""

    title: str  # "MNIST"
    files: tuple[str, ...]
    where: str  # to get them
    embedded: str = ""  # what --quick takes where no folder is named

    def find(self, folder: Path) -> dict[str, Path]:
        """Each file by its name here, or a refusal that names what is missing."""
        if not folder.is_dir():
            raise DataError(f"there is no folder {folder}", f"name the one with {self.title}, from {self.where}")
        found = {name: self.file(folder, name) for name in self.files}
        missing = [name for name, path in found.items() if path is None]
        if missing:
            raise DataError(
                f"{folder} has no {' and no '.join(missing)}",
                f"put the files of {self.title} there, as they are or as .gz, from {self.where}",
            )
        return {name: path for name, path in found.items() if path}

    @staticmethod
    def file(folder: Path, name: str) -> Path | None:
        return next((path for path in (folder / name, folder / f"{name}.gz") if path.is_file()), None)


@dataclass(frozen=True)
class Conditions:
    """Under which an experiment runs."""

    out: Path
    data: Path | None = None  # None: the embedded data of a quick run
    quick: bool = False
    seeds: int = 1
    model: str = ""  # the pre-trained one that it starts from
    network: str = ""  # of those that it knows
    knobs: Settings = field(default_factory=Settings)  # the experiment's own

    def record(self, part: str) -> Record:
        return Record.load(self.out / part)


@dataclass(frozen=True)
class Part:
    """A job of an experiment, as a person would type it: `limbeck VERB FLAGS --out OUT/NAME`."""

    name: str  # its folder; parts of one seed may share an outer one: "seed-0/teacher"
    verb: str
    flags: tuple[object, ...]
    after: tuple[str, ...] = ()  # parts that must be finished first
    seconds: float = 60.0  # about; by which progress is told


@dataclass(frozen=True)
class Experiment:
    name: str
    title: str
    paper: Paper
    shows: str  # in one line
    needs: Needs
    cost: str  # on two cores, in full
    quick_cost: str
    parts: Callable[[Conditions], Sequence[Part]]  # more of them may be known when these are finished
    conclude: Callable[[Conditions], Record]  # when all parts are finished
    seeds: int = 3
    quick_seeds: int = 1
    options: Mapping[str, str] = field(default_factory=dict)  # further flags that it takes, and what is meant unset
    knobs: type[Settings] = Settings  # its own, for --set NAME=VALUE
    quick_knobs: Mapping[str, object] = field(default_factory=dict)  # of a quick run, as far as nobody sets them
    partial: bool = False  # `conclude` also takes what is not finished; knobs that are free, and seeds, may change

    def place(self, quick: bool) -> Path:
        """The folder, where a person names none: a quick run never stands in the way of the whole one."""
        return PLACE / (f"{self.name}-quick" if quick else self.name)

    def state(self, home: Path = Path()) -> str:
        """What lies in the default folders, for a list."""
        for quick in (False, True):
            place, how = self.place(quick), ", quick" if quick else ""
            if (home / place / RECORD_FILE).is_file():
                return f"finished in {place}{how}"
            done = len(list((home / place).glob(f"**/{RECORD_FILE}")))
            if (home / place).is_dir():
                return f"begun in {place}{how}: {done} part{'s' * (done != 1)} finished"
        return "no Record here"


EXPERIMENTS: dict[str, Experiment] = {}


def experiment(plan: Experiment) -> Experiment:
    EXPERIMENTS[plan.name] = plan
    return plan


def find(name: str) -> Experiment:
    if name not in EXPERIMENTS:
        close = difflib.get_close_matches(name, EXPERIMENTS, n=1, cutoff=0.4)
        hint = f"did you mean '{close[0]}'? " if close else ""
        known = ", ".join(EXPERIMENTS)
        raise KnobError(
            f"there is no experiment '{name}'", f"{hint}choose among {known}; `limbeck reproduce` lists them"
        )
    return EXPERIMENTS[name]
