"""New texts by words that fit, after TinyBERT's data augmentation.

A word that is one piece of the vocabulary has as candidates what a masked language model finds most probable in its
place; a word of several pieces, the words nearest to the mean of its pieces in the model's own embeddings (the paper:
nearest in GloVe). A copy replaces each word with probability `replace` by one of them, alike likely. Stop words and
whatever is not all letters never change. Candidates are whole words of letters, other than the word itself.

The published code lets the model see the unmasked sentence beside the masked one, counts repeated copies, and
augments the second text of a pair beside the last version of the first. Here the model sees the masked text alone,
copies differ, and of a pair one text changes at a time, by turns, beside the other as it was.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from random import Random
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

import numpy as np

from limbeck.core.forward import forward
from limbeck.core.task import TaskInfo
from limbeck.core.trace import Batch
from limbeck.data.settings import AugmentSettings
from limbeck.data.words import Row, Words, chance_of, split

if TYPE_CHECKING:
    from torch import Tensor
    from transformers import PreTrainedModel

_STOP = """
a about above after again against all also although am among an and another any are around as at be because been
before being below between both but by can cannot could did do does doing down during each either else ever every
few for from further had has have having he her here hers herself him himself his how however i if in into is it
its itself just less let may me might mine more most much must my myself neither never no nobody none nor not
nothing now of off on once one only or other others our ours ourselves out over own per quite rather same shall
she should since so some such than that the their theirs them themselves then there these they this those though
through thus to too toward towards under unless until up upon us very was we were what when where whether which
while who whom whose why will with within without would yet you your yours yourself yourselves
"""
STOP_WORDS = frozenset(_STOP.split())
_TRIES = 4  # draws per copy: short texts have few different ones
_LENGTH = 256  # tokens a language model sees at most, and letters on either side of a gap
_BATCH = 32
_SPARE = 5  # more candidates than wanted: the word itself, and its other spellings, are left out


class Place(NamedTuple):
    """A word and the text around it."""

    before: str
    word: str
    after: str


class MaskedWords(Protocol):
    def candidates(self, places: Sequence[Place], most: int) -> list[list[str]]:
        """For each place at most so many other words that fit there, the best first."""


def copies_of(rows: int) -> int:
    """As the code has it for GLUE: 30 for MRPC or RTE, 20 for SST-2 or QNLI, 10 for QQP or MNLI."""
    return 30 if rows < 10_000 else 20 if rows < 200_000 else 10


class Replacer:
    def __init__(self, settings: AugmentSettings, masker: MaskedWords, count: int) -> None:
        self.settings = settings
        self.masker = masker
        self.count = count

    def copies(self, rows: Sequence[Row]) -> Iterator[Row]:
        """New versions of every row, at most `count` of each, all different."""
        if not self.settings.replace:
            return
        texts = {text: split(text) for row in rows for text in row if text}
        options = self._options(texts)
        for row in rows:
            chance = chance_of(row, self.settings.seed)
            found: dict[Row, None] = {}
            for turn in range(_TRIES * self.count):
                side = turn % 2 if row[1] else 0
                new = self._rewrite(texts[row[side]], options[row[side]], chance)
                made = (row[0], new) if side else (new, row[1])
                if made != row:
                    found[made] = None
                if len(found) == self.count:
                    break
            yield from found

    def _options(self, texts: dict[str, Words]) -> dict[str, dict[int, list[str]]]:
        """Text → place of a word → what may stand there instead."""
        wanted = [(text, place) for text, words in texts.items() for place in changeable(words)]
        around = [_place(texts[text], place) for text, place in wanted]
        options: dict[str, dict[int, list[str]]] = {text: {} for text in texts}
        found = self.masker.candidates(around, self.settings.candidates)
        for (text, place), words in zip(wanted, found, strict=True):
            if words:
                options[text][place] = words
        return options

    def _rewrite(self, text: Words, options: dict[int, list[str]], chance: Random) -> str:
        words = list(text.words)
        for place, others in options.items():
            if chance.random() < self.settings.replace:
                words[place] = _as_written(words[place], others[int(chance.random() * len(others))])
        return text.written(words)


def changeable(text: Words) -> list[int]:
    """The places of words of letters that are not stop words."""
    return [place for place, word in enumerate(text.words) if word.isalpha() and word.lower() not in STOP_WORDS]


def _place(text: Words, place: int) -> Place:
    before = text.written(text.words, 0, place) + text.gaps[place] if place else text.gaps[0]
    last = place == len(text) - 1
    after = text.gaps[-1] if last else text.gaps[place + 1] + text.written(text.words, place + 1)
    return Place(before, text.words[place], after)


def _as_written(word: str, other: str) -> str:
    """`other` with a capital where `word` has one."""
    return other[0].upper() + other[1:] if word[0].isupper() else other


def words_from(model: PreTrainedModel, tokenizer: Any) -> MaskedWords:
    """Candidates from a masked LM's predictions; from any other model, the nearest words in its embeddings."""
    near = Neighbours(model.get_input_embeddings().weight.detach(), tokenizer)
    fills = type(model).__name__.endswith("MaskedLM") and tokenizer.mask_token
    return MaskedModel(model, tokenizer, near) if fills else near


