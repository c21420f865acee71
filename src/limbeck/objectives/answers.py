"""Confusing answers: the student finds the right answer more likely than the wrong ones its teacher likes.

    L = Σ over a in Conf of max(0, μ − log q(gold) + log q(a)),   log q(span) = log q(start) + log q(end)

Conf holds the teacher's most probable spans that share no token with the gold answer. Hu et al.'s answer distillation
inspires this term, but the paper does not fix its exact form, and their attention matching is not part of it. Add it to
`labels` and `hinton`. The mean is over texts with a label. A batch names one gold answer, and a second right answer may
be punished, so use it on data with one answer per question.

Example:

    import torch
    import limbeck

    student, teacher = torch.randn(4, 2, 20), torch.randn(4, 2, 20)  # [questions, start and end, positions]
    gold = torch.tensor([[3, 5], [1, 1], [7, 9], [2, 4]])
    limbeck.loss(limbeck.ConfusingAnswers(spans=2), student, teacher, gold)
"""

from __future__ import annotations

from math import inf
from typing import TYPE_CHECKING, ClassVar

from limbeck.core.card import Paper, method
from limbeck.core.knob import knob
from limbeck.core.objective import Mean, Objective, Rows, Terms
from limbeck.core.task import Kind
from limbeck.core.trace import Batch, Trace, Want

if TYPE_CHECKING:
    from torch import Tensor

HU_2018 = Paper(
    "Attention-Guided Answer Distillation for Machine Reading Comprehension",
    "Minghao Hu and Yuxing Peng and Furu Wei and Zhen Huang and Dongsheng Li and Nan Yang and Ming Zhou",
    2018,
    "EMNLP 2018, arXiv:1808.07644",
    "hu2018attention",
    "https://arxiv.org/abs/1808.07644",
)


@method("confusing", HU_2018)
class ConfusingAnswers(Objective):
    """A margin between the gold span and the spans that a teacher takes for it."""

    rows: ClassVar[Rows] = "has_label"
    wants: ClassVar[Want] = Want.LOGITS
    serves: ClassVar[tuple[Kind, ...]] = ("answer",)
    remedy: ClassVar[str] = "it speaks of spans that answer a question; use it with --task answer"

    spans: int = knob(4, "how many of the teacher's spans, at most", at_least=1, source="chosen here")
    margin: float = knob(1.0, "nats by which the gold answer must be more probable", at_least=0, source="chosen here")
    longest: int = knob(30, "tokens of a span at most", at_least=1, source="BERT code, max_answer_length")

    def terms(self, student: Trace, teacher: Trace, batch: Batch) -> Terms:
        known = batch.has_label[0::2]
        gold = batch.labels.view(-1, 2)[known]  # [n, 2]
        starts, ends, exists = _confusing(_log_probs(teacher, batch)[known], gold, self.spans, self.longest)
        log_q = _log_probs(student, batch)[known]  # [n, 2, length]
        right = log_q.gather(2, gold[..., None]).sum((1, 2))  # [n]
        wrong = log_q[:, 0].gather(1, starts) + log_q[:, 1].gather(1, ends)  # [n, spans]
        excess = (self.margin - right[:, None] + wrong)[exists].clamp(min=0)
        # The mean is over texts, and a text has two rows.
        return {"confusing": Mean(2 * excess.sum(), batch.has_label.sum())}


def _log_probs(trace: Trace, batch: Batch) -> Tensor:
    """[batch, 2, length] log-probability of each position as start and as end."""
    from limbeck.functional.softmax import wide

    impossible = ~batch.predicted.repeat_interleave(2, 0)
    log_p = wide(trace.logits.masked_fill(impossible, -inf)).log_softmax(-1)
    return log_p.view(-1, 2, log_p.shape[-1])


def _confusing(log_p: Tensor, gold: Tensor, count: int, longest: int) -> tuple[Tensor, Tensor, Tensor]:
    """[n, spans] start and end of the most probable spans that do not touch gold, and whether such a span exists."""
    import torch

    length = log_p.shape[2]
    start = torch.arange(length, device=log_p.device)[:, None]  # [length, 1]
    end = start + torch.arange(min(longest, length), device=log_p.device)  # [length, longest]
    score = log_p[:, 0, :, None] + log_p[:, 1][:, end.clamp(max=length - 1)]  # [n, length, longest]
    # Position 0 stands for no answer, so a span from there into the text does not exist.
    exists = (end < length) & ((start > 0) | (end == 0))
    apart = (end < gold[:, :1, None]) | (start > gold[:, 1:, None])
    score = score.masked_fill(~(exists & apart), -inf).flatten(1)
    best, chosen = score.topk(min(count, score.shape[1]), dim=1)
    starts, more = chosen // end.shape[1], chosen % end.shape[1]
    return starts, (starts + more).clamp(max=length - 1), best > -inf
