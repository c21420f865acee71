"""A bidirectional LSTM of one layer that classifies texts, after Tang et al. 2019.

Word pieces are looked up in two tables, one that never changes and one that learns; the last state of each direction
goes through a hidden layer to the logits. Of a pair both texts go through the same LSTM, and the hidden layer sees
[h₁; h₂; |h₁ − h₂|; h₁ ⊙ h₂]. Special tokens and padding are not read, wherever they stand.

save_pretrained copies this file beside the weights, so that they open without Limbeck: it imports nothing of Limbeck.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import pack_padded_sequence
from transformers import PretrainedConfig, PreTrainedModel
from transformers.modeling_outputs import SequenceClassifierOutput


class BiLSTMConfig(PretrainedConfig):
    model_type = "limbeck-bilstm"

    def __init__(
        self,
        vocab_size: int = 30522,
        embedding_size: int = 300,  # of each of the two tables
        hidden_size: int = 150,  # of each direction
        intermediate_size: int = 200,
        dropout: float = 0.1,
        pairs: bool = False,
        segments: bool = True,  # whether token_type_ids tell the texts of a pair apart, else the separator does
        separator_id: int = -1,
        unread_ids: tuple[int, ...] | list[int] = (),  # special tokens that are not part of a text
        **others: Any,
    ) -> None:
        self.vocab_size = vocab_size
        self.embedding_size = embedding_size
        self.hidden_size = hidden_size
        self.intermediate_size = intermediate_size
        self.dropout = dropout
        self.pairs = pairs
        self.segments = segments
        self.separator_id = separator_id
        self.unread_ids = list(unread_ids)
        # An LSTM has one layer of one head, for those who read the sizes of a transformer.
        self.num_hidden_layers = 1
        self.num_attention_heads = 1
        super().__init__(**others)


class Reader(nn.Module):
    """A text's word pieces in, the last state of both directions out."""

    def __init__(self, config: BiLSTMConfig) -> None:
        super().__init__()
        self.static = nn.Embedding(config.vocab_size, config.embedding_size)
        self.static.weight.requires_grad_(False)
        self.tuned = nn.Embedding(config.vocab_size, config.embedding_size)
        self.lstm = nn.LSTM(2 * config.embedding_size, config.hidden_size, batch_first=True, bidirectional=True)

    def forward(self, ids: Tensor, read: Tensor) -> Tensor:
        """[texts, length] → [texts, 2 · hidden]; `read` says which tokens are part of the text."""
        lengths = read.sum(1)
        order = read.int().argsort(dim=1, descending=True, stable=True)[:, : max(1, int(lengths.max()))]
        ids = ids.gather(1, order)  # what is read, moved to the front
        embedded = torch.cat([self.static(ids), self.tuned(ids)], dim=-1)
        # A text without a word passes as one of length 1, and its state is put to 0 afterwards.
        packed = pack_padded_sequence(embedded, lengths.clamp(min=1).cpu(), batch_first=True, enforce_sorted=False)
        last = self.lstm(packed)[1][0]  # [directions, texts, hidden]
        return last.transpose(0, 1).flatten(1) * (lengths > 0)[:, None]


class BiLSTMForSequenceClassification(PreTrainedModel):
    config_class = BiLSTMConfig
    base_model_prefix = "reader"

    def __init__(self, config: BiLSTMConfig) -> None:
        super().__init__(config)
        self.reader = Reader(config)
        self.hidden = nn.Linear((8 if config.pairs else 2) * config.hidden_size, config.intermediate_size)
        self.dropout = nn.Dropout(config.dropout)
        self.classifier = nn.Linear(config.intermediate_size, config.num_labels)
        self.post_init()

    @classmethod
    def from_pretrained(cls, *where: Any, **how: Any) -> Any:
        """As everywhere. What is loaded forgets that it does not learn, so it is told again."""
        found = super().from_pretrained(*where, **how)
        model = found[0] if isinstance(found, tuple) else found  # with output_loading_info
        model.reader.static.weight.requires_grad_(False)
        return found

    def get_input_embeddings(self) -> nn.Module:
        return self.reader.tuned

    def _init_weights(self, module: nn.Module) -> None:
        if isinstance(module, nn.Linear | nn.LSTM | nn.Embedding):
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
        logits = self.classifier(self.dropout(self.hidden(features).relu()))
        loss = None
        if labels is not None:
            loss = self.loss_function(labels=labels, pooled_logits=logits, config=self.config)
        return SequenceClassifierOutput(loss=loss, logits=logits)

    def _words(self, ids: Tensor, mask: Tensor | None) -> Tensor:
        """[batch, length] bool: neither padding nor a special token."""
        words = (ids[..., None] != ids.new_tensor(self.config.unread_ids)).all(-1)  # ONNX has no isin
        return words if mask is None else words & mask.bool()

    def _second(self, ids: Tensor, segments: Tensor | None) -> Tensor:
        """[batch, length] bool: belongs to the second text of a pair, or stands after the first separator."""
        if self.config.segments and segments is not None:
            return segments == 1
        return (ids == self.config.separator_id).cumsum(1) > 0
