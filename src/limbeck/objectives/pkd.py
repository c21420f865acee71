"""Patient distillation: the student's layers learn the teacher's states of a text, not only its answer.

    L = Σ over layers of ‖ h_student/‖h_student‖ − h_teacher/‖h_teacher‖ ‖²

h is one state for the whole text: the state of its first token, or the mean over its tokens. The distance of a layer is
2 − 2·cos: 0 for the same direction, 2 at a right angle, 4 for the opposite one. The student's last layer is left out,
because it serves the student's own classifier.

There are two reductions, and published weights belong to one of them:

    sum    mean over texts of the sum over layers, as the paper prints it
    mean   the same ÷ layers ÷ width, as its code computes it; the published β of 10 to 1000 belongs to this one

β of `sum` = β of `mean` ÷ (layers · width): with 5 layers of 768, β = 100 becomes 0.026.

The published results on large tasks (MNLI, QNLI, QQP, RACE) have `normalise` off: then the length of the states counts
too, and the term grows with it. If the widths differ, one linear map from the student's width to the teacher's, the
same for all layers, is learned beside the student.

Example:

    import torch
    import limbeck
    from limbeck import Trace

    student = Trace(pooled=tuple(torch.randn(4, 16) for _ in range(4)))  # embeddings and 3 layers: [texts, width]
    teacher = Trace(pooled=tuple(torch.randn(4, 16) for _ in range(7)))  # embeddings and 6 layers
    limbeck.loss(limbeck.PKD(layers="skip"), student, teacher)
"""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, Literal

from limbeck.core.card import Paper, method
from limbeck.core.errors import MismatchError
from limbeck.core.knob import knob
from limbeck.core.objective import Mean, Objective, Rows, Terms
from limbeck.core.record import Shape
from limbeck.core.trace import Batch, Pool, Request, Trace, Want
from limbeck.functional.layermap import layer_pairs

if TYPE_CHECKING:
    from torch import Tensor

SUN_2019 = Paper(
    "Patient Knowledge Distillation for BERT Model Compression",
    "Siqi Sun and Yu Cheng and Zhe Gan and Jingjing Liu",
    2019,
    "EMNLP 2019, arXiv:1908.09355",
    "sun2019patient",
    "https://arxiv.org/abs/1908.09355",
)

_BRIDGE = "pkd"


@method("pkd", SUN_2019)
class PKD(Objective):
    """Distance between the normed states that stand for a text, layer by layer."""

    answers: ClassVar[bool] = False
    rows: ClassVar[Rows] = "examples"
    wants: ClassVar[Want] = Want.POOLED
    remedy: ClassVar[str] = "it compares whole texts; for running text use 'cosine', 'tinybert' or 'cka'"

    layers: str = knob(
        "skip",
        "which layer of the teacher each one learns from: skip, last, uniform, top, bottom, 2,4,6 or 1:2,3:6",
        source="paper, PKD-Skip",
    )
    normalise: bool = knob(True, "compare directions only, not lengths", source="paper; its code: off for large tasks")
    pool: Literal["auto", "cls", "mean"] = knob(
        "auto",
        "pooling of hidden states; cls: the first token; mean: over all tokens; auto: as the model does it",
        source="paper, cls",
    )
    reduction: Literal["mean", "sum"] = knob(
        "mean", "mean over layers and width, or their sum; the weight must fit", source="paper's code; paper: sum"
    )
    bridge: bool = knob(True, "learn a linear projection where the widths differ", source="the paper keeps the width")

    def requests(self, student: Shape, teacher: Shape) -> tuple[Request, Request]:
        if student.hidden != teacher.hidden and not self.bridge:
            raise MismatchError(
                f"'pkd' compares states of one width, but the student has {student.hidden} and the teacher "
                f"{teacher.hidden}",
                "keep the teacher's width, or set objective.pkd.bridge to true",
            )
        pairs = layer_pairs(self.layers, student.layers, teacher.layers)
        pool: Pool = "mean" if self.pool == "mean" else "cls"
        return (
            Request(Want.LOGITS | Want.POOLED, pooled=tuple(j for j, _ in pairs), pool=pool),
            Request(Want.POOLED, pooled=tuple(i for _, i in pairs), pool=pool),
        )

    def bridges(self, student: Shape, teacher: Shape) -> dict[str, tuple[int, int]]:
        return {_BRIDGE: (student.hidden, teacher.hidden)} if student.hidden != teacher.hidden else {}

    def terms(self, student: Trace, teacher: Trace, batch: Batch) -> Terms:
        pairs = layer_pairs(self.layers, student.layers, teacher.layers)
        gaps = [self._gap(teacher.pooled[i], student.through(_BRIDGE, student.pooled[j])) for j, i in pairs]
        total = sum(gaps[1:], start=gaps[0])
        if self.reduction == "mean":
            total = total / len(pairs)
        return {"pkd": Mean(total, batch.uids.new_tensor(len(batch.uids)))}

    def _gap(self, teacher: Tensor, student: Tensor) -> Tensor:
        """[texts, width] twice → [], the sum over texts."""
        from torch.nn import functional as F

        from limbeck.functional.divergence import squared_distance
        from limbeck.functional.softmax import wide

        if self.normalise:
            teacher, student = F.normalize(wide(teacher), dim=-1), F.normalize(wide(student), dim=-1)
        each = squared_distance(teacher, student)  # a mean over the width
        return each.sum() * (teacher.shape[-1] if self.reduction == "sum" else 1)
