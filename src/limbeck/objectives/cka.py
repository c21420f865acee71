"""CKA: the student's hidden states learn the geometry of the teacher's, in any width, without a projection.

    L = mean over pairs of layers of 1 − CKA( H_student, H_teacher )

CKA compares the similarity of every two rows in one model with their similarity in the other. A row is a token, or a
text. CKA ignores rotation and scale, but not other linear maps, and a few directions of large variance dominate it. It
is 1 at equality, where the loss is 0.

The unbiased estimator is the default, because a batch often has fewer rows than the states have coordinates, and then
the biased one is large for any features: it is 0.96 for 32 unrelated rows of width 768, where the unbiased one is near
0. The unbiased one can be below 0, and needs 4 rows; a smaller batch adds 0.

This is a statistic of a batch, not a mean over rows. Micro-batches give the mean of their own values, weighted by their
texts, which is not the value of the whole batch: prefer a larger batch_size to a larger accumulate. Repeating a batch
does not change the biased estimate, but it changes the unbiased one, which assumes independent rows.

Example:

    import torch
    import limbeck
    from limbeck import Trace

    student = Trace(hidden=tuple(torch.randn(2, 7, 8) for _ in range(3)))  # embeddings and 2 layers, width 8
    teacher = Trace(hidden=tuple(torch.randn(2, 7, 16) for _ in range(5)))  # embeddings and 4 layers, width 16
    limbeck.loss(limbeck.CKA(layers="uniform"), student, teacher)
"""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, Literal

from limbeck.core.card import Paper, method
from limbeck.core.knob import knob
from limbeck.core.objective import Mean, Objective, Rows, Terms
from limbeck.core.record import Shape
from limbeck.core.task import LANGUAGE_KINDS, TEXT_KINDS, WINDOW_KINDS, Kind
from limbeck.core.trace import Batch, Pool, Request, Trace, Want
from limbeck.functional.layermap import layer_pairs

if TYPE_CHECKING:
    from torch import Tensor

DASGUPTA_COHN_2025 = Paper(
    "Improving Language Model Distillation through Hidden State Matching",
    "Sayantan Dasgupta and Trevor Cohn",
    2025,
    "ICLR 2025",
    "dasgupta2025hidden",
    "https://openreview.net/forum?id=IcVSKhVpKu",
)


@method("cka", DASGUPTA_COHN_2025)
class CKA(Objective):
    """1 − CKA between hidden states of student and teacher, layer by layer."""

    answers: ClassVar[bool] = False
    rows: ClassVar[Rows] = "examples"
    serves: ClassVar[tuple[Kind, ...]] = (*TEXT_KINDS, *WINDOW_KINDS, *LANGUAGE_KINDS)

    layers: str = knob(
        "uniform",
        "which layer of the teacher each one learns from: uniform, skip, last, top, bottom, 2,4,6 or 1:2,3:6",
        source="as in TinyBERT",
    )
    among: Literal["tokens", "texts"] = knob(
        "tokens", "what is compared with one another", source="more rows, less noise"
    )
    pool: Literal["auto", "cls", "mean"] = knob(
        "auto",
        "pooling, if rows are texts; cls: the first token; mean: over all tokens; auto: as the model does it",
        source="as in PKD, cls",
    )
    estimator: Literal["unbiased", "biased"] = knob(
        "unbiased", "estimator of HSIC, which CKA is made of", source="biased is near 1 for few rows of great width"
    )

    @property
    def wants(self) -> Want:  # type: ignore[override]  # depends on what a row is
        return Want.HIDDEN if self.among == "tokens" else Want.POOLED

    def requests(self, student: Shape, teacher: Shape) -> tuple[Request, Request]:
        pairs = layer_pairs(self.layers, student.layers, teacher.layers)
        return (
            self._request(Want.LOGITS | self.wants, tuple(j for j, _ in pairs)),
            self._request(self.wants, tuple(i for _, i in pairs)),
        )

    def terms(self, student: Trace, teacher: Trace, batch: Batch) -> Terms:
        from limbeck.functional.cka import linear_cka

        s, t = self._rows(student, batch), self._rows(teacher, batch)
        pairs = layer_pairs(self.layers, len(s) - 1, len(t) - 1)
        unlike = [1 - linear_cka(s[j], t[i], self.estimator == "unbiased") for j, i in pairs]
        texts = len(batch.uids)
        total = texts * sum(unlike[1:], start=unlike[0]) / len(pairs)
        return {"cka": Mean(total, batch.uids.new_tensor(texts))}

    def _request(self, want: Want, layers: tuple[int, ...]) -> Request:
        if self.among == "tokens":
            return Request(want, hidden=layers)
        pool: Pool = "mean" if self.pool == "mean" else "cls"
        return Request(want, pooled=layers, pool=pool)

    def _rows(self, trace: Trace, batch: Batch) -> tuple[Tensor, ...]:
        """[rows, width] of each layer; empty where it is not requested."""
        if self.among == "texts":
            return trace.pooled
        present = batch.inputs["attention_mask"].bool()
        return tuple(states[present] if states.numel() else states for states in trace.hidden)
