"""MobileBERT's knowledge transfer: the student's layers learn the teacher's states and attention.

    features    L = ‖ norm(h_student) − norm(h_teacher) ‖² / width
    mean        L = ( mean(h_student) − mean(h_teacher) )²
    variance    L = | var(h_student) − var(h_teacher) |
    attention   L = mean over heads of KL( softmax(a_teacher) ‖ softmax(a_student) )

Each is a mean over the pairs of layers and over tokens, for attention over queries. norm is a layer norm without
parameters, mean and var are over the width of one token's state: the paper splits the squared distance of two states
into what a norm leaves and what it removes, because the student has no norms of its own. The features alone ignore a
shift or a stretch of either side. A student that equals its teacher has the loss 0.

Where this departs from the official code:

- The code weighs features 100, mean 5000, variance 5 and attention 1, and divides features by its 24 layers. Here all
  are 1, as in the paper's formula; --objective.mobilebert.features 4.17, mean 5000, variance 5 give the code's sum.
- The code compares the mean and variance of a layer with those of all the teacher's layers at once, by a broadcast.
  Here each layer has its own targets.
- Attention in the code is a cross-entropy: the same gradient, but not 0 at equality. The code includes padding; here
  padding is left out, as token, as query and as key.

A weight of 0 switches a part off, and the teacher does not compute it. If the widths differ, one linear map for all
layers is learned; the paper's models have the same width. Attention compares heads one to one.

Example:

    import torch
    import limbeck
    from limbeck import Trace

    def model(layers):  # width 16, 4 heads; the embeddings come first and have no scores
        hidden = tuple(torch.randn(2, 7, 16) for _ in range(layers + 1))
        return Trace(hidden=hidden, attention=(torch.empty(0), *(torch.randn(2, 4, 7, 7) for _ in range(layers))))

    limbeck.loss(limbeck.MobileBERTTransfer(mean=5000, variance=5), model(2), model(4))
"""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from limbeck.core.card import Paper, method
from limbeck.core.errors import KnobError, MismatchError
from limbeck.core.knob import knob
from limbeck.core.objective import Mean, Objective, Rows, Terms
from limbeck.core.record import Shape
from limbeck.core.task import ENCODER_KINDS, Kind
from limbeck.core.trace import Batch, Request, Trace, Want
from limbeck.functional.layermap import layer_pairs

if TYPE_CHECKING:
    from torch import Tensor

SUN_2020 = Paper(
    "MobileBERT: a Compact Task-Agnostic BERT for Resource-Limited Devices",
    "Zhiqing Sun and Hongkun Yu and Xiaodan Song and Renjie Liu and Yiming Yang and Denny Zhou",
    2020,
    "ACL 2020, arXiv:2004.02984",
    "sun2020mobilebert",
    "https://arxiv.org/abs/2004.02984",
)

_BRIDGE = "mobilebert"
_OF_STATES = ("features", "mean", "variance")


