"""MiniLMv2: queries, keys and values of the student's last layer relate as the teacher's do.

    L = Σ over X in {Q, K, V} of KL( R_teacher ‖ R_student ),   R = softmax( X·Xᵀ / √d )

The heads of a layer are concatenated and split again into relation heads, of size d = width / relation heads in each
model. So widths and numbers of heads can differ: the relation heads must divide both widths. Each KL is the mean over
relation heads and over all tokens but padding, and 0 at equality; the loss is the sum of the three, as in the paper.
The paper uses 48 relation heads for a base teacher and 64 for a large one, and for large teachers an upper middle layer
instead of the last. Each relation head costs one more [length, length] map.

Example:

    import torch
    import limbeck
    from limbeck import Trace

    def last_layer(heads, head_size):  # of a model with 1 layer; the embeddings are not compared
        parts = {name: torch.randn(2, heads, 7, head_size) for name in ("queries", "keys", "values")}
        return Trace(**{name: (torch.empty(0), part) for name, part in parts.items()})

    limbeck.loss(limbeck.MiniLMv2(heads=4), last_layer(4, 8), last_layer(8, 8))
"""

from __future__ import annotations

from math import gcd
from typing import ClassVar

from limbeck.core.card import Paper, method
from limbeck.core.errors import MismatchError
from limbeck.core.knob import knob
from limbeck.core.objective import Mean, Objective, Rows, Terms
from limbeck.core.record import Shape
from limbeck.core.task import ENCODER_KINDS, Kind
from limbeck.core.trace import Batch, Request, Trace, Want
from limbeck.objectives.minilm import last_layers

WANG_2021 = Paper(
    "MiniLMv2: Multi-Head Self-Attention Relation Distillation for Compressing Pretrained Transformers",
    "Wenhui Wang and Hangbo Bao and Shaohan Huang and Li Dong and Furu Wei",
    2021,
    "Findings of ACL 2021, arXiv:2012.15828",
    "wang2021minilmv2",
    "https://arxiv.org/abs/2012.15828",
)

_EQUAL = "paper, equal weights"


@method("minilmv2", WANG_2021)
class MiniLMv2(Objective):
    """KL of the relations of queries, keys and values, in any width and number of heads."""

    answers: ClassVar[bool] = False
    rows: ClassVar[Rows] = "present"
    wants: ClassVar[Want] = Want.QUERIES | Want.KEYS | Want.VALUES
    serves: ClassVar[tuple[Kind, ...]] = ENCODER_KINDS
    remedy: ClassVar[str] = "it compares encoders; for words one after the other use 'word-kd' or 'truncated'"

    queries: float = knob(1.0, "weight of the KL of queries' relations", at_least=0, source=_EQUAL)
    keys: float = knob(1.0, "weight of the KL of keys' relations", at_least=0, source=_EQUAL)
    values: float = knob(1.0, "weight of the KL of values' relations", at_least=0, source=_EQUAL)
    heads: int = knob(
        0, "relation heads; 0: as many as the student has heads", at_least=0, source="ours; paper: 48 base, 64 large"
    )
    layer: int = knob(
        0, "layer of the teacher, counted from 1; 0: the last", at_least=0, source="paper, the last of a base teacher"
    )

    def requests(self, student: Shape, teacher: Shape) -> tuple[Request, Request]:
        heads = self.heads or student.heads
        common = gcd(student.hidden, teacher.hidden)
        if common % heads:
            known = [str(number) for number in range(1, common + 1) if common % number == 0]
            raise MismatchError(
                f"minilmv2 cuts both models into {heads} relation heads, which do not divide both the student's width "
                f"{student.hidden} and the teacher's {teacher.hidden}",
                f"set --objective.minilmv2.heads to one of {', '.join(known)}",
            )
        weights = {Want.QUERIES: self.queries, Want.KEYS: self.keys, Want.VALUES: self.values}
        return last_layers("minilmv2", weights, self.layer, student, teacher)

    def terms(self, student: Trace, teacher: Trace, batch: Batch) -> Terms:
        from limbeck.functional.relation import relation_kl

        present = batch.inputs["attention_mask"].bool()
        terms: Terms = {}
        for name in ("queries", "keys", "values"):
            if weight := getattr(self, name):
                s, t = getattr(student, name)[-1], getattr(teacher, name)[self.layer or -1]
                each = relation_kl(t, s, present, self.heads or s.shape[1])
                terms[name] = Mean(weight * each.sum(), present.sum())
        return terms
