"""A narrower stream: a teacher's hidden states in fewer coordinates, along the directions that they show most.

Coordinates that are simply left out take their share of every state with them. Here the states that training rows show,
of the embeddings and of the layers kept, are put on their leading directions: s = Wᵀ h, and h ≈ W s + r, where r is
the mean of what no direction has.

- What reads the stream reads W s + r, what writes to it writes through Wᵀ.
- A norm centres its coordinates and scales each. The directions are those of centred states, and the new coordinates
  have mean 0 by construction, so that centring costs nothing on either side; scales and shifts are fitted to the
  teacher's norm by least squares, one coordinate at a time.
- The heads that are kept are those that write most on these rows.

W s + r is also where a bridge to the teacher's width starts.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch
from torch.nn.functional import layer_norm

from limbeck.core.compress import Calibration
from limbeck.students.factorised_embeddings import off_the_diagonal
from limbeck.students.inherit import WATCHED_BATCHES, some
from limbeck.students.sizes import Sizes, head_coordinates

if TYPE_CHECKING:
    from torch import Tensor, nn
    from transformers import PreTrainedModel

_NAME = "limbeck_stream"
_READS = ("attention.self.query", "attention.self.key", "attention.self.value", "intermediate.dense")
_WRITES = ("attention.output.dense", "output.dense")
_NORMS = ("attention.output.LayerNorm", "output.LayerNorm")
_EMBEDDINGS = "embeddings.LayerNorm"
_TABLES = tuple(f"embeddings.{kind}_embeddings.weight" for kind in ("word", "position", "token_type"))
Tensors = dict[str, "Tensor"]


@dataclass(frozen=True)
class Stream:
    """Narrow states s and the teacher's h ≈ W s + r; computed in float64."""

    way: Tensor  # [teacher's width, student's width]: W
    rest: Tensor  # [teacher's width]: r

    def read(self, weight: Tensor, bias: Tensor) -> tuple[Tensor, Tensor]:
        """What a linear layer of the teacher becomes that reads the stream."""
        return weight.double() @ self.way, bias.double() + weight.double() @ self.rest


