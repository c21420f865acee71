"""The knobs of a search for a winning ticket."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, Literal, Self

from pydantic import field_validator, model_validator

from limbeck.core.errors import KnobError
from limbeck.core.knob import knob
from limbeck.core.task import IMAGE_KINDS
from limbeck.data.settings import DataSettings
from limbeck.jobs.settings import TrainRun
from limbeck.passes.magnitude import Magnitude
from limbeck.training.schedule import Schedule

LENET = Magnitude(fraction=0.2, head=0.5)  # Frankle and Carbin 2019
ENCODER = Magnitude(fraction=0.1, scope="global", part_of="all", head=0.0)  # Chen et al. 2020
EQUAL_STEPS = Schedule(keep="last", patience=0)  # every round trains as long, and prunes what it ends with


class TicketRun(TrainRun):
    """Train, prune, rewind, again and again, to find a sparse model that learns as well as the whole one."""

    fixed: ClassVar[frozenset[str]] = frozenset({"ticket", "control"})

    seeds: int = knob(
        1,
        "how many seeds to search with, each for a ticket of its own; counted up from --seed",
        at_least=1,
        short="--seeds",
    )
    rounds: int = knob(9, "rounds of training and pruning", at_least=1, short="--rounds", source="Chen 2020, 10 % each")
    train: Schedule = knob(EQUAL_STEPS, "how every round trains")
    magnitude: Magnitude = knob(
        ENCODER,
        "what goes in each round; of encoders 10 % of all weights, smallest first, the head spared; of images 20 % of "
        "the living weights of each layer, of the last one half as many",
    )
    rewind: Literal["weights", "rate"] = knob(
        "weights", "after pruning, weights go back to their start; or only the learning rate begins anew"
    )
    rewind_to: float = knob(
        0.0, "epochs of training before the weights that are rewound to; 0: the very start", at_least=0
    )
    head_epochs: float = knob(
        0.0,
        "epochs in which only a new head learns, before anything else; the encoder's start stays as it was",
        at_least=0,
    )
    prune: Literal["trained", "start"] = knob(
        "trained", "whose magnitudes decide what goes: those of the trained weights, or of the start itself"
    )
    one_shot: str = knob(
        "",
        "prune after the first training alone, as much as so many rounds would, and train what is left; several "
        "comma-separated and rising, as in 3,7,9, are trained one after another",
    )

    @property
    def one_shot_rounds(self) -> list[int]:
        return [int(part) for part in self.one_shot.split(",") if part.strip()]

    @property
    def seed_list(self) -> list[int]:
        return list(range(self.seed, self.seed + self.seeds))

    @property
    def notes(self) -> tuple[str, ...]:
        """What a reader of the paper on encoders asks first."""
        if self.data.task in IMAGE_KINDS:
            return ()
        decay = "stays at its peak" if self.train.decay == "constant" else "falls to 0"
        rate = f"Every round is a whole training: its learning rate rises and {decay} (Chen et al.'s code: hardly)."
        if self.rewind == "rate":
            return (rate, "Neither the weights nor the head are rewound, only the learning rate.")
        return (
            rate,
            "The head is rewound too, to where its own training began (Chen et al.'s code leaves it trained).",
        )

    @field_validator("one_shot")
    @classmethod
    def _check_one_shot(cls, value: str) -> str:
        parts = [part.strip() for part in value.split(",")] if value else []
        numbers = [int(part) for part in parts if part.isdecimal()]
        if len(numbers) < len(parts) or numbers != sorted({*numbers} - {0}):
            raise ValueError("numbers of rounds, rising and comma-separated, as in 3,7,9")
        return ",".join(parts)

    @model_validator(mode="before")
    @classmethod
    def _over_defaults(cls, values: Mapping[str, Any]) -> dict[str, Any]:
        """What nobody says of pruning and training is as it is for tickets, not as it is elsewhere."""
        task = DataSettings.task_in(values.get("data"))
        tables = {"magnitude": LENET if task in IMAGE_KINDS else ENCODER, "train": EQUAL_STEPS}
        own = {name: table.model_dump(exclude_unset=True) for name, table in tables.items()}
        said = {name: values.get(name, {}) for name in own}
        merged = {name: {**own[name], **said[name]} for name in own if isinstance(said[name], Mapping)}
        return {**values, **merged}

    @model_validator(mode="after")
    def _check_rounds(self) -> Self:
        prune = self.magnitude
        if self.one_shot and (self.rewind == "rate" or self.rewind_to or self.head_epochs):
            raise KnobError(
                "one-shot pruning takes weights back to their very start", "leave out --rewind and --head-epochs"
            )
        if self.one_shot and self.prune == "start":
            raise KnobError("one-shot pruning judges weights by their training", "leave out --one-shot, or --prune")
        most = max(self.one_shot_rounds, default=self.rounds)
        if prune.part_of == "all" and round(prune.fraction * most, 9) >= 1:
            raise KnobError(
                f"{most} rounds of {100 * prune.fraction:g} % leave nothing",
                "ask for fewer --rounds, or lower --magnitude.fraction",
            )
        if self.prune == "start" and self.rewind == "rate":
            raise KnobError(
                "the start's magnitudes cannot decide where weights are never taken back to it",
                "leave --rewind at weights, or --prune at trained",
            )
        return self