class Neighbours:
    """Words whose embeddings point in nearly the same direction, whatever stands around them."""

    def __init__(self, table: Tensor, tokenizer: Any) -> None:
        self.tokenizer = tokenizer
        self.words = whole_words(tokenizer, len(table))
        self._table = table.float().cpu().numpy()
        self._ids = np.array(list(self.words), dtype=np.int64)
        self._unit = _unit(self._table[self._ids])  # [words, width]
        self._found: dict[tuple[str, int], list[str]] = {}

    def candidates(self, places: Sequence[Place], most: int) -> list[list[str]]:
        wanted = list(dict.fromkeys(place.word for place in places if (place.word, most) not in self._found))
        for start in range(0, len(wanted), _BATCH):
            self._look_up(wanted[start : start + _BATCH], most)
        return [self._found[place.word, most] for place in places]

    def _look_up(self, words: list[str], most: int) -> None:
        pieces = [ids if self.tokenizer.unk_token_id not in ids else [] for ids in ids_of(self.tokenizer, words)]
        means = np.stack([self._table[ids].mean(0) if ids else 0 * self._table[0] for ids in pieces])
        near = _unit(means) @ self._unit.T  # [wanted, words]
        for word, ids, cosines in zip(words, pieces, near, strict=True):
            best = self._ids[_largest(cosines, most + _SPARE)]
            self._found[word, most] = _others(word, [self.words[i] for i in best], most) if ids else []


class MaskedModel:
    """A masked language model for words of one piece, and their neighbours for the others."""

    def __init__(self, model: PreTrainedModel, tokenizer: Any, near: Neighbours) -> None:
        import torch

        self.model = model.eval()
        self.tokenizer = tokenizer
        self.near = near
        self._barred = torch.ones(len(tokenizer), dtype=torch.bool)  # pieces that are no whole word
        self._barred[list(near.words)] = False

    def candidates(self, places: Sequence[Place], most: int) -> list[list[str]]:
        pieces = ids_of(self.tokenizer, [place.word for place in places])
        single = [number for number, ids in enumerate(pieces) if len(ids) == 1 and ids[0] in self.near.words]
        single.sort(key=lambda number: sum(map(len, places[number])))  # little padding
        fitting: dict[int, list[str]] = {}
        for start in range(0, len(single), _BATCH):
            batch = single[start : start + _BATCH]
            found = zip(batch, self._fill([places[number] for number in batch], most), strict=True)
            fitting |= {number: words for number, words in found if words}
        others = [number for number in range(len(places)) if number not in fitting]
        near = zip(others, self.near.candidates([places[number] for number in others], most), strict=True)
        fitting |= near
        return [fitting[number] for number in range(len(places))]

    def _fill(self, places: list[Place], most: int) -> list[list[str]]:
        """What fits; nothing for a gap that lies beyond the tokens the model reads."""
        import torch

        mask = self.tokenizer.mask_token
        longest = min(self.tokenizer.model_max_length, _LENGTH)
        texts = [  # the gap is the only mask
            _end(place.before.replace(mask, ""), longest) + mask + _start(place.after.replace(mask, ""), longest)
            for place in places
        ]
        inputs = self.tokenizer(texts, padding=True, truncation=True, max_length=longest, return_tensors="pt")
        inputs, ids = inputs.to(self.model.device), inputs["input_ids"]
        masked = ids == self.tokenizer.mask_token_id
        words = len(self._barred)
        task = TaskInfo(kind="mask-fill", vocab_size=words)
        batch = Batch(task, uids=torch.arange(len(ids)), labels=ids, has_label=masked, inputs=inputs, predicted=masked)
        with torch.no_grad():
            logits = forward(self.model, batch, vocabulary=words).tokens.logits().cpu()  # [places, vocabulary]
        best = logits.masked_fill(self._barred, -torch.inf).topk(min(most + _SPARE, len(self.near.words))).indices
        rows = iter(best.tolist())
        return [
            _others(place.word, [self.near.words[number] for number in next(rows)], most) if seen else []
            for place, seen in zip(places, masked.any(1).tolist(), strict=True)
        ]


def _others(word: str, best: list[str], most: int) -> list[str]:
    return [other for other in dict.fromkeys(best) if other.lower() != word.lower()][:most]


def whole_words(tokenizer: Any, rows: int) -> dict[int, str]:
    """Piece → word, of those pieces that alone make a word of letters."""
    spoken = tokenizer.batch_decode([[number] for number in range(min(rows, len(tokenizer)))])
    words = {number: text.strip() for number, text in enumerate(spoken) if text.strip().isalpha()}
    back = ids_of(tokenizer, list(words.values()))
    return {number: word for (number, word), ids in zip(words.items(), back, strict=True) if ids == [number]}


def ids_of(tokenizer: Any, words: Sequence[str]) -> list[list[int]]:
    """The pieces of each word, as inside a sentence: some tokenizers mark the space before a word."""
    if not words:
        return []
    given = [f" {word}" for word in words]
    found: list[list[int]] = tokenizer(given, add_special_tokens=False, return_attention_mask=False)["input_ids"]
    return found


def _largest(values: np.ndarray, count: int) -> np.ndarray:
    """The places of the largest values, the largest first."""
    some = np.argpartition(values, -count)[-count:] if count < len(values) else np.arange(len(values))
    return some[np.argsort(-values[some], kind="stable")]


def _unit(rows: np.ndarray) -> np.ndarray:
    return rows / np.maximum(np.linalg.norm(rows, axis=1, keepdims=True), 1e-12)


def _end(text: str, letters: int) -> str:
    """The end of a long text, from a space on where there is one."""
    return text if len(text) <= letters else text[-letters:].partition(" ")[2] or text[-letters:]


def _start(text: str, letters: int) -> str:
    return text if len(text) <= letters else text[:letters].rpartition(" ")[0] or text[:letters]
