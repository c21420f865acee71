"""CKA: the student's hidden states learn to lie to one another as the teacher's do, in any width, without a bridge.

    L = mean over pairs of layers of 1 − CKA( H_student, H_teacher )

CKA compares how alike each two rows are in one model with how alike they are in the other. A row is a token, or a text.
It is blind to rotation and scale, but not to other linear maps, and a few directions of great variance decide it. It
is 1 at equality, and then there is nothing to learn.

The unbiased estimator is the default, because a batch often has fewer rows than the states have coordinates, and
there the plain one is large for anything: of unrelated features, 32 rows of width 768, it is 0.96, the unbiased one
near 0. The unbiased one may be below 0, and needs 4 rows; a batch with fewer adds 0.

This is a statistic of a batch, not a mean over rows. Micro-batches give the mean of their own values, weighted by their
texts, which is not the value of the whole batch: prefer a larger batch_size to a larger accumulate. The plain one is
the same when a batch is repeated, the unbiased one is not: it takes rows for independent draws.

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
    among: Literal["tokens", "texts"] = knob("tokens", "what a row is", source="more rows, less noise")
    pool: Literal["auto", "cls", "mean"] = knob(
        "auto",
        "what stands for a text, if rows are texts: its first token, or the mean over its tokens; auto: as the model",
        source="as in PKD, cls",
    )
    estimator: Literal["unbiased", "biased"] = knob(
        "unbiased", "of HSIC, which CKA is made of", source="biased is near 1 for few rows of great width"
    )

    @property
    def wants(self) -> Want:  # type: ignore[override]  # depends on what a row is
        return Want.HIDDEN if self.among == "tokens" else Want.POOLED

    def requests(self, student: Shape, teacher: Shape) -> tuple[Request, Request]:
        pairs = layer_pairs(self.layers, student.layers, teacher.layers)
        return (
            self._ask(Want.LOGITS | self.wants, tuple(j for j, _ in pairs)),
            self._ask(self.wants, tuple(i for _, i in pairs)),
        )

    def terms(self, student: Trace, teacher: Trace, batch: Batch) -> Terms:
        from limbeck.functional.cka import linear_cka

        mine, theirs = self._rows(student, batch), self._rows(teacher, batch)
        pairs = layer_pairs(self.layers, len(mine) - 1, len(theirs) - 1)
        unlike = [1 - linear_cka(mine[j], theirs[i], self.estimator == "unbiased") for j, i in pairs]
        texts = len(batch.uids)
        total = texts * sum(unlike[1:], start=unlike[0]) / len(pairs)
        return {"cka": Mean(total, batch.uids.new_tensor(texts))}

    def _ask(self, want: Want, layers: tuple[int, ...]) -> Request:
        if self.among == "tokens":
            return Request(want, hidden=layers)
        pool: Pool = "mean" if self.pool == "mean" else "cls"
        return Request(want, pooled=layers, pool=pool)

    def _rows(self, trace: Trace, batch: Batch) -> tuple[Tensor, ...]:
        """[rows, width] of each layer; empty where it was not asked for."""
        if self.among == "texts":
            return trace.pooled
        present = batch.inputs["attention_mask"].bool()
        return tuple(states[present] if states.numel() else states for states in trace.hidden)
