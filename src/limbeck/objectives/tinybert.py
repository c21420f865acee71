"""TinyBERT's layers: the student learns the teacher's embeddings, hidden states and attention scores.

    embedding   L = ‖ E_student W − E_teacher ‖² / width
    hidden      L = Σ over layers of ‖ H_student W − H_teacher ‖² / width
    attention   L = Σ over layers of the mean over heads and keys of ( a_student − a_teacher )²

The mean is over tokens, for attention over queries. W is a learned linear map with bias from the student's width to the
teacher's; equal widths need no map, and a student that equals its teacher has the loss 0. Scores are taken before the
softmax, scaled by √(head size); matching probabilities converges more slowly.

Where this departs from the official code:

- Padding is left out, as token, as query and as key. The code sets the scores of padded keys to 0 in both models,
  compares the queries at padding, and divides by all of them, so that its loss falls with padding.
- Each query has the same weight, in texts of any length: its own mean over keys comes first.
- The code learns a map also where the widths are equal. The paper has one for embeddings and one for hidden states, the
  code one for both (`shared`); `separate` gives the embeddings and every layer a map of their own.

A weight of 0 switches a part off, and the teacher does not compute it. Attention compares heads one to one. In a causal
model it also compares the scores that the mask hides.

Example:

    import torch
    import limbeck
    from limbeck import Trace

    def model(layers):  # width 16, 4 heads; the embeddings come first and have no scores
        hidden = tuple(torch.randn(2, 7, 16) for _ in range(layers + 1))
        return Trace(hidden=hidden, attention=(torch.empty(0), *(torch.randn(2, 4, 7, 7) for _ in range(layers))))

    limbeck.loss(limbeck.TinyBERT(layers="uniform"), model(2), model(4))
"""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, Literal

from limbeck.core.card import Paper, method
from limbeck.core.errors import KnobError, MismatchError
from limbeck.core.knob import knob
from limbeck.core.objective import Mean, Objective, Rows, Terms
from limbeck.core.record import Shape
from limbeck.core.task import ENCODER_KINDS, Kind
from limbeck.core.trace import Batch, Request, Trace, Want
from limbeck.functional.layermap import Pairs, layer_pairs

if TYPE_CHECKING:
    from torch import Tensor

JIAO_2020 = Paper(
    "TinyBERT: Distilling BERT for Natural Language Understanding",
    "Xiaoqi Jiao and Yichun Yin and Lifeng Shang and Xin Jiang and Xiao Chen and Linlin Li and Fang Wang and Qun Liu",
    2020,
    "Findings of EMNLP 2020, arXiv:1909.10351",
    "jiao2020tinybert",
    "https://arxiv.org/abs/1909.10351",
)

_EMBEDDINGS: Pairs = [(0, 0)]


@method("tinybert", JIAO_2020)
class TinyBERT(Objective):
    """Squared differences of embeddings, hidden states and attention scores, layer by layer."""

    answers: ClassVar[bool] = False
    rows: ClassVar[Rows] = "present"
    serves: ClassVar[tuple[Kind, ...]] = ENCODER_KINDS
    remedy: ClassVar[str] = (
        "it compares what sees the whole text; for the next word use 'word-kd', 'truncated' or 'cka'"
    )

    layers: str = knob(
        "uniform",
        "which layer of the teacher each one learns from: uniform, top, bottom, 3,6,9,12 or 1:3,2:6",
        source="paper",
    )
    embedding: float = knob(1.0, "weight of the embeddings; 0: not compared", at_least=0, source="paper")
    hidden: float = knob(1.0, "weight of the hidden states; 0: not compared", at_least=0, source="paper")
    attention: float = knob(1.0, "weight of the attention scores; 0: not compared", at_least=0, source="paper")
    bridge: Literal["shared", "separate"] = knob(
        "shared",
        "linear projections where the widths differ; one for embeddings and all layers, or one for each",
        source="paper's code",
    )

    @property
    def wants(self) -> Want:  # type: ignore[override]  # only what has weight
        states = Want.HIDDEN if self.embedding or self.hidden else Want.NOTHING
        return states | (Want.ATTENTION if self.attention else Want.NOTHING)

    def requests(self, student: Shape, teacher: Shape) -> tuple[Request, Request]:
        self._check(student, teacher)
        pairs = layer_pairs(self.layers, student.layers, teacher.layers)
        states, scores = self._states(pairs), pairs if self.attention else []
        return (
            Request(Want.LOGITS | self.wants, hidden=tuple(j for j, _ in states), heads=tuple(j for j, _ in scores)),
            Request(self.wants, hidden=tuple(i for _, i in states), heads=tuple(i for _, i in scores)),
        )

    def bridges(self, student: Shape, teacher: Shape) -> dict[str, tuple[int, int]]:
        if student.hidden == teacher.hidden:
            return {}
        states = self._states(layer_pairs(self.layers, student.layers, teacher.layers))
        return {self._bridge(j): (student.hidden, teacher.hidden) for j, _ in states}

    def terms(self, student: Trace, teacher: Trace, batch: Batch) -> Terms:
        from limbeck.functional.divergence import squared_distance

        present = batch.inputs["attention_mask"].bool()
        pairs = layer_pairs(self.layers, student.layers, teacher.layers)

        def state_gaps(layers: Pairs) -> Tensor:
            # Tokens are selected before the map and the formula: padding may hold anything.
            gaps = [
                squared_distance(
                    teacher.hidden[i][present], student.through(self._bridge(j), student.hidden[j][present])
                )
                for j, i in layers
            ]
            return sum(gaps[1:], start=gaps[0]).sum()

        totals: dict[str, Tensor] = {}
        if self.embedding:
            totals["embedding"] = self.embedding * state_gaps(_EMBEDDINGS)
        if self.hidden:
            totals["hidden"] = self.hidden * state_gaps(pairs)
        if self.attention:
            gaps = [_score_gap(teacher.attention[i], student.attention[j], present) for j, i in pairs]
            totals["attention"] = self.attention * sum(gaps[1:], start=gaps[0])
        return {name: Mean(total, present.sum()) for name, total in totals.items()}

    def _states(self, pairs: Pairs) -> Pairs:
        return (_EMBEDDINGS if self.embedding else []) + (pairs if self.hidden else [])

    def _bridge(self, layer: int) -> str:
        return "tinybert" if self.bridge == "shared" else f"tinybert.{layer}"

    def _check(self, student: Shape, teacher: Shape) -> None:
        if not self.wants:
            raise KnobError(
                "'tinybert' has nothing to compare: embedding, hidden and attention are all 0",
                "give one of them weight, or the whole term the weight 0",
            )
        if self.attention and student.heads != teacher.heads:
            raise MismatchError(
                f"'tinybert' compares heads one to one, but the student has {student.heads} and the teacher "
                f"{teacher.heads}",
                f"give the student {teacher.heads} heads, set objective.tinybert.attention to 0, or use 'minilmv2'",
            )


def _score_gap(teacher: Tensor, student: Tensor, present: Tensor) -> Tensor:
    """[batch, heads, queries, keys] twice → [], the sum over queries of the mean over heads and keys."""
    from limbeck.functional.softmax import wide

    both = present[:, None, :, None] & present[:, None, None, :]
    gap = (wide(student) - wide(teacher)).where(both, 0.0)  # before the square: padding may hold NaN
    keys = present.sum(1).clamp(min=1)
    return (gap.square().mean(1).sum((1, 2)) / keys).sum()
