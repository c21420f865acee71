"""A teacher's distribution drawn towards certainty of a label."""

from __future__ import annotations

import torch
from torch import Tensor

from limbeck.core.trace import Top

_FLOOR = -1e30  # stands for −∞, so that 0 · log 0 is 0 in value and gradient


def mix_with_labels(top: Top, labels: Tensor, share: Tensor) -> Top:
    """The top of share · p + (1 − share) · 1[label], for labels [n] and shares [n].

    At share 0 the label has all the mass; rows of share 1 stay bit for bit. A label outside the top takes the place of
    the last word: its own p is unknown, counts 0, and stays with the rest, as that word's does."""
    changed = (share < 1)[:, None]
    if not changed.any():
        return top
    share = share.to(top.log_p.dtype)
    there = top.ids == labels[:, None]  # [n, k]
    last = torch.zeros_like(there)
    last[:, -1] = True
    place = torch.where(there.any(-1, keepdim=True), there, last)
    known = (top.log_p.exp() * there).sum(-1)  # [n] p of the label
    certain = share * known + (1 - share)
    others = (top.log_p + share.log()[:, None]).clamp(min=_FLOOR)
    log_p = torch.where(changed, torch.where(place, certain.log()[:, None], others), top.log_p)
    ids = torch.where(changed & place, labels[:, None], top.ids)
    log_p, order = log_p.sort(dim=-1, descending=True, stable=True)
    return Top(
        ids.gather(-1, order),
        log_p,
        torch.where(changed[:, 0], 0.0, top.log_sum),  # logits of a mixture are its log-probabilities
        torch.where(changed[:, 0], _softened(top, known, certain, share), top.softened),
        top.temperature,
    )


def _softened(top: Top, known: Tensor, certain: Tensor, share: Tensor) -> Tensor:
    """[n] log Σ m^(1/T) over the whole vocabulary, of the mixture m: all words but the label shrink alike."""
    power = 1 / top.temperature
    others = (top.softened.exp() - known**power).clamp(min=0)
    return (share**power * others + certain**power).log()
