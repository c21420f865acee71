"""The peers' turn: the generalised Jensen–Shannon loss of Liger and of TRL. Runs in an environment of its own.

Liger projects and compares chunk by chunk; TRL's GKD trainer compares whole logits. Nothing of either is changed.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from projections import Inputs, serve
from torch import Tensor
from torch.nn import functional as F


def liger(job: dict[str, Any]) -> Callable[[Inputs], Tensor]:
    from liger_kernel.chunked_loss import LigerFusedLinearJSDLoss  # type: ignore

    compiled = job["engine"] == "liger_compiled"
    jsd = LigerFusedLinearJSDLoss(weight_hard_loss=0.0, weight_soft_loss=1.0, beta=job["beta"], compiled=compiled)

    def loss(x: Inputs) -> Tensor:
        found: Tensor = jsd(x.features, x.weight, x.teacher_features, x.teacher_weight, x.words)
        return found

    return loss


def trl(job: dict[str, Any]) -> Callable[[Inputs], Tensor]:
    from trl.experimental.gkd import GKDTrainer  # type: ignore

    def loss(x: Inputs) -> Tensor:
        student, teacher = F.linear(x.features, x.weight), F.linear(x.teacher_features, x.teacher_weight)
        found: Tensor = GKDTrainer.generalized_jsd_loss(student[None], teacher[None], x.words[None], beta=job["beta"])
        return found

    return loss


if __name__ == "__main__":
    serve(lambda job: {"liger": liger, "liger_compiled": liger, "trl": trl}[job["engine"]](job), Path(sys.argv[1]))
