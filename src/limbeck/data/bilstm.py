"""New texts by masks, like words and n-grams, after Tang et al. 2019.

Of each copy of a text every word draws its fate: with probability `mask` it becomes the mask token, with `pos` another
word of the same part of speech, drawn as often as it occurs in the training texts; else it stays. Then, with
probability `ngram`, only a window of 1 to `longest_ngram` words is kept, every size and every place alike likely. Of a
pair the copies change the first text, the second, and both, by turns.

The published script never keeps the last window and gives up on texts as long as their window; here all are possible.
Like it, a copy of nothing but masks is left out.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from importlib import import_module
from itertools import accumulate
from pathlib import Path
from random import Random

from limbeck.core.errors import KnobError, ModelError
from limbeck.data.settings import AugmentSettings
from limbeck.data.words import Row, Words, chance_of, split

Tagger = Callable[[Sequence[str]], list[str]]  # the part of speech of each word of a sentence
SINGLE, PAIR = 20, 10  # copies of a row; Tang et al. 2019
_SIDES = ((True, False), (False, True), (True, True))  # which texts of a pair change, by turns
_LONGEST = 40  # letters of a word the tagger sees, from its end; its time grows with their square


class Lexicon:
    """Every text's parts of speech, and the words of each as often as they occur."""

    def __init__(self, texts: Iterable[tuple[str, int]], tagger: Tagger) -> None:
        """`texts` says how often each occurs."""
        self.tags: dict[str, list[str]] = {}
        counts: dict[str, Counter[str]] = {}
        for text, times in texts:
            words = split(text).words
            self.tags[text] = tagger(words)
            for word, tag in zip(words, self.tags[text], strict=True):
                counts.setdefault(tag, Counter())[word] += times
        # By the alphabet: the order of the texts must not show.
        self._words = {tag: sorted(count) for tag, count in counts.items()}
        self._sums = {tag: list(accumulate(counts[tag][word] for word in words)) for tag, words in self._words.items()}

    def like(self, tag: str, chance: float) -> str:
        """The word of this tag that a number in [0, 1) falls on."""
        sums = self._sums[tag]
        return self._words[tag][bisect_right(sums, int(chance * sums[-1]))]


class Rewriter:
    """Copies of texts; `mask` is the tokenizer's mask token."""

    def __init__(self, settings: AugmentSettings, mask: str, lexicon: Lexicon | None = None) -> None:
        if settings.mask + settings.pos > 1 + 1e-9:
            raise KnobError(
                f"augment.mask = {settings.mask} and augment.pos = {settings.pos} are parts of the same words, but "
                "together more than all of them",
                "lower one of them; what is left of 1 stays unchanged",
            )
        if settings.mask and not mask:
            raise ModelError(
                "the tokenizer has no mask token, so words cannot be masked",
                "set --augment.mask 0: words are then replaced and texts cut, but none is masked",
            )
        self.settings = settings
        self.mask = mask
        self.lexicon = lexicon  # not needed where no word is replaced

    def copies(self, rows: Iterable[Row]) -> Iterator[Row]:
        """Rewritten copies of every row, some of which may be alike, or like the original."""
        for row in rows:
            count = self.settings.copies_or(PAIR if row[1] else SINGLE)
            chance = chance_of(row, self.settings.seed)
            text, pair = (split(side) for side in row)
            for turn in range(count):
                first, second = _SIDES[turn % len(_SIDES)] if row[1] else (True, False)
                made = (
                    self.rewrite(text, row[0], chance) if first else row[0],
                    self.rewrite(pair, row[1], chance) if second else row[1],
                )
                if made[0] and bool(made[1]) == bool(row[1]):
                    yield made

    def rewrite(self, text: Words, name: str, chance: Random) -> str:
        """One copy of the text `name`, or nothing where only masks are left."""
        words = self.changed(text.words, name, chance)
        start, stop = 0, len(words)
        if words and chance.random() < self.settings.ngram:
            start, stop = window(len(words), self.settings.longest_ngram, chance)
        if all(word == self.mask for word in words[start:stop]):
            return ""
        return text.written(words, start, stop)

    def changed(self, words: Sequence[str], name: str, chance: Random) -> list[str]:
        """Each word masked, replaced or kept."""
        tags = self.lexicon.tags[name] if self.lexicon else [""] * len(words)
        return [self._fate(word, tag, chance) for word, tag in zip(words, tags, strict=True)]

    def _fate(self, word: str, tag: str, chance: Random) -> str:
        drawn = chance.random()
        if drawn < self.settings.mask:
            return self.mask
        if self.lexicon and drawn < self.settings.mask + self.settings.pos:
            return self.lexicon.like(tag, chance.random())
        return word


def window(length: int, longest: int, chance: Random) -> tuple[int, int]:
    """Start and stop of a window of 1 to `longest` words; every size and then every place alike likely."""
    size = 1 + int(chance.random() * min(longest, length))
    start = int(chance.random() * (length - size + 1))
    return start, start + size


def english_tagger() -> Tagger:
    """HanTa's, whose English model comes with the package."""
    try:
        hanta = import_module("HanTa.HanoverTagger")
    except ImportError:
        raise ModelError(
            "replacing words by others of the same part of speech needs the tagger HanTa, which is not installed",
            "pip install 'limbeck[augment]', or set --augment.pos 0",
        ) from None
    # Its full path: by name alone HanTa would first unpickle a file of that name in the working folder.
    tagger = hanta.HanoverTagger(str(Path(hanta.__file__ or "").with_name("morphmodel_en.pgz")))

    def tag(words: Sequence[str]) -> list[str]:
        return list(tagger.tag_sent([word[-_LONGEST:] for word in words], taglevel=0))

    return tag
