"""A text classifier without layers: vectors are looked up and averaged, one hidden layer makes the logits.

Every word piece has a vector. Two and three neighbouring pieces have one too, in a table of a fixed number of rows that
a hash chooses, so that the order of words shows. A text is [mean of its pieces; mean of its n-grams]; a pair of texts
a, b is [a; b; |a − b|; a ⊙ b]. Special tokens and padding are not read, wherever they stand.

The row of an n-gram with the keys k₁ … kₙ, in unsigned integers of 64 bits:

    h = n;  for each k:  h = (h xor k) · 0x9E3779B97F4A7C15,  h = h xor (h >> 32);  row = h mod buckets

A piece's key is its number in the vocabulary that the student was made with; it stays when pieces are taken away.

save_pretrained copies this file beside the weights, so that they open without Limbeck: it imports nothing of Limbeck.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn
from transformers import PretrainedConfig, PreTrainedModel
from transformers.modeling_outputs import SequenceClassifierOutput

MULTIPLIER = 0x9E3779B97F4A7C15 - 2**64  # 2⁶⁴ divided by the golden ratio, as PyTorch's signed integers have it
HIGH = 0xFFFFFFFF  # a shift to the right brings copies of the sign; these bits it should bring


class StaticConfig(PretrainedConfig):
    model_type = "limbeck-static"

    def __init__(
        self,
        vocab_size: int = 30522,
        embedding_size: int = 128,  # of a word piece
        longest_ngram: int = 3,  # pieces; 1: no n-grams
        buckets: int = 32768,  # rows of the table of n-grams, a power of two
        ngram_size: int = 64,  # of an n-gram
        intermediate_size: int = 128,  # the hidden layer
        dropout: float = 0.1,
        pairs: bool = False,
        segments: bool = True,  # whether token_type_ids tell the texts of a pair apart, else the separator does
        separator_id: int = -1,
        unread_ids: tuple[int, ...] | list[int] = (),  # special tokens that are not part of a text
        **others: Any,
    ) -> None:
        if buckets < 1 or buckets & (buckets - 1):
            raise ValueError(f"buckets must be a power of two, not {buckets}")
        self.vocab_size = vocab_size
        self.embedding_size = embedding_size
        self.longest_ngram = longest_ngram
        self.buckets = buckets
        self.ngram_size = ngram_size
        self.intermediate_size = intermediate_size
        self.dropout = dropout
        self.pairs = pairs
        self.segments = segments
        self.separator_id = separator_id
        self.unread_ids = list(unread_ids)
        super().__init__(**others)

    @property
    def shape_text(self) -> str:
        """For people: 128 per piece + 64 per n-gram, hidden 128."""
        ngrams = f" + {self.ngram_size} per n-gram" if self.longest_ngram > 1 else ""
        return f"{self.embedding_size} per piece{ngrams}, hidden {self.intermediate_size}"


class Reader(nn.Module):
    """A text's word pieces in, the means of their vectors and of its n-grams' out."""

    keys: Tensor

    def __init__(self, config: StaticConfig) -> None:
        super().__init__()
        self.longest, self.buckets = config.longest_ngram, config.buckets
        self.pieces = nn.Embedding(config.vocab_size, config.embedding_size)
        self.register_buffer("keys", torch.arange(config.vocab_size, dtype=torch.int32))
        self.width = config.embedding_size
        if self.longest > 1:
            self.ngrams = nn.Embedding(config.buckets, config.ngram_size)
            self.width += config.ngram_size

    def forward(self, ids: Tensor, read: Tensor) -> Tensor:
        """[texts, length] → [texts, width]; `read` says which tokens are part of the text."""
        texts = read.nonzero()[:, 0]  # [tokens] which text each belongs to, in reading order
        ids = ids[read]
        parts = [_means(self.pieces(ids), texts, len(read))]
        if self.longest > 1:
            rows, owners = self._ngrams(self.keys[ids].long(), texts)
            parts.append(_means(self.ngrams(rows), owners, len(read)))
        return torch.cat(parts, dim=-1)

    def _ngrams(self, keys: Tensor, texts: Tensor) -> tuple[Tensor, Tensor]:
        """The row of every n-gram, and the text it belongs to."""
        rows, owners = [], []
        for n in range(2, self.longest + 1):
            count = max(len(keys) - n + 1, 0)
            first, last = texts[:count], texts[len(texts) - count :]
            whole = first == last  # within one text
            rows.append(bucket_of([keys[at : at + count][whole] for at in range(n)], self.buckets))
            owners.append(first[whole])
        return torch.cat(rows), torch.cat(owners)


class StaticForSequenceClassification(PreTrainedModel):
    config_class = StaticConfig
    base_model_prefix = "reader"

    def __init__(self, config: StaticConfig) -> None:
        super().__init__(config)
        self.reader = Reader(config)
        self.hidden = nn.Linear((4 if config.pairs else 1) * self.reader.width, config.intermediate_size)
        self.dropout = nn.Dropout(config.dropout)
        self.classifier = nn.Linear(config.intermediate_size, config.num_labels)
        self.post_init()

    def get_input_embeddings(self) -> nn.Module:
        return self.reader.pieces

    def _init_weights(self, module: nn.Module) -> None:
        if isinstance(module, nn.Linear | nn.Embedding):
            module.reset_parameters()
        if module is getattr(self.reader, "ngrams", None):
            nn.init.zeros_(module.weight)  # one that was never seen says nothing

    def forward(
        self,
        input_ids: Tensor,  # [batch, length]
        attention_mask: Tensor | None = None,
        token_type_ids: Tensor | None = None,
        labels: Tensor | None = None,
        **others: Any,
    ) -> SequenceClassifierOutput:
        read = self._words(input_ids, attention_mask)
        if self.config.pairs:
            second = self._second(input_ids, token_type_ids)
            both = self.reader(torch.cat([input_ids, input_ids]), torch.cat([read & ~second, read & second]))
            one, two = both.chunk(2)
            features = torch.cat([one, two, (one - two).abs(), one * two], dim=-1)
        else:
            features = self.reader(input_ids, read)
        logits = self.classifier(self.dropout(self.hidden(self.dropout(features)).relu()))
        loss = None
        if labels is not None:
            loss = self.loss_function(labels=labels, pooled_logits=logits, config=self.config)
        return SequenceClassifierOutput(loss=loss, logits=logits)

    def _words(self, ids: Tensor, mask: Tensor | None) -> Tensor:
        """[batch, length] bool: neither padding nor a special token."""
        words = (ids[..., None] != ids.new_tensor(self.config.unread_ids)).all(-1)
        return words if mask is None else words & mask.bool()

    def _second(self, ids: Tensor, segments: Tensor | None) -> Tensor:
        """[batch, length] bool: belongs to the second text of a pair, or stands after the first separator."""
        if self.config.segments and segments is not None:
            return segments == 1
        return (ids == self.config.separator_id).cumsum(1) > 0


def bucket_of(keys: Sequence[Tensor], buckets: int) -> Tensor:
    """The row of each n-gram; `keys` holds the first key of each, the second, and so on."""
    state = torch.full_like(keys[0], len(keys))
    for key in keys:
        state = (state ^ key) * MULTIPLIER  # overflow wraps around
        state = state ^ ((state >> 32) & HIGH)
    return state & (buckets - 1)


def _means(vectors: Tensor, texts: Tensor, count: int) -> Tensor:
    """[vectors, width] → [count, width], the mean over each text; 0 for one without any."""
    sums = vectors.new_zeros(count, vectors.shape[1]).index_add(0, texts, vectors)
    return sums / texts.bincount(minlength=count).clamp(min=1)[:, None]
