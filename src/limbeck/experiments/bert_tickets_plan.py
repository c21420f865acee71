"""The grid of the encoder tickets: which searches, transfers and controls there are, as far as is known."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Literal, Self

from pydantic import field_validator, model_validator

from limbeck.core.errors import KnobError
from limbeck.core.knob import Settings, knob
from limbeck.core.record import Record
from limbeck.data.sources.demo import demo_model
from limbeck.experiments.bert_tickets_data import GLUE, Flags, data_flags, embedded, small_encoder
from limbeck.experiments.experiment import RECORD_FILE, Conditions, Part
from limbeck.report import levels

TARGETS = {"sst2": "SST-2", "mrpc": "MRPC", "stsb": "STS-B"}
SOURCES = {
    **TARGETS,
    "mlm": "masked LM",
    "start": "pre-trained weights",
    "sst2-2500": "SST-2, 2,500 rows",
    "sst2-all": "SST-2, all rows",
}
CONTROLS = {"random": "random mask", "reinit": "re-initialised", "shuffled": "shuffled weights"}
# Rows that MiniLM-L6 learns in a second on one core, and rows of each source: by which progress is told.
SPEED = {"sst2": 106.0, "mrpc": 26.0, "stsb": 51.0, "mlm": 8.3}
FASTER = {"fp32": 1.0, "bf16": 2.0}  # on a processor with instructions for bfloat16
ROWS = {"mrpc": 3668, "stsb": 5749, "sst2-2500": 2500, "sst2-all": 67349}
QUICK: dict[str, object] = {
    "epochs": 3,
    "head_epochs": 1,
    "step": 35,
    "rounds": 2,
    "rows": 240,
    "common": False,
    "targets": "sst2,mrpc",
    "sources": "sst2,mrpc,mlm,start",
    "controls": "random",
}  # a quick run's, as far as nobody sets them


class Grid(Settings):
    """How much of the experiment is run. What is free may change when it goes on: parts that are done stay done."""

    epochs: float = knob(3.0, "epochs of every training", above=0, source="Chen 2020")
    all_epochs: float = knob(1.0, "epochs of every training on all rows of SST-2", above=0)
    head_epochs: float = knob(3.0, "epochs in which masked LM's head learns alone", above=0)
    step: int = knob(10, "per cent of all weights that go in each round", at_least=1, at_most=50, source="Chen 2020")
    rounds: int = knob(9, "rounds of every target's search", at_least=1)
    seed_rounds: int = knob(0, "rounds of the searches of further seeds; 0: as many", at_least=0, free=True)
    rows: int = knob(10_000, "rows of SST-2", at_least=100)
    precision: Literal["fp32", "bf16"] = knob("fp32", "arithmetic of every training, as --train.precision has it")
    blocks: int = knob(2_000, "blocks of 128 tokens that masked LM learns from", at_least=10)
    targets: str = knob("sst2,mrpc,stsb", "tasks that are learnt from tickets", free=True)
    sources: str = knob(",".join(SOURCES), "whose tickets they are", free=True)
    sparsity: int = knob(70, "per cent pruned in the matrix of one seed", at_least=1, below=100, source="Chen 2020")
    common: bool = knob(
        True, "also the matrix of all seeds, at the highest sparsity that every target matches", free=True
    )
    common_sources: str = knob("", "sources in that matrix; empty: all", free=True)
    controls: str = knob("random,reinit,shuffled", "controls of every target", free=True)
    controls_at: Literal["both", "matching"] = knob(
        "both", "at the sparsity that a target matches; both: also at that of the matrix of one seed", free=True
    )
    control_seeds: int = knob(1, "seeds of every control", at_least=1, free=True)

    @field_validator("targets", "sources", "common_sources", "controls")
    @classmethod
    def _check_names(cls, value: str) -> str:
        names = [part.strip() for part in value.split(",") if part.strip()]
        if unknown := [name for name in names if name not in {**SOURCES, **CONTROLS}]:
            raise ValueError(f"names among {', '.join((*SOURCES, *CONTROLS))}, not {unknown[0]}")
        return ",".join(names)

    @model_validator(mode="after")
    def _check_sparsity(self) -> Self:
        if self.sparsity % self.step or self.sparsity > self.step * self.rounds:
            raise KnobError(
                f"{self.rounds} rounds of {self.step} % have no sparsity of {self.sparsity} %",
                f"choose a multiple of {self.step} up to {self.step * min(self.rounds, 99 // self.step)}",
            )
        return self

    def names(self, knob: str) -> list[str]:
        return [name for name in getattr(self, knob).split(",") if name]


@dataclass(frozen=True)
class Plan:
    """The parts of the experiment, as far as what is finished tells which they are."""

    conditions: Conditions
    grid: Grid

    @cached_property
    def files(self) -> dict[str, Path]:
        data = self.conditions.data or embedded(self.conditions.out / "embedded")
        return GLUE.find(data)

    @cached_property
    def model(self) -> str:
        if self.conditions.quick and not self.conditions.model:
            return str(small_encoder(self.conditions.out / "encoder"))
        return str(self.conditions.model or demo_model())

    @property
    def seeds(self) -> range:
        return range(self.conditions.seeds)

    @property
    def targets(self) -> list[str]:
        return self.grid.names("targets")

    @property
    def others(self) -> list[str]:
        """Sources that are no targets, cheap ones first."""
        chosen = [name for name in self.grid.names("sources") if name not in self.targets]
        return sorted(chosen, key=lambda name: 0.0 if name == "start" else self._seconds(name))

    @property
    def every(self) -> list[str]:
        return [*self.targets, *self.others]

    @property
    def in_common(self) -> list[str]:
        """Sources in the matrix of all seeds."""
        chosen = self.grid.names("common_sources")
        return [name for name in self.every if not chosen or name in chosen]

    def parts(self) -> list[Part]:
        """The matrix of one seed first, then more seeds, then what the matching sparsity tells."""
        at = self.grid.sparsity // self.grid.step
        found = [self.search(name, 0, self.grid.rounds) for name in self.targets]
        found += [self.search(name, 0, at) for name in self.others]
        found += self.transfers(self.grid.sparsity, [0])
        further = self.grid.seed_rounds or self.grid.rounds
        found += [self.search(name, seed, further) for seed in self.seeds[1:] for name in self.targets]
        at_fixed = self.grid.controls_at == "both"  # else they wait for the sparsity that the target matches
        for target in (target for target in self.targets if at_fixed or self.is_searched(target)):
            found += [part for percent in self.controlled(target) for part in self.controls(target, percent)]
        if self.grid.common and (common := self.common()):
            others = [name for name in self.in_common if name not in self.targets]
            found += [self.search(name, seed, common // self.grid.step) for name in others for seed in self.seeds[1:]]
            found += self.transfers(common, self.seeds, self.in_common)
        once: dict[str, Part] = {}
        for part in found:
            once.setdefault(part.name, part)
        return list(once.values())

    def search(self, source: str, seed: int, rounds: int) -> Part:
        if source == "start":  # whose magnitudes need no training, and no seed
            cheap = ("--prune", "start", "--max-steps", 1, "--data.limit-test", 64, "--data.limit-dev", 64)
            flags: Flags = (*self._data(self.targets[0]), *cheap)
            seed, rounds = 0, self.grid.sparsity // self.grid.step
        else:
            head = ("--head-epochs", self.grid.head_epochs) if source == "mlm" else ()
            flags = (*self._data(source), "--epochs", self._epochs(source), *head)
        pruned = ("--rounds", rounds, "--magnitude.fraction", self.grid.step / 100)
        seconds = 60.0 if source == "start" else (rounds + 1) * self._seconds(source)
        return Part(search_name(source, seed), "tickets", (*flags, *self._training(seed), *pruned), seconds=seconds)

    def transfers(self, percent: int, seeds: Sequence[int], sources: Sequence[str] = ()) -> Iterator[Part]:
        for seed in seeds:
            for source in sources or self.every:
                own = search_name(source, 0 if source == "start" else seed)
                for target in (target for target in self.targets if target != source):
                    if source != "mlm" or self.finished(own):  # its ticket is completed before it is used
                        name = transfer_name(source, target, percent, seed)
                        yield self._cell(name, target, seed, self.ticket(source, percent, seed), own)

    def controls(self, target: str, percent: int) -> Iterator[Part]:
        for seed in self.seeds[: self.grid.control_seeds]:
            for control in self.grid.names("controls"):
                ticket, own = self.ticket(target, percent, seed), search_name(target, seed)
                yield self._cell(control_name(target, control, percent, seed), target, seed, ticket, own, control)

    def _cell(self, name: str, target: str, seed: int, ticket: Path, after: str, control: str = "none") -> Part:
        use = ("--ticket", ticket, "--control", control, "--epochs", self._epochs(target))
        equal = ("--train.keep", "last", "--train.patience", 0)  # as in the rounds of a search
        flags = (*self._data(target), *self._training(seed), *equal, *use)
        return Part(name, "train", flags, after=(after,), seconds=self._seconds(target))

    def _training(self, seed: int) -> Flags:
        measured = ("--train.evals-per-epoch", 1, "--measure.no-speed", "--measure.bootstrap", 100)
        return "--model", self.model, "--seed", seed, "--train.precision", self.grid.precision, *measured

    def _data(self, source: str) -> Flags:
        return data_flags(self.files, source, self.grid.rows, self.grid.blocks, 48 if self.conditions.quick else 128)

    def _epochs(self, source: str) -> float:
        return self.grid.all_epochs if source == "sst2-all" else self.grid.epochs

    def _seconds(self, source: str) -> float:
        """Of one training, about."""
        if self.conditions.quick:
            return 8.0
        rows = self.grid.blocks if source == "mlm" else ROWS.get(source, self.grid.rows)
        return 20 + rows * self._epochs(source) / (SPEED[source.partition("-")[0]] * FASTER[self.grid.precision])

    # What is known so far.

    def finished(self, part: str) -> bool:
        return (self.conditions.out / part / RECORD_FILE).is_file()

    def record(self, part: str) -> Record | None:
        return self.conditions.record(part) if self.finished(part) else None

    def searched(self, source: str, seeds: Sequence[int] | None = None) -> Record | None:
        """The finished searches of a source as one Record, a run for each seed."""
        names = [search_name(source, seed) for seed in (self.seeds if seeds is None else seeds)]
        found = [record for name in names if (record := self.record(name))]
        if not found:
            return None
        runs = [run for record in found for run in record.arms[0].runs]
        arm = found[0].arms[0].model_copy(update={"runs": runs})
        return found[0].but(arms=[arm], seeds=[run.seed for run in runs])

    def is_searched(self, target: str) -> bool:
        return all(self.finished(search_name(target, seed)) for seed in self.seeds)

    def matching(self, target: str) -> int | None:
        """Per cent that may go, when all seeds are searched; None where that is not known, or nothing matches."""
        record = self.searched(target) if self.is_searched(target) else None
        found = levels.matching(record, record.arms[0]) if record else None
        return round(100 * found.pruned) if found else None

    def common(self) -> int | None:
        """The highest sparsity that every target matches; at most that of the other sources' searches."""
        found = [self.matching(target) for target in self.targets]
        return min([*filter(None, found), self.grid.sparsity]) if all(found) else None

    def controlled(self, target: str) -> list[int]:
        """Per cent that are pruned in its controls."""
        matching, fixed = self.matching(target) or self.grid.sparsity, self.grid.sparsity
        return [matching] if self.grid.controls_at == "matching" else sorted({matching, fixed})

    def ticket(self, source: str, percent: int, seed: int) -> Path:
        """The file; that of masked LM, which has no pooler, with the pooler pruned by its own magnitudes."""
        seed = 0 if source == "start" else seed
        home = self.conditions.out / search_name(source, seed)
        name = f"round-{percent // self.grid.step:02d}.safetensors"
        file = home / "arms" / f"model-seed{seed}" / "tickets" / name
        if source != "mlm":
            return file
        whole = home / "completed" / name
        if not whole.exists():
            from transformers import AutoModelForSequenceClassification

            from limbeck.core.ticket import Ticket
            from limbeck.students.model_folder import quiet

            with quiet():
                model = AutoModelForSequenceClassification.from_pretrained(self.model)
            Ticket.load(file).completed(model).save(whole)
        return whole


def search_name(source: str, seed: int) -> str:
    return f"tickets/{source}/seed-{seed}"


def transfer_name(source: str, target: str, percent: int, seed: int) -> str:
    return f"transfer/{percent}/{source}-to-{target}/seed-{seed}"


def control_name(target: str, control: str, percent: int, seed: int) -> str:
    return f"controls/{percent}/{target}-{control}/seed-{seed}"


def plan_of(conditions: Conditions) -> Plan:
    assert isinstance(conditions.knobs, Grid)
    return Plan(conditions, conditions.knobs)