@method("mobilebert", SUN_2020)
class MobileBERTTransfer(Objective):
    """Normed states, their means and variances, and attention, layer by layer."""

    answers: ClassVar[bool] = False
    rows: ClassVar[Rows] = "present"
    serves: ClassVar[tuple[Kind, ...]] = ENCODER_KINDS
    remedy: ClassVar[str] = (
        "it compares what sees the whole text; for the next word use 'word-kd', 'truncated' or 'cka'"
    )

    layers: str = knob(
        "uniform",
        "which layer of the teacher each one learns from: uniform, top, bottom, 3,6,9,12 or 1:3,2:6",
        source="paper, one to one",
    )
    features: float = knob(1.0, "weight of the normed states; 0: not compared", at_least=0, source="paper; code: 100")
    mean: float = knob(1.0, "weight of the states' means; 0: not compared", at_least=0, source="paper; code: 5000")
    variance: float = knob(1.0, "weight of the states' variances; 0: not compared", at_least=0, source="paper; code: 5")
    attention: float = knob(1.0, "weight of the attention's KL; 0: not compared", at_least=0, source="paper and code")

    @property
    def wants(self) -> Want:  # type: ignore[override]  # only what has weight
        states = Want.HIDDEN if any(getattr(self, name) for name in _OF_STATES) else Want.NOTHING
        return states | (Want.ATTENTION if self.attention else Want.NOTHING)

    def requests(self, student: Shape, teacher: Shape) -> tuple[Request, Request]:
        self._check(student, teacher)
        pairs = layer_pairs(self.layers, student.layers, teacher.layers)
        states = pairs if Want.HIDDEN in self.wants else []
        scores = pairs if Want.ATTENTION in self.wants else []
        return (
            Request(Want.LOGITS | self.wants, hidden=tuple(j for j, _ in states), heads=tuple(j for j, _ in scores)),
            Request(
                self.wants,
                hidden=tuple(sorted({i for _, i in states})),
                heads=tuple(sorted({i for _, i in scores})),
            ),
        )

    def bridges(self, student: Shape, teacher: Shape) -> dict[str, tuple[int, int]]:
        needed = student.hidden != teacher.hidden and Want.HIDDEN in self.wants
        return {_BRIDGE: (student.hidden, teacher.hidden)} if needed else {}

    def terms(self, student: Trace, teacher: Trace, batch: Batch) -> Terms:
        present = batch.inputs["attention_mask"].bool()
        pairs = layer_pairs(self.layers, student.layers, teacher.layers)
        totals: dict[str, Tensor] = {}
        for name in _OF_STATES:
            if weight := getattr(self, name):
                # Tokens are selected before the map and the formula: padding may hold anything.
                gaps = [
                    _state_gap(name, teacher.hidden[i][present], student.through(_BRIDGE, student.hidden[j][present]))
                    for j, i in pairs
                ]
                totals[name] = weight * (sum(gaps[1:], start=gaps[0]) / len(pairs))
        if self.attention:
            gaps = [_attention_gap(teacher.attention[i], student.attention[j], present) for j, i in pairs]
            totals["attention"] = self.attention * sum(gaps[1:], start=gaps[0]) / len(pairs)
        return {name: Mean(total, present.sum()) for name, total in totals.items()}

    def _check(self, student: Shape, teacher: Shape) -> None:
        if not self.wants:
            raise KnobError(
                "'mobilebert' has nothing to compare: features, mean, variance and attention are all 0",
                "give one of them weight, or the whole term the weight 0",
            )
        if self.attention and student.heads != teacher.heads:
            raise MismatchError(
                f"'mobilebert' compares heads one to one, but the student has {student.heads} and the teacher "
                f"{teacher.heads}",
                f"give the student {teacher.heads} heads, or set objective.mobilebert.attention to 0",
            )


def _state_gap(name: str, teacher: Tensor, student: Tensor) -> Tensor:
    """[tokens, width] twice → [], the sum over tokens."""
    from torch.nn import functional as F

    from limbeck.functional.divergence import squared_distance
    from limbeck.functional.softmax import wide

    t, s = wide(teacher), wide(student)
    if name == "mean":
        return (s.mean(-1) - t.mean(-1)).square().sum()
    if name == "variance":
        return (s.var(-1, correction=0) - t.var(-1, correction=0)).abs().sum()
    t, s = (F.layer_norm(x, x.shape[-1:], eps=1e-12) for x in (t, s))
    return squared_distance(t, s).sum()


def _attention_gap(teacher: Tensor, student: Tensor, present: Tensor) -> Tensor:
    """[batch, heads, queries, keys] twice → [], the sum over queries of the mean over heads."""
    from limbeck.functional.divergence import kl

    padding = ~present[:, None, None, :]
    # Padded keys are ruled out in both, and queries selected, before the formula: padding may hold NaN.
    t, s = (scores.masked_fill(padding, float("-inf")).transpose(1, 2)[present] for scores in (teacher, student))
    return kl(t, s).mean(-1).sum()  # [tokens, heads, keys] → [tokens, heads] → []
