"""A teacher and its student by the command line, and the Record of it, kept without examples."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import MappingProxyType

from limbeck.core.record import Record
from limbeck.data.sources.demo import demo_model
from limbeck.experiments import find
from limbeck.experiments.reproduce import conditions_of, reproduce
from limbeck.report import Report

HOME = Path(__file__).resolve().parent
WORK = HOME.parent / ".bench"  # large and made again at will; not in git


def tell(
    name: str, data: Sequence[object], teacher: Sequence[object], student: Sequence[object], seeds: int = 3
) -> Record:
    """`limbeck train`, `limbeck distill`. What is finished in .bench is not done again; delete it to start anew."""
    place = WORK / name
    limbeck("train", place / "teacher", "--model", demo_model(), *data, *teacher, "--measure.no-speed")
    made = ["--teacher", place / "teacher" / "model", *data, *student]
    limbeck("distill", place / "student", *made, "--seeds", seeds, "--measure.examples", "0")
    return publish(Record.load(place / "student"), name)


def limbeck(verb: str, out: Path, *flags: object) -> None:
    if (out / "record.json").exists():
        return
    resume = ["--resume"] if (out / "run.toml").exists() else []
    command = [sys.executable, "-m", "limbeck", verb, "--out", out, *flags, *resume]
    subprocess.run([str(word) for word in command], check=True)


def reproduced(
    name: str, data: Path, place: Path, knobs: Mapping[str, object] = MappingProxyType({}), **options: str
) -> Record:
    """A paper's experiment, as `limbeck reproduce` runs it."""
    plan = find(name)
    chosen = [f"--{option} {value}" for option, value in options.items()]
    chosen += [f"--set {knob}={value}" for knob, value in knobs.items()]
    command = " ".join([f"limbeck reproduce {name} --data {data} --out {place}", *chosen])
    return reproduce(plan, conditions_of(plan, data=data, out=place, knobs=knobs, **options), command=command)


def publish(record: Record, name: str) -> Record:
    """The Record and its page in benchmarks/results, with paths as seen from the project's folder."""
    text = record.model_dump_json()
    for folder, seen in ((HOME.parent, "."), (HOME.parent.parent, "..")):
        text = text.replace(f"{folder}/", f"{seen}/")
    published = Record.model_validate_json(text).but(name=name)
    published.save(HOME / "results" / f"{name}.json")
    Report((published,)).save(HOME / "results" / f"{name}.html")
    return published
