"""Asking a live language model and keeping the top of its answers, or draws from them, in a store."""

from __future__ import annotations

from collections.abc import Callable, Iterable

import torch
from torch import Tensor

from limbeck.core.teacher import Teacher
from limbeck.core.topk import Sampled, Top
from limbeck.core.trace import Batch, Projection
from limbeck.functional.chunked import chunk_size
from limbeck.functional.truncated import draw, top_of
from limbeck.teachers.store import About, Store


def keep(store: Store, teacher: Teacher, batches: Iterable[Batch], on_blocks: Callable[[int], None]) -> None:
    """Asks about every batch; an answer is on disk before the next question. `on_blocks` hears how many there are."""
    done = 0
    for batch in batches:
        counts = batch.in_loss.sum(1).cpu().numpy()
        store.add(batch.uids.cpu().numpy(), counts, kept_of(teacher.answer(batch).tokens, store.about, batch))
        done += len(counts)
        on_blocks(done)


@torch.no_grad()
def kept_of(answers: Projection, about: About, batch: Batch) -> Top | Sampled:
    """What the store keeps of the answers to a batch, worked out a few tokens at a time."""
    size = chunk_size(answers.vocabulary)
    if about.kind == "top":
        tops = [top_of(answers.logits(part), about.k, about.temperature) for part in _parts(0, len(answers), size)]
        return _joined(tops, about)
    found = []
    first = 0
    for uid, count in zip(batch.uids.tolist(), batch.in_loss.sum(1).tolist(), strict=True):
        # Seeded by the question: asked again after a crash, in whatever company, it is answered alike.
        generator = torch.Generator(answers.features.device).manual_seed(uid)
        parts = _parts(first, first + count, size)
        found += [draw(answers.logits(part), about.k, about.temperature, generator) for part in parts]
        first += count
    most = max((one.ids.shape[1] for one in found), default=0)
    wide = [torch.nn.functional.pad(x, (0, most - x.shape[1])) for one in found for x in (one.ids, one.weights)]
    return Sampled(torch.cat(wide[::2]).cpu(), torch.cat(wide[1::2]).cpu(), about.temperature)


def _parts(first: int, last: int, size: int) -> list[slice]:
    """Of `size` tokens; of no tokens there is one empty part."""
    return [slice(start, min(start + size, last)) for start in range(first, max(last, first + 1), size)]


def _joined(tops: list[Top], about: About) -> Top:
    def column(name: str) -> Tensor:
        return torch.cat([getattr(top, name) for top in tops]).cpu()

    return Top(column("ids"), column("log_p"), column("log_sum"), column("softened"), about.temperature)
