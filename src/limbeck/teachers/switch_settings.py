"""When a teacher steps back from a student that has outgrown it, for --task translate."""

from __future__ import annotations

from typing import Literal

from limbeck.core.knob import Settings, knob, table
from limbeck.core.task import SEQ2SEQ_KINDS


@table("switch", "when a teacher that its student has passed steps back", SEQ2SEQ_KINDS)
class SwitchSettings(Settings):
    strategy: Literal["fixed", "threshold", "adaptive"] = knob(
        "fixed",
        "how a direction's teacher gives way to the given targets: never; wholly, while its student's dev BLEU is its "
        "own and `margin` or more; or by half for every BLEU from 2 below its own",
        source="Tan et al. 2019: threshold, as the recipe multilingual has it",
    )
    margin: float = knob(1.0, "of threshold: BLEU by which a student passes its teacher", source="Tan et al. 2019, 1")
