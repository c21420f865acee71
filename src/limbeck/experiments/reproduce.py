"""The job behind `limbeck reproduce`: the parts of an experiment, then its Record and page."""

from __future__ import annotations

from collections.abc import Mapping, Set
from dataclasses import asdict, replace
from pathlib import Path
from types import MappingProxyType

from limbeck.core.checksum import DamagedError, read_sealed, write_sealed
from limbeck.core.errors import DataError, KnobError, MismatchError
from limbeck.core.files import portable_command
from limbeck.core.knob import Settings, free_knobs
from limbeck.core.progress import Silent, Watcher
from limbeck.core.record import Citation, Record
from limbeck.experiments.experiment import QUICK, RECORD_FILE, Conditions, Experiment
from limbeck.experiments.running import is_finished, run_parts
from limbeck.jobs.folder import locked
from limbeck.jobs.measured import now
from limbeck.report import Report

CONDITIONS_FILE, SO_FAR_FILE = "reproduce.json", "so-far.json"


def conditions_of(
    plan: Experiment,
    *,
    data: str | Path | None = None,
    out: str | Path | None = None,
    quick: bool = False,
    seeds: int = 0,
    knobs: Mapping[str, object] = MappingProxyType({}),
    **options: str,
) -> Conditions:
    """What a person asks for, checked and filled in, before anything is begun."""
    foreign = [name for name, value in options.items() if value and name not in plan.options]
    if foreign:
        raise KnobError(f"{plan.name} has no --{foreign[0]}", "leave it out")
    if data is None and not quick:
        raise DataError(
            f"{plan.name} needs {plan.needs.title}",
            f"name its folder with --data ({', '.join(plan.needs.files)}, from {plan.needs.where}), or try --quick",
        )
    if data is not None:
        plan.needs.find(Path(data))
    folder = Path(data).resolve() if data is not None else None
    chosen = {name: options.get(name) or unset for name, unset in plan.options.items()}
    seeds = seeds or (plan.quick_seeds if quick else plan.seeds)
    own = plan.knobs(**{**(plan.quick_knobs if quick else {}), **knobs})
    return Conditions(Path(out or plan.place(quick)), folder, quick, seeds, knobs=own, **chosen)


def reproduce(
    plan: Experiment, conditions: Conditions, workers: int = 2, watcher: Watcher | None = None, command: str = ""
) -> Record:
    """Runs the experiment in `conditions.out`, or what is left of it. The Record holds the paper's figures and ours."""
    watcher, out = watcher or Silent(), conditions.out.resolve()
    with locked(out, resume=True):
        free = {*free_knobs(plan.knobs), *(("seeds",) if plan.partial else ())}
        if _write_or_match(out, conditions, free) and (out / RECORD_FILE).exists():
            return Record.load(out)
        here = replace(conditions, out=out)
        if conditions.quick:
            watcher.say(QUICK)
        while any(not is_finished(out, part) for part in plan.parts(here)):  # what is finished may tell of more
            run_parts(plan.parts(here), out, plan.name, workers, watcher)
        record = _labelled(plan.conclude(here), plan, conditions, command)
        Report((record,)).save(out / "report.html")
        record.save(out / RECORD_FILE)
        watcher.at(plan.name, 1.0)
        return record


def so_far(plan: Experiment, conditions: Conditions, command: str = "") -> Record:
    """The Record and page of what is finished, also while the experiment runs; nothing is run."""
    if not plan.partial:
        raise KnobError(f"{plan.name} has nothing to show before it is finished", "leave out --so-far")
    out = conditions.out.resolve()
    record = _labelled(plan.conclude(replace(conditions, out=out)), plan, conditions, command)
    Report((record,)).save(out / "report.html")
    record.save(out / SO_FAR_FILE)
    return record


def _labelled(record: Record, plan: Experiment, conditions: Conditions, command: str) -> Record:
    paper = Citation(text=str(plan.paper), bibtex=plan.paper.bibtex())
    others = [cited for cited in record.citations if cited.text != paper.text]
    return record.but(
        name=plan.name,
        created=now(),
        command=portable_command(command or f"limbeck reproduce {plan.name}"),
        quick=conditions.quick,
        citations=[paper, *others],
    )


def _write_or_match(out: Path, conditions: Conditions, free: Set[str] = frozenset()) -> bool:
    """An experiment that is resumed must be the same: a folder never mixes quick parts with whole ones.

    What is `free` may change. Whether nothing changed."""
    file = out / CONDITIONS_FILE
    plain = asdict(replace(conditions, knobs=Settings()))
    told = {name: str(value) if isinstance(value, Path) else value for name, value in plain.items()}
    del told["out"], told["knobs"]
    told |= conditions.knobs.model_dump()
    if not file.exists():
        write_sealed(file, told)
        return False
    try:
        before = read_sealed(file)
    except DamagedError as error:
        raise MismatchError(f"{file} is damaged: {error}", "choose another folder with --out") from None
    others = [name for name in told if told[name] != before.get(name)]
    changed = [f"{name}: {before.get(name)} → {told[name]}" for name in others if name not in free]
    if changed:
        raise MismatchError(
            f"{out} was begun with other settings ({'; '.join(changed)})",
            "go on with the same ones, or choose another folder with --out",
        )
    if others:
        write_sealed(file, told)
    return not others
