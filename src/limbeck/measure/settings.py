"""What is measured, and how carefully."""

from __future__ import annotations

from typing import Any

from pydantic import field_validator, model_validator

from limbeck.core.errors import KnobError
from limbeck.core.knob import Settings, knob

MIN_LENGTH = 4  # tokens: two words and what stands around them


class MeasureSettings(Settings):
    metric: str = knob(
        "",
        "what stops training, chooses the best model and leads the report: accuracy, f1_macro, pearson and so on; "
        "by default the task's own",
        short="--metric",
    )
    speed: bool = knob(
        True, "measure latency, throughput and peak memory, each model alone in a process of its own", free=True
    )
    speed_share: float = knob(
        0.2,
        "the most of a run that measuring speed may take; a run too short for it goes without. 1 is any, and what "
        "asking for `speed` by name means",
        above=0,
        at_most=1,
        free=True,
    )
    repeats: int = knob(3, "turns each model gets, in rotation; the median counts", at_least=1, free=True)
    rounds: int = knob(100, "texts timed one by one in each turn", at_least=5, free=True)
    batch_size: int = knob(32, "texts per batch when throughput is measured", at_least=1, free=True)
    threads: int = knob(0, "CPU threads while timing; 0 for OMP_NUM_THREADS, or else every core", at_least=0, free=True)
    lengths: str = knob(
        "auto",
        "token counts at which latency is measured too, as in 16,32,128, where a model reads so many; auto: "
        "16,32,64,128 in `limbeck bench`, none elsewhere",
        free=True,
    )
    bootstrap: int = knob(10_000, "resamples behind the interval of 'distillation helped'", at_least=100)
    examples: int = knob(40, "examples shown on which student and teacher part ways", at_least=0, free=True)

    at_lowest_loss: bool = knob(
        False, "also test every training at its lowest loss on dev, the early-stopping iteration of the literature"
    )

    @field_validator("lengths")
    @classmethod
    def _check_lengths(cls, value: str) -> str:
        found = [part.strip() for part in value.split(",")]
        if value not in ("auto", "none") and not all(part.isdecimal() and int(part) >= MIN_LENGTH for part in found):
            raise KnobError(
                f"measure.lengths is '{value}'", f"give token counts of {MIN_LENGTH} or more, as in 16,32,128; or none"
            )
        return value

    def token_counts(self, auto: str = "none") -> list[int]:
        """The lengths in rising order; `auto` is what that stands for."""
        chosen = auto if self.lengths == "auto" else self.lengths
        return [] if chosen == "none" else sorted({int(part) for part in chosen.split(",")})

    @model_validator(mode="before")
    @classmethod
    def _heed_who_asks(cls, values: Any) -> Any:
        """A person who names `speed` wants it measured however short the run is."""
        asked = isinstance(values, dict) and values.get("speed") is True
        return {"speed_share": 1.0, **values} if asked else values
