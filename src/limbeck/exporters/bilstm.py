"""A BiLSTM for ONNX: its own LSTM takes texts of unequal length as they are, so nothing is packed and unpacked."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from limbeck.students.networks.bilstm import Reader

_GATES = (0, 3, 1, 2)  # ONNX has input, output, forget, cell; torch has input, forget, cell, output


@contextmanager
def bilstm_to_trace(model: nn.Module) -> Iterator[None]:
    """Within it, a model that reads by an LSTM can be traced; others are as they were."""
    readers = [module for module in model.modules() if isinstance(module, Reader)]
    for reader in readers:
        reader.forward = partial(_read, reader)  # type: ignore[method-assign]
    try:
        yield
    finally:
        for reader in readers:
            del reader.forward


def _read(reader: Reader, ids: Tensor, read: Tensor) -> Tensor:
    """What Reader.forward computes, with every text as long as the batch."""
    lengths = read.sum(1)
    places = torch.arange(read.shape[1])
    order = (read.int() * read.shape[1] - places).argsort(dim=1, descending=True)  # what is read, moved to the front
    ids = ids.gather(1, order)
    embedded = torch.cat([reader.static(ids), reader.tuned(ids)], dim=-1)
    weights = [_both(reader.lstm, name) for name in ("weight_ih_l0", "weight_hh_l0")]
    bias = torch.cat([_both(reader.lstm, name) for name in ("bias_ih_l0", "bias_hh_l0")], dim=1)
    last = _LSTM.apply(reader.lstm.hidden_size, embedded.transpose(0, 1), lengths.clamp(min=1).int(), *weights, bias)
    return last.transpose(0, 1).flatten(1) * (lengths > 0)[:, None]


def _both(lstm: nn.LSTM, name: str) -> Tensor:
    """[directions, 4·hidden, …] of both directions, the gates in ONNX's order."""
    parts = [getattr(lstm, f"{name}{end}").chunk(4) for end in ("", "_reverse")]
    return torch.stack([torch.cat([gates[gate] for gate in _GATES]) for gates in parts])


class _LSTM(torch.autograd.Function):
    """→ [directions, texts, hidden], the last state of each. While it is traced only the shape of it matters."""

    @staticmethod
    def forward(ctx: Any, hidden: int, embedded: Tensor, *others: Tensor) -> Tensor:
        return embedded.new_zeros(2, embedded.shape[1], hidden)

    @staticmethod
    def symbolic(g: Any, hidden: int, embedded: Any, lengths: Any, first: Any, second: Any, bias: Any) -> Any:
        attributes = {"hidden_size_i": hidden, "direction_s": "bidirectional", "outputs": 3}
        _, last, _ = g.op("LSTM", embedded, first, second, bias, lengths, **attributes)
        return last
