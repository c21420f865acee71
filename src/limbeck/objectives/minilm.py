"""MiniLM: the student's last layer attends where the teacher's does, and its values relate as the teacher's do.

    L = KL( A_teacher ‖ A_student ) + KL( R_teacher ‖ R_student )
    A = softmax( Q·Kᵀ / √d ),   R = softmax( V·Vᵀ / √d ),   d: the model's own head size

Each KL is the mean over heads and over all tokens but padding, and 0 at equality. Heads are compared one to one, so
both models need the same number of heads; depth and width can differ. The loss is the sum of the two terms, as in the
paper, each with its own weight. The paper uses the teacher's last layer, and its texts all have one length; here every
token of a batch has the same weight. The method is for encoders: it compares a token over the whole text, including
what a decoder hides from it.

Example:

    import torch
    import limbeck
    from limbeck import Trace

    def last_layer(head_size):  # of a model with 1 layer of 4 heads; the embeddings are not compared
        scores, values = torch.randn(2, 4, 7, 7), torch.randn(2, 4, 7, head_size)
        return Trace(attention=(torch.empty(0), scores), values=(torch.empty(0), values))

    limbeck.loss(limbeck.MiniLM(), last_layer(8), last_layer(16))
"""

from __future__ import annotations

from typing import ClassVar

from limbeck.core.card import Paper, method
from limbeck.core.errors import KnobError, MismatchError
from limbeck.core.knob import knob
from limbeck.core.objective import Mean, Objective, Rows, Terms
from limbeck.core.record import Shape
from limbeck.core.task import ENCODER_KINDS, Kind
from limbeck.core.trace import Batch, Request, Trace, Want

WANG_2020 = Paper(
    "MiniLM: Deep Self-Attention Distillation for Task-Agnostic Compression of Pre-Trained Transformers",
    "Wenhui Wang and Furu Wei and Li Dong and Hangbo Bao and Nan Yang and Ming Zhou",
    2020,
    "NeurIPS 2020, arXiv:2002.10957",
    "wang2020minilm",
    "https://arxiv.org/abs/2002.10957",
)


@method("minilm", WANG_2020)
class MiniLM(Objective):
    """KL of the last layer's attention and of the relations of its values."""

    answers: ClassVar[bool] = False
    rows: ClassVar[Rows] = "present"
    wants: ClassVar[Want] = Want.ATTENTION | Want.VALUES
    serves: ClassVar[tuple[Kind, ...]] = ENCODER_KINDS
    remedy: ClassVar[str] = "it compares encoders; for words one after the other use 'word-kd' or 'truncated'"

    attention: float = knob(1.0, "weight of the attention's KL", at_least=0, source="paper, equal weights")
    values: float = knob(1.0, "weight of the KL of values' relations", at_least=0, source="paper, equal weights")
    layer: int = knob(0, "layer of the teacher, counted from 1; 0: the last", at_least=0, source="paper, the last")

    def requests(self, student: Shape, teacher: Shape) -> tuple[Request, Request]:
        if student.heads != teacher.heads:
            raise MismatchError(
                f"minilm compares heads one to one, but the student has {student.heads} and the teacher "
                f"{teacher.heads}",
                f"give the student {teacher.heads} heads, or use minilmv2",
            )
        weights = {Want.ATTENTION: self.attention, Want.VALUES: self.values}
        return last_layers("minilm", weights, self.layer, student, teacher)

    def terms(self, student: Trace, teacher: Trace, batch: Batch) -> Terms:
        from limbeck.functional.relation import attention_kl, relation_kl

        present = batch.inputs["attention_mask"].bool()
        layer = self.layer or -1
        terms: Terms = {}
        if self.attention:
            each = attention_kl(teacher.attention[layer], student.attention[-1], present)
            terms["attention"] = Mean(self.attention * each.sum(), present.sum())
        if self.values:
            values = student.values[-1]
            each = relation_kl(teacher.values[layer], values, present, heads=values.shape[1])
            terms["values"] = Mean(self.values * each.sum(), present.sum())
        return terms


def last_layers(
    name: str, weights: dict[Want, float], layer: int, student: Shape, teacher: Shape
) -> tuple[Request, Request]:
    """Requests for the parts with weight: of the student's last layer and of one layer of the teacher."""
    if layer > teacher.layers:
        raise MismatchError(
            f"{name}.layer is {layer}, but the teacher has {teacher.layers} layers",
            f"choose one of 1 to {teacher.layers}, or 0 for the last",
        )
    want = Want.NOTHING
    for part, weight in weights.items():
        want |= part if weight else Want.NOTHING
    if not want:
        raise KnobError(f"every weight within {name} is 0", f"give the term {name} itself the weight 0 to leave it out")
    return Request(Want.LOGITS | want, heads=(student.layers,)), Request(want, heads=(layer or teacher.layers,))
