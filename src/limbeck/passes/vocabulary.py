"""Vocabulary trimming: pieces that the texts do not need go, and their embeddings with them.

    keep = pieces of the texts ∪ single characters ∪ bytes ∪ special tokens ∪ what BPE merges them from

Everything left computes what it did: a kept piece has its old vector, output row, bias, score and merges under a new
number. A word whose piece went is spelled with shorter pieces, hence never unknown if its characters are known.

- `lossless` keeps every piece of the calibration texts and proves, row by row, that each of them has the same ids as
  before, once mapped back. The model's answers to these rows are those it had.
- `aggressive` keeps the pieces that occur at least `min_count` times, or the `size` most frequent ones. It is smaller
  and splits rare words: do it before distilling, so that the student learns the split ones.

Other texts than those may hold pieces that went. What that costs is counted on held-out texts: rows that are segmented
otherwise, tokens that became unknown, tokens more. SST-2's own training rows keep 44 % of BERT's pieces, and 37 % of
its dev sentences are then segmented otherwise, with 3 % more tokens: text of the same domain in `extra` lowers that.

Example:

    from limbeck import Calibration, Mask, Vocabulary
    from transformers import BertConfig, BertForSequenceClassification, BertTokenizerFast

    pieces = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "a", "##b", "good", "bad", "film", "plot"]
    tokenizer = BertTokenizerFast(vocab={piece: number for number, piece in enumerate(pieces)})
    shape = {"hidden_size": 8, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 8}
    model = BertForSequenceClassification(BertConfig(vocab_size=11, **shape))

    rows = Calibration(texts=[("a good film",), ("a bad film",)], processor=tokenizer)
    change = Vocabulary().apply(model, Mask(), rows)
    assert len(change.processor) == model.config.vocab_size == 10  # all but plot
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Self

from pydantic import field_validator, model_validator

from limbeck.core.card import Paper
from limbeck.core.compress import NO_CALIBRATION, Calibration, Change, Mask, Pass, compression
from limbeck.core.errors import DataError, KnobError, MismatchError
from limbeck.core.knob import knob
from limbeck.core.vocabulary import named_ids, take_rows, trimmed

if TYPE_CHECKING:
    import numpy as np
    from torch import nn

USHIO_2023 = Paper(
    "An Efficient Multilingual Language Model Compression through Vocabulary Trimming",
    "Asahi Ushio, Yi Zhou, Jose Camacho-Collados",
    2023,
    "Findings of EMNLP 2023, arXiv:2305.15020",
    "ushio2023efficient",
    "https://arxiv.org/abs/2305.15020",
)
Rows = Sequence[tuple[str, ...]]
_CHUNK = 1000  # rows tokenized at a time


@compression("vocabulary", USHIO_2023)
class Vocabulary(Pass):
    """Removes the pieces that the texts do not need from tokenizer and model."""

    calibrates: ClassVar[bool] = True
    reshapes: ClassVar[bool] = True
    retokenizes: ClassVar[bool] = True

    mode: Literal["lossless", "aggressive"] = knob("lossless", "keep every piece of the texts, or the frequent ones")
    min_count: int = knob(2, "times that a piece occurs to be kept; for mode aggressive", at_least=1)
    size: int = knob(0, "most frequent pieces to keep, instead of min_count; for mode aggressive", at_least=0)
    extra: tuple[str, ...] = knob((), "files of plain text whose pieces are kept too")

    @field_validator("extra", mode="before")
    @classmethod
    def _one_file(cls, value: Any) -> Any:
        return (str(value),) if isinstance(value, str | Path) else tuple(map(str, value))

    @model_validator(mode="after")
    def _check_mode(self) -> Self:
        fields = type(self).model_fields
        unused = [name for name in ("min_count", "size") if getattr(self, name) != fields[name].default]
        if self.mode == "lossless" and unused:
            raise KnobError(
                f"'{unused[0]}' has no effect in the mode 'lossless'", "set mode to aggressive, or leave it out"
            )
        return self

    @property
    def recoverable(self) -> bool:
        return self.mode == "aggressive"  # else the model answers as it did

    def apply(self, model: nn.Module, mask: Mask, calibration: Calibration = NO_CALIBRATION) -> Change:
        tokenizer, rows = calibration.processor, calibration.texts
        if tokenizer is None or not (rows or self.extra):
            raise DataError(
                "the pass 'vocabulary' keeps what occurs in texts, but has no texts or no tokenizer",
                "give it both: Calibration(texts=[(text,), …], processor=tokenizer)",
            )
        before = _encode(tokenizer, rows, model)
        lines = [line for file in self.extra for line in _lines(file)]
        extra = _encode(tokenizer, [(line, line) if _is_translator(model) else (line,) for line in lines], model)
        chosen = self._chosen(before.ids, tokenizer.all_special_ids)
        keep = {*chosen, *extra.ids.tolist(), *named_ids(model), *calibration.pieces}
        small, old_ids = trimmed(tokenizer, keep)
        here = _compare(before, _encode(small, rows, model), old_ids, tokenizer)
        if self.mode == "lossless" and here.changed:
            # Without its longest piece a word that was unknown may be spelled: with all pieces in it, it is not.
            small, old_ids = trimmed(tokenizer, keep | _inside(tokenizer, [rows[number] for number in here.changed]))
            here = _compare(before, _encode(small, rows, model), old_ids, tokenizer)
            _check_lossless(here, rows)
        held_out = calibration.held_out
        there = _compare(_encode(tokenizer, held_out, model), _encode(small, held_out, model), old_ids, tokenizer)
        # a setting may name a token that the tokenizer does not have
        kept = [*old_ids, *sorted(named_ids(model) - {*old_ids})]
        pieces = len(tokenizer)
        dimensions = take_rows(model, kept)
        share = len(old_ids) / pieces
        figures = {"pieces_before": pieces, "pieces": len(old_ids), "pieces_share": share}
        figures |= here.figures("calibration") | there.figures("held_out")
        note = f"{len(old_ids):,} of {pieces:,} pieces remain ({100 * share:.1f} %). {here.said('calibration')}"
        return Change(_taken(mask, dimensions, kept), f"{note} {there.said('held-out')}".strip(), small, figures)

    def _chosen(self, ids: np.ndarray, special: list[int]) -> list[int]:
        """Of the pieces that occur in the texts, those to keep; special tokens stay anyway."""
        import numpy as np

        pieces, counts = np.unique(ids[~np.isin(ids, special)], return_counts=True)
        if self.mode == "aggressive" and self.size:
            return list(pieces[np.argsort(-counts, kind="stable")[: self.size]].tolist())
        return list(pieces[counts >= (self.min_count if self.mode == "aggressive" else 1)].tolist())


@dataclass(frozen=True)
class _Encoded:
    """Token ids of rows, one row after another."""

    ids: np.ndarray
    ends: np.ndarray  # where each row ends

    def __iter__(self) -> Iterator[np.ndarray]:
        start = 0
        for end in self.ends.tolist():
            yield self.ids[start:end]
            start = end


@dataclass(frozen=True)
class _Difference:
    """What trimming does to the segmentation of some rows."""

    rows: int
    changed: list[int]  # their numbers
    new_unknowns: int  # tokens
    more_tokens: float  # share

    def figures(self, which: str) -> dict[str, float]:
        if not self.rows:
            return {}
        counted = {
            "rows": self.rows,
            "resegmented": len(self.changed),
            "resegmented_share": len(self.changed) / self.rows,
        }
        counted |= {"new_unknowns": self.new_unknowns, "more_tokens_share": self.more_tokens}
        return {f"{which}_{name}": value for name, value in counted.items()}

    def said(self, which: str) -> str:
        if not self.rows:
            return ""
        if not self.changed:
            return f"All {self.rows:,} {which} texts have the same tokens as before."
        share, more = 100 * len(self.changed) / self.rows, 100 * self.more_tokens
        return (
            f"Of {self.rows:,} {which} texts {len(self.changed):,} ({share:.1f} %) are segmented otherwise, "
            f"with {self.new_unknowns:,} new unknown tokens and {more:.1f} % more tokens."
        )


def _is_translator(model: Any) -> bool:
    """Whether the second text of a row is what the model writes."""
    return bool(getattr(model.config, "is_encoder_decoder", False) and model.get_output_embeddings() is not None)


def _encode(tokenizer: Any, rows: Rows, model: Any) -> _Encoded:
    import numpy as np

    how = {"padding": False, "truncation": False, "verbose": False, "return_attention_mask": False}
    found: list[list[int]] = []
    for start in range(0, len(rows), _CHUNK):
        for _, alike in groupby(rows[start : start + _CHUNK], key=len):
            texts, *others = map(list, zip(*alike, strict=True))
            if others and _is_translator(model):
                sources, targets = (
                    tokenizer(**side, **how)["input_ids"] for side in ({"text": texts}, {"text_target": others[0]})
                )
                found += [source + target for source, target in zip(sources, targets, strict=True)]
            else:
                found += tokenizer(texts, *others[:1], **how)["input_ids"]
    ids = np.fromiter((number for row in found for number in row), np.int64)
    return _Encoded(ids, np.cumsum([len(row) for row in found], dtype=np.int64))


def _compare(before: _Encoded, after: _Encoded, old_ids: Sequence[int], tokenizer: Any) -> _Difference:
    import numpy as np

    back = _Encoded(np.asarray(old_ids, np.int64)[after.ids], after.ends)
    pairs = list(zip(before, back, strict=True))
    unknown = -1 if tokenizer.unk_token_id is None else tokenizer.unk_token_id
    return _Difference(
        rows=len(pairs),
        changed=[number for number, (one, other) in enumerate(pairs) if not np.array_equal(one, other)],
        new_unknowns=sum(max(0, int((other == unknown).sum() - (one == unknown).sum())) for one, other in pairs),
        more_tokens=len(back.ids) / max(len(before.ids), 1) - 1,
    )


def _inside(tokenizer: Any, rows: Rows) -> set[int]:
    """Every piece that stands anywhere in these texts."""
    normalizer = tokenizer.is_fast and tokenizer.backend_tokenizer.normalizer
    texts = [normalizer.normalize_str(text) if normalizer else text for row in rows for text in row]
    pieces = ((piece.removeprefix("##"), number) for piece, number in tokenizer.get_vocab().items())
    return {number for piece, number in pieces if any(piece in text for text in texts)}


def _check_lossless(here: _Difference, rows: Rows) -> None:
    if here.changed:
        raise MismatchError(
            f"{len(here.changed):,} of {here.rows:,} calibration texts are segmented otherwise after trimming, first "
            f"{' | '.join(rows[here.changed[0]])!r}",
            "set mode to aggressive, which accepts that",
        )


def _lines(file: str) -> list[str]:
    try:
        return Path(file).expanduser().read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        why = "it is not UTF-8" if isinstance(error, UnicodeDecodeError) else error.strerror
        raise DataError(f"{file}, a file of 'extra', cannot be read: {why}", "name a file of plain text") from None


def _taken(mask: Mask, dimensions: Mapping[str, int], kept: Sequence[int]) -> Mask:
    """The mask of a model whose rows were taken."""
    import torch

    index = torch.tensor(kept)
    live = mask.live.items()
    return Mask({name: x.index_select(dimensions[name], index) if name in dimensions else x for name, x in live})
