"""New texts for the teacher to label, made from the training texts."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TypeVar

import numpy as np

from limbeck.core.progress import Silent, Watcher
from limbeck.data.bilstm import PAIR, SINGLE, Lexicon, Rewriter, english_tagger
from limbeck.data.joins import Joiner
from limbeck.data.settings import AugmentSettings
from limbeck.data.text.examples import Examples
from limbeck.data.text.labels import NO_CLASS
from limbeck.data.tinybert import MaskedWords, Replacer, copies_of
from limbeck.data.uids import augmented_uid
from limbeck.data.words import Row

STAGE = "augmenting"  # in the progress
MOST_JOINS = 10  # of a row, where time decides
_BLOCK = 256  # rows at a time: a language model fills their gaps in common batches

Copies = Callable[[Sequence[Row]], Iterable[Row]]  # new versions of some rows
Item = TypeVar("Item")


def augment(
    examples: Examples,
    settings: AugmentSettings,
    *,
    mask: str = "",
    masker: MaskedWords | None = None,
    lengths: Sequence[int] = (),
    watcher: Watcher = Silent(),  # noqa: B008
) -> Examples:
    """New rows without labels, none like another or like a given one; empty when there is nothing to do.

    `mask` is the tokenizer's mask token, for `bilstm`; `masker` finds words for `tinybert`; `lengths` are those that
    `joins` should have. What is made of a row depends on its texts, the seed and, in `joins` and `bilstm`, on all rows;
    never on their order."""
    rows = Counter(examples.keys)
    if settings.settled().kind == "none" or not rows:
        return unlabelled({}, examples)
    distinct = list(rows)
    blocks = [distinct[start : start + _BLOCK] for start in range(0, len(distinct), _BLOCK)]
    if settings.kind == "bilstm":
        copies, before = _bilstm(rows, settings, mask, watcher), 0.9  # most of the time goes into tagging
    elif settings.kind == "joins":
        copies, before = Joiner(distinct, settings, lengths).copies, 0.0
    else:
        copies, before = _tinybert(rows, settings, masker), 0.0
    made = Counter(new for block in _watched(blocks, watcher, before, 1.0) for new in copies(block))
    named = {augmented_uid(*row): row for row in made if row not in rows}
    kept = {uid: named[uid] for uid in sorted(named)[: settings.limit or None]}
    watcher.say(
        f"augmentation ({settings.kind}): {len(examples):,} rows gave {made.total():,} texts, {len(kept):,} of them "
        f"new; left out: {made.total() - len(named):,} like others, {len(named) - len(kept):,} over the limit"
    )
    return unlabelled(kept, examples)


def _bilstm(rows: Counter[Row], settings: AugmentSettings, mask: str, watcher: Watcher) -> Copies:
    rewriter = Rewriter(settings, mask)
    if settings.pos:
        texts = Counter[str]()
        for row, times in rows.items():
            for text in filter(None, row):
                texts[text] += times
        rewriter.lexicon = Lexicon(_watched(list(texts.items()), watcher, 0.0, 0.9), english_tagger())
    return rewriter.copies


def _tinybert(rows: Counter[Row], settings: AugmentSettings, masker: MaskedWords | None) -> Copies:
    if masker is None:
        raise ValueError("the augmentation 'tinybert' needs a masker: a MaskedModel or Neighbours")
    return Replacer(settings, masker, settings.copies_or(copies_of(rows.total()))).copies


def affordable(settings: AugmentSettings, rows: int, pairs: bool, rate: float) -> AugmentSettings:
    """With so many copies, and at most so many texts in all, as a teacher that answers `rate` texts a second answers in
    the time that it has; a row has no more copies than are published."""
    most = {"bilstm": PAIR if pairs else SINGLE, "tinybert": copies_of(rows)}.get(settings.kind, MOST_JOINS)
    texts = max(1, int(60 * settings.minutes * rate))
    limit = min(filter(None, (texts, settings.limit)))
    return settings.but(copies=min(most, -(-limit // max(rows, 1))), limit=limit)


def _watched(items: Sequence[Item], watcher: Watcher, start: float, stop: float) -> Iterator[Item]:
    every = max(1, len(items) // 100)
    for number, item in enumerate(items):
        if number % every == 0:
            watcher.at(STAGE, start + (stop - start) * number / len(items))
        yield item
    watcher.at(STAGE, stop)


def unlabelled(rows: dict[int, Row], like: Examples) -> Examples:
    """Examples of uid → row, without labels."""
    nothing = NO_CLASS if like.labels.dtype == np.int64 else 0
    return Examples(
        np.array(list(rows), dtype=np.int64),
        [text for text, _ in rows.values()],
        [pair for _, pair in rows.values()] if like.pairs else [],
        np.full((len(rows), *like.labels.shape[1:]), nothing, dtype=like.labels.dtype),
        np.zeros(len(rows), dtype=bool),
    )
