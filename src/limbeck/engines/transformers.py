"""transformers' own beam search.

Of the generation settings that a folder brings, those stay that belong to the architecture: the ids of bos, eos, pad
and of the decoder's start, a forced first or last token (the language code of M2M and mBART), and `bad_words_ids`
(which keeps Marian from writing <pad>). All others are reset, so that a translation follows from the model, the beam
and the length penalty alone: no sampling, no repetition penalty, no n-gram block, no least length. Beam search ends
when as many hypotheses are finished as the beam is wide, which is where CTranslate2 ends too.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

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
    from torch import Tensor
    from transformers import GenerationConfig, PreTrainedModel, PreTrainedTokenizerBase

ARCHITECTURE_SETTINGS = (
    *("bos_token_id", "eos_token_id", "pad_token_id", "decoder_start_token_id"),
    *("forced_bos_token_id", "forced_eos_token_id", "bad_words_ids"),
)
SCORE_BYTES = 2**30  # transformers holds the scores of every step, beam and word until a batch is done
NOT_A_HYPOTHESIS = -1e8  # transformers fills a beam that is wider than the language with scores below this


class TransformersEngine(Engine):
    """transformers' own beam search; a beam of 1 is greedy. Sources longer than the model reads are cut."""

    def __init__(
        self,
        model: PreTrainedModel,
        tokenizer: PreTrainedTokenizerBase,
        length_penalty: float = 1.0,
        longest: int = 0,
        batch_tokens: int = BATCH_TOKENS,
    ) -> None:
        self.model, self.tokenizer = model, tokenizer
        self.length_penalty, self.longest, self.batch_tokens = length_penalty, longest, batch_tokens
        self.name = f"transformers {str(model.dtype).removeprefix('torch.')}"
        self.max_length = max_length(model, tokenizer)

    def translate(self, sources: Sequence[str], beam: int = 1, nbest: int = 1) -> list[list[Hypothesis]]:
        check_beam(beam, nbest)
        ids = token_ids(self.tokenizer, sources, self.max_length)
        found: list[list[Hypothesis]] = [[EMPTY] for _ in ids]
        with _architecture_settings_only(self.model):
            for batch in self._batches([len(row) for row in ids], beam):
                for place, hypotheses in zip(batch, self._write([ids[i] for i in batch], beam, nbest), strict=True):
                    found[place] = hypotheses
        return found

    def _batches(self, lengths: list[int], beam: int) -> Iterator[list[int]]:
        for batch in batches_by_length(lengths, self.batch_tokens):
            words = max_new_tokens(lengths[batch[0]], self.longest, self.max_length) * self.model.config.vocab_size
            rows = len(batch) if beam == 1 else max(1, SCORE_BYTES // (4 * beam * words))
            yield from (batch[start : start + rows] for start in range(0, len(batch), rows))

    def _write(self, ids: list[list[int]], beam: int, nbest: int) -> list[list[Hypothesis]]:
        import torch
        from torch.nn.utils.rnn import pad_sequence
        from transformers import LogitsProcessorList

        rows = [torch.tensor(row) for row in ids]
        padded = pad_sequence(rows, batch_first=True, padding_value=self.tokenizer.pad_token_id or 0)
        mask = pad_sequence([torch.ones_like(row) for row in rows], batch_first=True)
        greedy = _GreedySteps()
        most = max_new_tokens(len(ids[0]), self.longest, self.max_length)
        out = self.model.generate(
            input_ids=padded.to(self.model.device),
            attention_mask=mask.to(self.model.device),
            max_new_tokens=most,
            num_beams=beam,
            num_return_sequences=nbest,
            length_penalty=self.length_penalty,
            early_stopping=beam > 1,
            do_sample=False,
            renormalize_logits=True,
            output_scores=beam > 1,
            return_dict_in_generate=True,
            logits_processor=LogitsProcessorList([greedy] if beam == 1 else []),
        )
        written = [self._until_eos(row) for row in out.sequences[:, 1:].tolist()]
        lengths = torch.tensor([len(row) for row in written])
        if beam == 1:
            scores = log_p = greedy.sums(lengths)
        else:
            scores = out.sequences_scores.cpu()
            log_p = scores.double() * lengths.double() ** self.length_penalty
        cut = [self._is_cut(row, most) for row in written]
        each = [Hypothesis(*facts) for facts in zip(decode(self.tokenizer, written), log_p.tolist(), cut, strict=True)]
        real = [rank % nbest == 0 or score > NOT_A_HYPOTHESIS for rank, score in enumerate(scores.tolist())]
        return [
            [each[rank] for rank in range(first, first + nbest) if real[rank]] for first in range(0, len(each), nbest)
        ]

    def _until_eos(self, row: list[int]) -> list[int]:
        """The tokens that were written: up to the first eos, eos included, or all but the padding."""
        eos = self._eos_ids()
        for place, token in enumerate(row):
            if token in eos:
                return row[: place + 1]
        while row and row[-1] == self.model.generation_config.pad_token_id:
            row = row[:-1]
        return row

    def _is_cut(self, row: list[int], most: int) -> bool:
        """A forced eos in the last place is no end of the model's own."""
        if len(row) < most:
            return False
        return self.model.generation_config.forced_eos_token_id is not None or row[-1] not in self._eos_ids()

    def _eos_ids(self) -> list[int]:
        end = self.model.generation_config.eos_token_id
        return end if isinstance(end, list) else [end]


class _GreedySteps:
    """Sees the scores of every step and keeps the winner's log-probability.

    `output_scores` would keep whole vocabularies: gigabytes for a batch that this class remembers in kilobytes."""

    def __init__(self) -> None:
        self.steps: list[Tensor] = []

    def __call__(self, ids: Tensor, scores: Tensor) -> Tensor:
        scores_ = scores.double()
        self.steps.append((scores_.amax(-1) - scores_.logsumexp(-1)).cpu())  # [rows]
        return scores

    def sums(self, lengths: Tensor) -> Tensor:
        """[rows] of the first `lengths` steps of each row."""
        import torch

        steps = torch.stack(self.steps, 1)  # [rows, steps]
        return steps.masked_fill(torch.arange(steps.shape[1]) >= lengths[:, None], 0.0).sum(1)


@contextmanager
def _architecture_settings_only(model: PreTrainedModel) -> Iterator[None]:
    """In inference and eval mode, with the generation settings of its architecture alone; as before afterwards."""
    import torch

    training, settings = model.training, model.generation_config
    model.eval()
    model.generation_config = generation_config(model)
    try:
        with torch.inference_mode():
            yield
    finally:
        model.generation_config = settings
        model.train(training)


def generation_config(model: PreTrainedModel) -> GenerationConfig:
    from transformers import GenerationConfig

    values: dict[str, Any] = {name: getattr(model.generation_config, name, None) for name in ARCHITECTURE_SETTINGS}
    for name in ("eos_token_id", "pad_token_id", "decoder_start_token_id"):
        if values[name] is None:
            values[name] = getattr(model.config, name, None)
    return GenerationConfig(**values)


def max_length(model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase) -> int:
    """Tokens of a text at most, by the tokenizer's word and the model's positions."""
    positions = getattr(model.config, "max_position_embeddings", None)
    return min(int(tokenizer.model_max_length), int(positions or 2**20))
