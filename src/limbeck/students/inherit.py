"""The student's weights, copied and cut from the teacher's by the rule that `shrink` states."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import torch

from limbeck.students.axes import Axis, empty_model, layer_prefixes, learn_axes
from limbeck.students.coordinates import head_coordinates, hidden_coordinates, spread, strided, within_head
from limbeck.students.sizes import Sizes, sizes_of

if TYPE_CHECKING:
    from torch import Tensor
    from transformers import PreTrainedModel

Axes = Mapping[str, Mapping[int, Axis]]  # parameter → axis number → what it is
Coordinates = Mapping[str, Sequence[int]]  # size → the teacher's coordinates the student keeps


@dataclass
class Inheritance:
    """Where the student's weights came from. Counts are of named tensors."""

    layers: list[int]  # the teacher layer of each student layer; of an encoder-decoder, of its encoder
    decoder_layers: list[int] = field(default_factory=list)
    whole: int = 0  # copied bit for bit
    sliced: int = 0  # cut to the kept coordinates
    fresh: list[str] = field(default_factory=list)  # newly initialised
    dropped: list[str] = field(default_factory=list)  # of kept parts of the teacher, without a place in the student

    def sentence(self) -> str:
        """For people: which of the teacher's layers the student starts from, and what is new in it."""
        parts = [f"{self.whole} tensors copied whole"]
        parts += [f"{self.sliced} cut narrower"] if self.sliced else []
        parts += [f"{len(self.fresh)} new ({_few(self.fresh)})"] if self.fresh else []
        parts += [f"{len(self.dropped)} of the teacher's left out ({_few(self.dropped)})"] if self.dropped else []
        origin = f"starts from teacher layers {_listed(self.layers)}" if self.layers else "has layers of its own"
        if self.decoder_layers:
            encoder, decoder = _listed(self.layers), _listed(self.decoder_layers)
            origin = f"starts from the teacher's encoder layers {encoder} and decoder layers {decoder}"
        return f"The student {origin}: {', '.join(parts)}."


def reinit(student: PreTrainedModel, fresh: list[str]) -> PreTrainedModel:
    """A copy of an untrained student whose `fresh` tensors are drawn anew from torch's current seed."""
    other = deepcopy(student)
    if fresh:
        drawn = empty_model(student, student.config, student.device).state_dict()
        other.load_state_dict({name: drawn[name] for name in fresh}, strict=False)
    return other


@torch.no_grad()
def inherit(
    student: PreTrainedModel,
    teacher: PreTrainedModel,
    kept: list[int],
    decoder: Sequence[int] = (),
    computed: Collection[str] = (),
) -> Inheritance:
    """Fills the student with the teacher's weights; student layer i comes from teacher layer kept[i].

    Decoder layer i comes from decoder[i]. `computed` parameters are no weights and stay as they are."""
    before, after = sizes_of(teacher.config), sizes_of(student.config)
    weights = teacher.state_dict()
    as_deep = replace(after, layers=before.layers, decoder_layers=before.decoder_layers)
    axes: Axes = {} if as_deep == before else learn_axes(teacher)
    coordinates = {
        "hidden": hidden_coordinates(before, after),
        "heads": spread(before.heads, after.heads),
        "all_heads": head_coordinates(before, after),
        "head_size": within_head(before.head_size, min(before.head_size, after.head_size)),
        "feed_forward": strided(before.feed_forward, after.feed_forward),
    }
    neurons = strongest_neurons(weights, axes, after.feed_forward)
    origins, left_behind = _origins(student, teacher, kept, decoder)
    result = Inheritance(layers=kept, decoder_layers=list(decoder), dropped=left_behind)
    for name, parameter in student.state_dict().items():
        if name in computed:
            continue
        if (origin := origins.get(name)) is None:
            result.fresh.append(name)
            continue
        of_block = {"feed_forward": neurons.get(block_of(origin), coordinates["feed_forward"])}
        found = cut(weights[origin], axes.get(origin, {}), coordinates | of_block, before, after)
        if found.shape != parameter.shape:
            result.fresh.append(name)
            continue
        parameter.copy_(found)
        if found.shape == weights[origin].shape:
            result.whole += 1
        else:
            result.sliced += 1
    return result


