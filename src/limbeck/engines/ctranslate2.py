"""CTranslate2: several times the speed of transformers on a CPU, with weights in int8.

A converted folder is complete by itself: weights, tokenizer, and `limbeck.json` with the facts that CTranslate2 has no
place for (forced tokens, banned words, the tokens that are read at most, a digest of the weights).
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

from limbeck.core.errors import KnobError, ModelError
from limbeck.engines.base import (
    BATCH_TOKENS,
    EMPTY,
    Engine,
    Hypothesis,
    batches_by_length,
    check_beam,
    decode,
    max_new_tokens,
    token_ids,
)

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

FACTS = "limbeck.json"
_REMEDY = "convert the model's folder again"


class CTranslate2Engine(Engine):
    """A folder that `limbeck.exporters.ctranslate2.convert` made. Batches run side by side, one thread each."""

    def __init__(
        self,
        folder: Path | str,
        tokenizer: PreTrainedTokenizerBase | None = None,
        threads: int = 0,
        length_penalty: float = 1.0,
        longest: int = 0,
        batch_tokens: int = BATCH_TOKENS,
    ) -> None:
        engine = import_ctranslate2()
        import torch

        facts = read_facts(folder)
        self.tokenizer = read_tokenizer(folder) if tokenizer is None else tokenizer
        self.length_penalty, self.longest, self.batch_tokens = length_penalty, longest, batch_tokens
        self.max_length: int = facts["reads"]
        self.end: str = facts["end"]
        self.spare = int(facts["forced_end"])  # transformers leaves the last place to a forced eos
        self.prefix: list[str] = facts["prefix"]
        self.banned: list[list[str]] = facts["banned"]
        self.name = f"ctranslate2 {facts['precision']}"
        self._engine = engine.Translator(
            str(folder), device="cpu", inter_threads=threads or torch.get_num_threads(), intra_threads=1
        )

    def translate(self, sources: Sequence[str], beam: int = 1, nbest: int = 1) -> list[list[Hypothesis]]:
        check_beam(beam, nbest)
        ids = token_ids(self.tokenizer, sources, self.max_length)
        batches = batches_by_length([len(row) for row in ids], self.batch_tokens)
        pending = [self._start([ids[i] for i in batch], beam, nbest) for batch in batches]
        found: list[list[Hypothesis]] = [[EMPTY] for _ in ids]
        for batch, results in zip(batches, pending, strict=True):
            for place, result in zip(batch, results, strict=True):
                found[place] = self._hypotheses(result.result())
        return found

    def _start(self, ids: list[list[int]], beam: int, nbest: int) -> list[Any]:
        results: list[Any] = self._engine.translate_batch(
            [self.tokenizer.convert_ids_to_tokens(row) for row in ids],
            target_prefix=[self.prefix] * len(ids) if self.prefix else None,
            max_decoding_length=max_new_tokens(len(ids[0]), self.longest, self.max_length) - self.spare,
            max_input_length=0,
            min_decoding_length=0,  # transformers too lets a translation be empty
            beam_size=beam,
            num_hypotheses=nbest,
            length_penalty=self.length_penalty,
            suppress_sequences=self.banned or None,
            return_scores=True,
            return_end_token=True,
            asynchronous=True,
        )
        return results

    def _hypotheses(self, result: Any) -> list[Hypothesis]:
        texts = decode(self.tokenizer, [self.tokenizer.convert_tokens_to_ids(tokens) for tokens in result.hypotheses])
        return [
            Hypothesis(text, score * len(tokens) ** self.length_penalty, cut=tokens[-1:] != [self.end])
            for text, score, tokens in zip(texts, result.scores, result.hypotheses, strict=True)
        ]


def read_facts(folder: Path | str) -> dict[str, Any]:
    """Refuses a folder that another program made: nothing says with which tokens its model begins and ends."""
    if facts := find_facts(folder):
        return facts
    raise ModelError(f"{folder} was not converted here: it has no {FACTS}", _REMEDY)


def find_facts(folder: Path | str) -> dict[str, Any]:
    """What `convert` wrote beside the weights; nothing if it did not make the folder."""
    try:
        return dict(json.loads((Path(folder) / FACTS).read_text(encoding="utf-8")))
    except (OSError, ValueError):
        return {}


def read_tokenizer(folder: Path | str) -> PreTrainedTokenizerBase:
    from transformers import AutoTokenizer

    try:
        return AutoTokenizer.from_pretrained(folder)
    except (OSError, ValueError) as error:
        reason = str(error).strip().splitlines()[0]
        raise ModelError(f"the tokenizer in {folder} cannot be opened: {reason}", _REMEDY) from None


def import_ctranslate2() -> Any:
    try:
        return import_module("ctranslate2")
    except ImportError:
        raise KnobError("CTranslate2 is not installed", "pip install 'limbeck[translate]'") from None
