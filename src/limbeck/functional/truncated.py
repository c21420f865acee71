"""A part of the teacher's distribution, its top or ids drawn from it, against the student's whole softmax.

Truncation comes first, softening second: the top is selected on the logits and does not depend on the temperature.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Literal, TypeVar

import torch
from torch import Tensor

from limbeck.core.errors import MismatchError
from limbeck.core.trace import Sampled, Top
from limbeck.functional.softmax import pick, wide

Form = Literal["tail", "renorm", "renorm-both", "raw"]
TopOrSampled = TypeVar("TopOrSampled", Top, Sampled)

# Below this, 1 − Σ q over the top is mostly rounding, so the rest is summed directly.
_THIN = 1e-4
_FLOOR = -1e30  # stands for −∞, so that 0 · log 0 is 0 in value and gradient


def top_of(logits: Tensor, k: int, temperature: float = 1.0) -> Top:
    """The k largest of each row of [n, vocabulary]; ties go to the lower id, so the choice is stable."""
    logits = wide(logits)
    ids = _largest(logits, min(k, logits.shape[-1]))
    log_sum = logits.logsumexp(-1)
    softened = torch.zeros_like(log_sum)
    if temperature != 1:
        softened = (logits / temperature).logsumexp(-1) - log_sum / temperature
    return Top(ids, logits.gather(-1, ids) - log_sum[:, None], log_sum, softened, temperature)


def _largest(logits: Tensor, k: int) -> Tensor:
    """[n, k] ids. `topk` breaks ties in any order, so rows with a tie at the boundary are done again."""
    values, ids = logits.topk(min(k + 1, logits.shape[-1]), dim=-1)
    ids = ids[:, :k].sort(-1).values
    tied = (values[:, k:] == values[:, k - 1 : k]).any(-1)  # none, if k is the whole vocabulary
    if tied.any():
        rows, least = logits[tied], values[tied, k - 1 : k]
        above, equal = ~(rows <= least), rows == least
        room = k - above.sum(-1, keepdim=True)
        ids[tied] = (above | equal & (equal.cumsum(-1) <= room)).nonzero()[:, 1].view(-1, k)
    # Ids ascend here, and a stable sort keeps that order among ties.
    order = logits.gather(-1, ids).sort(dim=-1, descending=True, stable=True).indices
    return ids.gather(-1, order)


def truncated_loss(form: Form, top: Top, log_q: Tensor, temperature: float = 1.0) -> Tensor:
    """[n] the loss of a top and the student's log-probabilities [n, vocabulary] at this temperature.

    Every form but `raw`, a cross-entropy, is 0 at its minimum."""
    nobody = top.ids < 0  # see `remapped`
    some = bool(nobody.any())
    at = pick(log_q, top.ids.clamp(min=0)).masked_fill(nobody, _FLOOR) if some else pick(log_q, top.ids)  # [n, k]
    if form == "raw":
        return -(_log_p(top, temperature).exp() * at).sum(-1)
    if form == "tail":
        return _tail(_log_p(top, temperature), at, top.ids, log_q)
    shares = (top.log_p / temperature).log_softmax(-1)  # log p/m: the whole log-sum-exp cancels
    terms = shares.exp() * (shares - (at.log_softmax(-1) if form == "renorm-both" else at))
    return (terms.masked_fill(nobody, 0.0) if some else terms).sum(-1)


def _log_p(top: Top, temperature: float) -> Tensor:
    if temperature == 1:
        return top.log_p
    if temperature != top.temperature:
        raise MismatchError(
            f"the mass outside the top is known at T = 1 and T = {top.temperature:g}, not at T = {temperature:g}",
            "ask at one of these, make the answers again at this temperature, or use the form 'renorm'",
        )
    return top.log_p / temperature - top.softened[:, None]


def _tail(log_p: Tensor, at: Tensor, ids: Tensor, log_q: Tensor) -> Tensor:
    """KL with everything outside the top as one more class."""
    inside = (log_p.exp() * (log_p - at)).sum(-1)
    whole = (ids >= 0).sum(-1) >= log_q.shape[-1]  # [n] the student has no token outside the top
    if whole.all():
        return inside
    rest, student_rest = (1 - x.exp().sum(-1) for x in (log_p, at))
    thin = (student_rest < _THIN) & (rest > _THIN) & ~whole
    least = 8 * torch.finfo(at.dtype).eps  # the same on both sides, so that equality stays at 0
    rest, log_rest = rest.clamp(min=least), student_rest.clamp(min=least).log()
    if thin.any():
        inner = ids[thin].where(ids[thin] >= 0, ids[thin][:, :1])  # nobody comes last
        log_rest = log_rest.masked_scatter(thin, log_q[thin].scatter(-1, inner, -torch.inf).logsumexp(-1))
    return inside + (rest * (rest.log() - log_rest)).masked_fill(whole, 0.0)


def draw(logits: Tensor, draws: int, temperature: float = 1.0, generator: torch.Generator | None = None) -> Sampled:
    """Ids drawn with replacement from softmax(logits / T), [n, vocabulary], each with its share of the draws."""
    p = (wide(logits) / temperature).softmax(-1)
    ids = torch.multinomial(p, draws, replacement=True, generator=generator).sort(-1).values
    new = torch.ones_like(ids, dtype=torch.bool)
    new[:, 1:] = ids[:, 1:] != ids[:, :-1]
    index = new.cumsum(-1) - 1  # of each draw among the distinct ids of its row
    most = int(index.max()) + 1 if len(ids) else 0
    distinct = torch.zeros(len(ids), most, dtype=torch.int64, device=ids.device).scatter_(-1, index, ids)
    shares = torch.full_like(ids, 1 / draws, dtype=p.dtype)
    return Sampled(distinct, p.new_zeros(len(ids), most).scatter_add_(-1, index, shares), temperature)


def drawn_cross_entropy(drawn: Sampled, log_q: Tensor) -> Tensor:
    """−Σ w log q over the drawn ids, [n]: on average over draws the cross-entropy with the whole teacher."""
    return -(drawn.weights * pick(log_q, drawn.ids)).sum(-1)


def remapped(found: TopOrSampled, old_ids: Sequence[int] | Tensor) -> TopOrSampled:
    """The same over a trimmed vocabulary, in which id n was old_ids[n].

    Of a top, the mass of tokens that went joins the rest: their places come last, with the id −1 and no probability.
    Draws that went count nothing."""
    old = torch.as_tensor(old_ids, device=found.ids.device)
    new = torch.full((int(old.max()) + 2,), -1, device=old.device)
    new[old] = torch.arange(len(old), device=old.device)
    ids = new[found.ids.clamp(max=len(new) - 1)]
    if isinstance(found, Sampled):
        return replace(found, ids=ids.clamp(min=0), weights=found.weights.masked_fill(ids < 0, 0.0))
    order = (ids < 0).int().argsort(dim=-1, stable=True)
    log_p = found.log_p.masked_fill(ids < 0, _FLOOR).gather(-1, order)
    return replace(found, ids=ids.gather(-1, order), log_p=log_p)


def mix_with_labels(top: Top, labels: Tensor, share: Tensor) -> Top:
    """The top of share · p + (1 − share) · 1[label], for labels [n] and shares [n].

    At share 0 the label has all the mass; rows of share 1 stay bit for bit. A label outside the top replaces the last
    token: its own p is unknown, counts as 0, and stays in the rest, as does the p of the token it replaces."""
    changed = (share < 1)[:, None]
    if not changed.any():
        return top
    share = share.to(top.log_p.dtype)
    is_label = top.ids == labels[:, None]  # [n, k]
    last = torch.zeros_like(is_label)
    last[:, -1] = True
    slot = torch.where(is_label.any(-1, keepdim=True), is_label, last)
    known = (top.log_p.exp() * is_label).sum(-1)  # [n] p of the label
    certain = share * known + (1 - share)
    others = (top.log_p + share.log()[:, None]).clamp(min=_FLOOR)
    log_p = torch.where(changed, torch.where(slot, certain.log()[:, None], others), top.log_p)
    ids = torch.where(changed & slot, labels[:, None], top.ids)
    log_p, order = log_p.sort(dim=-1, descending=True, stable=True)
    return Top(
        ids.gather(-1, order),
        log_p,
        torch.where(changed[:, 0], 0.0, top.log_sum),  # logits of a mixture are its log-probabilities
        torch.where(changed[:, 0], _softened_sum(top, known, certain, share), top.softened),
        top.temperature,
    )


def _softened_sum(top: Top, known: Tensor, certain: Tensor, share: Tensor) -> Tensor:
    """[n] log Σ m^(1/T) over the whole vocabulary, of the mixture m: all tokens but the label shrink alike."""
    power = 1 / top.temperature
    others = (top.softened.exp() - known**power).clamp(min=0)
    return (share**power * others + certain**power).log()
