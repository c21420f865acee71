"""A text classifier without layers: vectors are looked up, windows of neighbours are matched, a hidden layer decides.

Every word piece has a vector. A filter is a row of weights over a window of neighbouring pieces; its largest value in
the text is a feature, wherever that is, so that the order of words shows. A text is [mean of its vectors; the largest
value of every filter, or 0]; a pair of texts a, b is [a; b; |a − b|; a ⊙ b]. Special tokens and padding are not read,
wherever they stand: they count as zeros to their neighbours, as what lies beyond the text does.

In training, some of the pieces are not read either, at random: no filter is to rest on a single word.

save_pretrained copies this file beside the weights, so that they open without Limbeck: it imports nothing of Limbeck.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.functional import pad
from transformers import PretrainedConfig, PreTrainedModel
from transformers.modeling_outputs import SequenceClassifierOutput


class StaticConfig(PretrainedConfig):
    model_type = "limbeck-static"

    def __init__(
        self,
        vocab_size: int = 30522,
        embedding_size: int = 128,  # of a word piece
        window: int = 5,  # neighbouring pieces that a filter sees
        filters: int = 128,  # 0: the mean of the vectors alone
        intermediate_size: int = 128,  # the hidden layer
        dropout: float = 0.1,
        word_dropout: float = 0.3,  # share of the pieces that a training step does not read
        pairs: bool = False,
        segments: bool = True,  # whether token_type_ids tell the texts of a pair apart, else the separator does
        separator_id: int = -1,
        unread_ids: tuple[int, ...] | list[int] = (),  # special tokens that are not part of a text
        **others: Any,
    ) -> None:
        self.vocab_size = vocab_size
        self.embedding_size = embedding_size
        self.window = window
        self.filters = filters
        self.intermediate_size = intermediate_size
        self.dropout = dropout
        self.word_dropout = word_dropout
        self.pairs = pairs
        self.segments = segments
        self.separator_id = separator_id
        self.unread_ids = list(unread_ids)
        super().__init__(**others)

    @property
    def shape_text(self) -> str:
        """For people: 128 per piece, 128 filters over 5, hidden 128."""
        filters = f", {self.filters} filters over {self.window}" if self.filters else ""
        return f"{self.embedding_size} per piece{filters}, hidden {self.intermediate_size}"


class Reader(nn.Module):
    """A text's word pieces in, the mean of their vectors and the largest value of every filter out."""

    def __init__(self, config: StaticConfig) -> None:
        super().__init__()
        self.window, self.word_dropout = config.window, config.word_dropout
        self.pieces = nn.Embedding(config.vocab_size, config.embedding_size)
        self.filters = nn.Linear(config.window * config.embedding_size, config.filters) if config.filters else None
        self.width = config.embedding_size + config.filters

    def forward(self, ids: Tensor, read: Tensor) -> Tensor:
        """[texts, length] → [texts, width]; `read` says which tokens are part of the text."""
        if self.training and self.word_dropout:
            read = read & (torch.rand(read.shape, device=read.device) >= self.word_dropout)
        vectors = self.pieces(ids) * read[..., None]
        parts = [vectors.sum(1) / read.sum(1, keepdim=True).clamp(min=1)]
        if self.filters is not None:
            found = self.filters(self._windows(vectors)).relu() * read[..., None]
            parts.append(found.amax(1))
        return torch.cat(parts, dim=-1)

    def _windows(self, vectors: Tensor) -> Tensor:
        """[texts, length, width] → [texts, length, window · width]: each with its neighbours, the left ones first."""
        before = (self.window - 1) // 2
        padded = pad(vectors, (0, 0, before, self.window - 1 - before))
        return padded.unfold(1, self.window, 1).transpose(2, 3).flatten(2)


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
