"""New texts for the teacher to answer, made from the training texts. They have no labels."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from hashlib import blake2b
from typing import TYPE_CHECKING, Literal, Self, TypeVar

from limbeck.core.knob import Settings, knob, table
from limbeck.core.progress import Silent, Watcher
from limbeck.core.task import TEXT_KINDS
from limbeck.data.words import Row

if TYPE_CHECKING:
    from limbeck.data.corpus import Examples
    from limbeck.data.tinybert import MaskedWords

STAGE = "augmenting"  # as a Watcher hears it
_BLOCK = 256  # rows at a time: a language model fills their gaps in common batches
_TANG, _JIAO = "Tang et al. 2019", "TinyBERT code"

Copies = Callable[[Sequence[Row]], Iterable[Row]]  # new versions of some rows
Item = TypeVar("Item")


@table("augment", "augmented texts for the teacher to label", TEXT_KINDS)
class AugmentSettings(Settings):
    """New training texts, made from the old ones."""

    kind: Literal["auto", "none", "bilstm", "tinybert"] = knob(
        "auto",
        "bilstm: masks, words of the same part of speech, n-grams; tinybert: words a language model finds as fitting; "
        "auto: as the recipe has it, else none",
    )
    copies: int = knob(
        0,
        "new texts per row; 0: as published (bilstm 20, pairs 10; tinybert 30, from 10,000 rows 20, from 200,000 10)",
        at_least=0,
        source=f"{_TANG}; {_JIAO}",
    )
    mask: float = knob(0.1, "bilstm: part of the words that is masked", at_least=0, at_most=1, source=_TANG)
    pos: float = knob(
        0.1,
        "bilstm: part replaced by words of the same part of speech; in other languages than English set 0",
        at_least=0,
        at_most=1,
        source=_TANG,
    )
    ngram: float = knob(0.25, "bilstm: part of the texts cut to a few words", at_least=0, at_most=1, source=_TANG)
    longest_ngram: int = knob(5, "bilstm: most words of a text so cut", at_least=1, source=_TANG)
    replace: float = knob(0.4, "tinybert: part of the words that is replaced", at_least=0, at_most=1, source=_JIAO)
    candidates: int = knob(15, "tinybert: words to choose from for each", at_least=1, source=_JIAO)
    model: str = knob(
        "",
        "tinybert: a masked language model that finds the words, a folder or a hub id; else the nearest ones in the "
        "teacher's embeddings",
    )
    limit: int = knob(0, "new texts at most, drawn by hash; 0 keeps all", at_least=0)
    seed: int = knob(0, "of the new texts; the same for every student, so that one cache serves all", at_least=0)

    def settled(self, kind: str = "none") -> Self:
        """With `auto` decided."""
        return self.but(kind=kind) if self.kind == "auto" else self


def augment(
    examples: Examples,
    settings: AugmentSettings,
    *,
    mask: str = "",
    masker: MaskedWords | None = None,
    watcher: Watcher = Silent(),  # noqa: B008
) -> Examples:
    """New rows without labels, none like another or like a given one; empty when there is nothing to do.

    `mask` is the tokenizer's mask token, for `bilstm`; `masker` finds words for `tinybert`. What is made of a row
    depends on its texts, the seed and, in `bilstm`, how often words occur in all rows; never on their order."""
    rows = Counter(zip(examples.texts, examples.pairs or [""] * len(examples), strict=True))
    if settings.settled().kind == "none" or not rows:
        return unlabelled({}, examples)
    distinct = list(rows)
    blocks = [distinct[start : start + _BLOCK] for start in range(0, len(distinct), _BLOCK)]
    if settings.kind == "bilstm":
        copies, before = _bilstm(rows, settings, mask, watcher), 0.9  # most of the time goes into tagging
    else:
        copies, before = _tinybert(rows, settings, masker), 0.0
    made = Counter(new for block in _watched(blocks, watcher, before, 1.0) for new in copies(block))
    named = {_uid(row): row for row in made if row not in rows}
    kept = {uid: named[uid] for uid in sorted(named)[: settings.limit or None]}
    watcher.say(
        f"augmentation ({settings.kind}): {len(examples):,} rows gave {made.total():,} texts, {len(kept):,} of them "
        f"new; left out: {made.total() - len(named):,} like others, {len(named) - len(kept):,} over the limit"
    )
    return unlabelled(kept, examples)


def _bilstm(rows: Counter[Row], settings: AugmentSettings, mask: str, watcher: Watcher) -> Copies:
    from limbeck.data.bilstm import Lexicon, Rewriter, english_tagger

    rewriter = Rewriter(settings, mask)
    if settings.pos:
        texts = Counter[str]()
        for row, times in rows.items():
            for text in filter(None, row):
                texts[text] += times
        rewriter.lexicon = Lexicon(_watched(list(texts.items()), watcher, 0.0, 0.9), english_tagger())
    return rewriter.copies


def _tinybert(rows: Counter[Row], settings: AugmentSettings, masker: MaskedWords | None) -> Copies:
    from limbeck.data.tinybert import Replacer, copies_of

    if masker is None:
        raise ValueError("the augmentation 'tinybert' needs someone to find words: a MaskedModel or Neighbours")
    count = settings.copies or copies_of(rows.total())
    return Replacer(settings, masker, count).copies


def _watched(items: Sequence[Item], watcher: Watcher, start: float, stop: float) -> Iterator[Item]:
    every = max(1, len(items) // 100)
    for number, item in enumerate(items):
        if number % every == 0:
            watcher.at(STAGE, start + (stop - start) * number / len(items))
        yield item
    watcher.at(STAGE, stop)


def _uid(row: Row) -> int:
    """63 bits of a hash of the texts, as rows that were read have, but for another purpose: never one of theirs."""
    text, pair = row
    content = f"{len(text)} {text}{pair}".encode()
    return int.from_bytes(blake2b(content, digest_size=8, person=b"augment").digest(), "big") >> 1


def unlabelled(rows: dict[int, Row], like: Examples) -> Examples:
    """Rows under their names, with the labels that rows without a label have."""
    import numpy as np

    from limbeck.data.corpus import Examples
    from limbeck.data.labels import NO_CLASS

    nothing = NO_CLASS if like.labels.dtype == np.int64 else 0
    return Examples(
        np.array(list(rows), dtype=np.int64),
        [text for text, _ in rows.values()],
        [pair for _, pair in rows.values()] if like.pairs else [],
        np.full((len(rows), *like.labels.shape[1:]), nothing, dtype=like.labels.dtype),
        np.zeros(len(rows), dtype=bool),
    )
