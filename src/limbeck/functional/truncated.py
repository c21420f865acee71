"""A teacher known by the top of its distribution, or by ids drawn from it, against the student's whole softmax.

Truncation comes first, softening second: the top is chosen on the logits and does not depend on the temperature.
"""

from __future__ import annotations

from typing import Literal

import torch
from torch import Tensor

from limbeck.core.errors import MismatchError
from limbeck.core.trace import Sampled, Top
from limbeck.functional.divergence import wide
from limbeck.functional.softmax import pick

Form = Literal["tail", "renorm", "renorm-both", "raw"]

# Below this, 1 − Σ q over the top is mostly rounding, and the rest is summed by itself.
_THIN = 1e-4


def top_of(logits: Tensor, k: int, temperature: float = 1.0) -> Top:
    """The k largest of each row of [n, vocabulary]; equals by the lower id, so the choice is stable."""
    logits = wide(logits)
    ids = _largest(logits, min(k, logits.shape[-1]))
    log_sum = logits.logsumexp(-1)
    softened = torch.zeros_like(log_sum)
    if temperature != 1:
        softened = (logits / temperature).logsumexp(-1) - log_sum / temperature
    return Top(ids, logits.gather(-1, ids) - log_sum[:, None], log_sum, softened, temperature)


def _largest(logits: Tensor, k: int) -> Tensor:
    """[n, k] ids. `topk` breaks ties as it likes; a row is done again only where a tie sits at the boundary."""
    values, ids = logits.topk(min(k + 1, logits.shape[-1]), dim=-1)
    ids = ids[:, :k].sort(-1).values
    tied = (values[:, k:] == values[:, k - 1 : k]).any(-1)  # with k the whole vocabulary nothing lies beyond
    if tied.any():
        rows, least = logits[tied], values[tied, k - 1 : k]
        above, equal = ~(rows <= least), rows == least
        room = k - above.sum(-1, keepdim=True)
        ids[tied] = (above | equal & (equal.cumsum(-1) <= room)).nonzero()[:, 1].view(-1, k)
    # Ids ascend here, and a stable sort keeps them so among equals.
    order = logits.gather(-1, ids).sort(dim=-1, descending=True, stable=True).indices
    return ids.gather(-1, order)


def truncated_loss(form: Form, top: Top, log_q: Tensor, temperature: float = 1.0) -> Tensor:
    """[n] of a top and the student's log-probabilities [n, vocabulary] at this temperature.

    All but `raw`, a cross-entropy, are 0 at their minimum."""
    at = pick(log_q, top.ids)  # [n, k]
    if form == "raw":
        return -(_log_p(top, temperature).exp() * at).sum(-1)
    if form == "tail":
        return _tail(_log_p(top, temperature), at, top.ids, log_q)
    shares = (top.log_p / temperature).log_softmax(-1)  # log p/m: the whole log-sum-exp cancels
    return (shares.exp() * (shares - (at.log_softmax(-1) if form == "renorm-both" else at))).sum(-1)


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
    if ids.shape[-1] >= log_q.shape[-1]:
        return inside
    rest, rest_of_student = (1 - x.exp().sum(-1) for x in (log_p, at))
    thin = (rest_of_student < _THIN) & (rest > _THIN)
    least = 8 * torch.finfo(at.dtype).eps  # the same on both sides, so that equals stay at 0
    rest, log_rest = rest.clamp(min=least), rest_of_student.clamp(min=least).log()
    if thin.any():
        log_rest = log_rest.masked_scatter(thin, log_q[thin].scatter(-1, ids[thin], -torch.inf).logsumexp(-1))
    return inside + rest * (rest.log() - log_rest)


def draw(logits: Tensor, draws: int, temperature: float = 1.0, generator: torch.Generator | None = None) -> Sampled:
    """Ids drawn with replacement from softmax(logits / T), [n, vocabulary], each with the share of draws it got."""
    p = (wide(logits) / temperature).softmax(-1)
    ids = torch.multinomial(p, draws, replacement=True, generator=generator).sort(-1).values
    new = torch.ones_like(ids, dtype=torch.bool)
    new[:, 1:] = ids[:, 1:] != ids[:, :-1]
    place = new.cumsum(-1) - 1  # of each draw among the distinct ids of its row
    most = int(place.max()) + 1 if len(ids) else 0
    distinct = torch.zeros(len(ids), most, dtype=torch.int64, device=ids.device).scatter_(-1, place, ids)
    shares = torch.full_like(ids, 1 / draws, dtype=p.dtype)
    return Sampled(distinct, p.new_zeros(len(ids), most).scatter_add_(-1, place, shares), temperature)


def drawn_cross_entropy(drawn: Sampled, log_q: Tensor) -> Tensor:
    """−Σ w log q over the drawn ids, [n]: on average over draws the cross-entropy with the whole teacher."""
    return -(drawn.weights * pick(log_q, drawn.ids)).sum(-1)