@dataclass(frozen=True)
class Narrowing:
    """How the stream of a teacher becomes narrower; layers and parts by BERT's names."""

    teacher: PreTrainedModel
    parts: Mapping[str, nn.Module]  # of the layers that are kept, as they are numbered in the student
    layers: Sequence[int]  # of the teacher, in the student's order
    before: Sizes
    after: Sizes
    calibration: Calibration

    @torch.no_grad()
    def stream(self) -> Stream:
        """Where the narrow states lie among the teacher's."""
        moments: dict[int, Tensor] = {}
        for inputs in self._shown():
            present = inputs["attention_mask"].bool()
            shown = self.teacher(**inputs, output_hidden_states=True).hidden_states
            for place in (0, *(layer + 1 for layer in self.layers)):
                states = shown[place][present].double()
                states = torch.cat([states, states.new_ones(len(states), 1)], 1)
                moments[place] = moments.get(place, 0.0) + states.T @ states
        squares = torch.stack([one[:-1, :-1] / one[:-1, :-1].trace() for one in moments.values()]).sum(0)
        mean = torch.stack([one[:-1, -1] / one[-1, -1] for one in moments.values()]).mean(0)
        centre = torch.eye(len(mean), dtype=mean.dtype, device=mean.device) - 1 / len(mean)
        leading = torch.linalg.eigh(centre @ squares @ centre).eigenvectors.flip(1)[:, : self.after.hidden - 1]
        way = leading @ off_the_diagonal(self.after.hidden, leading.device).T
        return Stream(way, mean - way @ (way.T @ mean))

    @torch.no_grad()
    def weights(self, weights: Mapping[str, Tensor], stream: Stream) -> Tensors:
        """The teacher's embeddings and layers in the narrow stream."""
        way = stream.way
        norms, heads = self._watch_parts(weights, way)
        found = norms | {name: weights[name].double() @ way for name in _TABLES}
        for layer, kept in heads.items():
            for part in _READS:
                name = f"{layer}.{part}"
                rows = kept if ".self." in part else slice(None)
                found[f"{name}.weight"], found[f"{name}.bias"] = stream.read(
                    weights[f"{name}.weight"][rows], weights[f"{name}.bias"][rows]
                )
            for part in _WRITES:
                name = f"{layer}.{part}"
                columns = kept if part.startswith("attention") else slice(None)
                found[f"{name}.weight"] = way.T @ weights[f"{name}.weight"].double()[:, columns]
                found[f"{name}.bias"] = way.T @ weights[f"{name}.bias"].double()
        return found

    def _watch_parts(self, weights: Mapping[str, Tensor], way: Tensor) -> tuple[Tensors, dict[str, list[int]]]:
        """Scale and shift of every norm; and for every layer the coordinates of the heads that it keeps."""
        layers = [f"encoder.layer.{number}" for number in range(len(self.layers))]
        fits = {f"{layer}.{part}": _Fit(way) for layer in layers for part in _NORMS} | {_EMBEDDINGS: _Fit(way)}
        context: dict[str, Tensor] = {}
        present = torch.empty(0)

        def fit_norm(name: str) -> Any:
            return lambda module, given, made: fits[name].add(given[0][present], made[present], module.eps)

        def add_heads(layer: str) -> Any:
            def add(module: nn.Module, given: tuple[Tensor, ...]) -> None:
                states = given[0][present].double()
                context[layer] = context.get(layer, 0.0) + states.T @ states

            return add

        with ExitStack() as hooks:
            for name in fits:
                hooks.enter_context(self.parts[name].register_forward_hook(fit_norm(name)))
            for layer in layers:
                out = self.parts[f"{layer}.attention.output.dense"]
                hooks.enter_context(out.register_forward_pre_hook(add_heads(layer)))
            for inputs in self._shown():
                present = inputs["attention_mask"].bool()
                self.teacher(**inputs)
        norms = {f"{name}.{part}": x for name, fit in fits.items() for part, x in fit.solve().items()}
        outs = {layer: weights[f"{layer}.attention.output.dense.weight"].double() for layer in layers}
        return norms, {layer: self._heads(context[layer], outs[layer]) for layer in layers}

    def _heads(self, context: Tensor, out: Tensor) -> list[int]:
        """Coordinates of the heads that write most, E‖out · x‖²; of smaller heads, the evenly spaced ones."""
        size = self.before.head_size
        if self.after.head_size != size:
            return head_coordinates(self.before, self.after)
        written = (context * (out.T @ out)).unflatten(0, (-1, size)).unflatten(2, (-1, size)).sum((1, 3)).diagonal()
        kept = sorted(written.topk(self.after.heads).indices.tolist())
        return [head * size + one for head in kept for one in range(size)]

    def _shown(self) -> Iterator[Mapping[str, Tensor]]:
        """The inputs of some batches."""
        for batch in some(self.calibration.batches, WATCHED_BATCHES):
            yield batch.to(self.teacher.device).inputs


class _Fit:
    """Scale and shift of a narrow norm, for which it gives what the teacher's norm gives."""

    def __init__(self, way: Tensor) -> None:
        self._way, self._tokens = way, 0
        self._sums = way.new_zeros(4, way.shape[1])

    def add(self, given: Tensor, made: Tensor, eps: float) -> None:
        x = layer_norm(given.double() @ self._way, self._way.shape[1:], eps=eps)
        y = made.double() @ self._way
        self._sums += torch.stack([x.sum(0), y.sum(0), (x * x).sum(0), (x * y).sum(0)])
        self._tokens += len(x)

    def solve(self) -> Tensors:
        x, y, xx, xy = self._sums / self._tokens
        scale = (xy - x * y) / (xx - x * x).clamp(min=1e-12)
        return {"weight": scale, "bias": y - scale * x}


def keep_stream(student: nn.Module, stream: Stream) -> None:
    """W and r go with the student while it is trained, in its own precision; no file has them."""
    both = torch.cat([stream.way, stream.rest[:, None]], 1)
    student.register_buffer(_NAME, both.to(next(student.parameters()).dtype), persistent=False)


def stream_of(student: nn.Module) -> Stream | None:
    kept = getattr(student, _NAME, None)
    return None if kept is None else Stream(kept[:, :-1], kept[:, -1])
