"""Texts become the arrays that a graph takes, as the tokenizers of transformers do it for the same model."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from limbeck_runtime.folder import TOKENIZER, Facts, UnusableError

Arrays = dict[str, NDArray[np.int64]]  # [texts, longest] each


class Encoder:
    """A tokenizer and what the facts say of truncation and padding."""

    def __init__(self, folder: Path, facts: Facts) -> None:
        from tokenizers import Tokenizer

        try:
            self.tokenizer: Any = Tokenizer.from_file(str(folder / TOKENIZER))
        except Exception as error:  # the Rust side raises bare Exception on a file it cannot read
            raise UnusableError(f"{folder / TOKENIZER} cannot be opened: {error}", "export the model again") from None
        self.tokenizer.no_padding()  # files remember what their last user set
        self.facts, self._limit = facts, 0
        self.limit_to(facts.max_length)

    def limit_to(self, length: int) -> None:
        """The tokens of a text from now on; of a pair, the longer text is cut first."""
        if length != self._limit:
            self._limit = length
            self.tokenizer.enable_truncation(length, direction=self.facts.truncation_side)

    def batch(self, texts: Sequence[str], pairs: Sequence[str] | None = None) -> Arrays:
        """Texts, or pairs of texts, in one padded batch."""
        if len(texts) == 1:  # what most calls are: without threads and without padding
            return self._alone(self.tokenizer.encode(texts[0], pairs[0] if pairs else None))
        return self.padded(self.encode(texts, pairs), self.facts.padding_side, self.facts.pad_type_id)

    def encode(self, texts: Sequence[str], pairs: Sequence[str] | None = None) -> list[Any]:
        rows = list(zip(texts, pairs, strict=True)) if pairs else list(texts)
        return list(self.tokenizer.encode_batch_fast(rows))  # without the characters of tokens

    def windows(self, texts: Sequence[Any], length: int, stride: int, cut: str) -> list[list[Any]]:
        """Every text, or pair of which the second is cut, in windows of so many tokens that share `stride` of them."""
        self.tokenizer.enable_truncation(length, stride=stride, strategy=cut, direction=self.facts.truncation_side)
        found = [[one, *one.overflowing] for one in self.tokenizer.encode_batch(list(texts))]
        self._limit = 0
        self.limit_to(self.facts.max_length)
        return found

    def shortened(self, text: str, longest: int) -> str:
        """At most so many tokens of a text."""
        self.tokenizer.no_truncation()
        offsets = self.tokenizer.encode(text, add_special_tokens=False).offsets
        self._limit = 0
        self.limit_to(self.facts.max_length)
        return text[: offsets[longest - 1][1]] if len(offsets) > longest else text

    def _alone(self, encoding: Any) -> Arrays:
        ids = np.array([encoding.ids], dtype=np.int64)
        arrays = {"input_ids": ids, "attention_mask": np.ones_like(ids)}
        if "token_type_ids" in self.facts.inputs:
            arrays["token_type_ids"] = np.array([encoding.type_ids], dtype=np.int64)
        return arrays

    def padded(self, encodings: Sequence[Any], side: str = "right", pad_type_id: int = 0) -> Arrays:
        rows, lengths = [one.ids for one in encodings], [len(one) for one in encodings]
        shape = len(rows), max(lengths)
        mask = np.arange(shape[1]) < np.array(lengths)[:, None]
        mask = mask if side == "right" else mask[:, ::-1]
        arrays = {
            "input_ids": np.full(shape, self.facts.pad_id, dtype=np.int64),
            "attention_mask": mask.astype(np.int64),
        }
        arrays["input_ids"][mask] = np.concatenate(rows)
        if "token_type_ids" in self.facts.inputs:
            arrays["token_type_ids"] = np.full(shape, pad_type_id, dtype=np.int64)
            arrays["token_type_ids"][mask] = np.concatenate([one.type_ids for one in encodings])
        return arrays