def _origins(
    student: PreTrainedModel, teacher: PreTrainedModel, kept: Sequence[int], decoder: Sequence[int]
) -> tuple[dict[str, str], list[str]]:
    """Student parameter → teacher parameter; and the teacher's parameters that kept parts have no place for."""
    of_stack = dict.fromkeys(layer_prefixes(teacher), kept)
    of_stack |= dict.fromkeys(layer_prefixes(teacher, "decoder_layers") if decoder else (), decoder)
    layer = re.compile(rf"({'|'.join(map(re.escape, of_stack))})(\d+)\.") if of_stack else re.compile(r"(?!)")
    names = teacher.state_dict().keys()

    def in_teacher(name: str) -> str:
        same = layer.sub(lambda found: f"{found[1]}{of_stack[found[1]][int(found[2])]}.", name, count=1)
        # What only a first layer has (T5's bias of distances), a student takes from there whichever layers it keeps.
        return name if same not in names and (found := layer.match(name)) and found[2] == "0" else same

    def is_kept(name: str) -> bool:
        found = layer.match(name)
        return found is None or int(found[2]) in of_stack[found[1]]

    origins = {name: origin for name in student.state_dict() if (origin := in_teacher(name)) in names}
    return origins, sorted(set(filter(is_kept, names)) - set(origins.values()))


def strongest_neurons(weights: Mapping[str, Tensor], axes: Axes, keep: int) -> dict[str, list[int]]:
    """Feed-forward block → the neurons whose incoming and outgoing weights have the largest product of norms.

    A neuron adds out · act(in · x) to the stream, so the two norms together bound what it can contribute. Empty when
    some block does not show both of its projections: then no block can be ranked without tearing another apart."""
    strengths: dict[str, list[Tensor]] = {}
    for name, numbers in axes.items():
        for number, axis in numbers.items():
            if axis.size == "feed_forward":
                of_block = strengths.setdefault(block_of(name), [])
                if weights[name].dim() > 1:
                    rows = weights[name].float().movedim(number, 0).flatten(1)  # [blocks · neurons, rest]
                    of_block.append(rows.norm(dim=1).unflatten(0, (axis.blocks, -1)).prod(dim=0))  # [neurons]
    if any(len(of_block) < 2 or of_block[0].is_meta for of_block in strengths.values()):
        return {}
    return {
        block: sorted(torch.stack(of_block).prod(dim=0).topk(keep).indices.tolist())
        for block, of_block in strengths.items()
    }


def block_of(name: str) -> str:
    """A parameter's name up to its last number: the layer it belongs to."""
    parts = name.split(".")
    numbers = [index for index, part in enumerate(parts) if part.isdigit()]
    return ".".join(parts[: numbers[-1] + 1]) if numbers else ""


def cut(tensor: Tensor, axes: Mapping[int, Axis], coordinates: Coordinates, teacher: Sizes, student: Sizes) -> Tensor:
    """The teacher's `tensor` with only these coordinates."""
    for number, axis in axes.items():
        rows = _rows(axis, coordinates[axis.size], teacher, student)
        if rows != list(range(tensor.shape[number])):
            tensor = tensor.index_select(number, torch.tensor(rows, device=tensor.device))
    return tensor


def _rows(axis: Axis, coordinates: Sequence[int], teacher: Sizes, student: Sizes) -> list[int]:
    """Where the coordinates lie on an axis that holds its size several times over."""
    if not axis.head_major:
        size = getattr(teacher, axis.size)
        return [block * size + one for block in range(axis.blocks) for one in coordinates]
    d, wide = teacher.head_size, teacher.head_size * axis.blocks  # one head holds its q, k and v side by side
    return [
        (one // d) * wide + block * d + one % d
        for head in range(student.heads)
        for block in range(axis.blocks)
        for one in coordinates[head * student.head_size : (head + 1) * student.head_size]
    ]


def _few(names: list[str]) -> str:
    return ", ".join(names[:3]) + (", …" if len(names) > 3 else "")


def _listed(numbers: list[int]) -> str:
    return ", ".join(map(str, numbers))
