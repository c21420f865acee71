"""The student's weights, copied and cut from the teacher's by the rule that `shrink` states."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import torch

from limbeck.students.axes import Axis, layer_prefixes, learn_axes
from limbeck.students.places import head_places, hidden_places, spread, strided, within_head
from limbeck.students.shrink import Inheritance
from limbeck.students.sizes import Sizes, sizes_of

if TYPE_CHECKING:
    from torch import Tensor
    from transformers import PreTrainedModel

Axes = Mapping[str, Mapping[int, Axis]]  # parameter → axis number → what it is
Places = Mapping[str, Sequence[int]]  # size → the teacher's coordinates the student keeps


@torch.no_grad()
def inherit(
    student: PreTrainedModel,
    teacher: PreTrainedModel,
    kept: list[int],
    writing: Sequence[int] = (),
    computed: Collection[str] = (),
) -> Inheritance:
    """Fills the student with the teacher's weights; student layer i comes from teacher layer kept[i].

    Of a decoder, layer i comes from layer writing[i]. `computed` parameters are no weights and stay as they are."""
    before, after = sizes_of(teacher.config), sizes_of(student.config)
    weights = teacher.state_dict()
    as_deep = replace(after, layers=before.layers, decoder_layers=before.decoder_layers)
    axes: Axes = {} if as_deep == before else learn_axes(teacher)
    places = {
        "hidden": hidden_places(before, after),
        "heads": spread(before.heads, after.heads),
        "all_heads": head_places(before, after),
        "head_size": within_head(before.head_size, min(before.head_size, after.head_size)),
        "feed_forward": strided(before.feed_forward, after.feed_forward),
    }
    neurons = strongest_neurons(weights, axes, after.feed_forward)
    origins, left_behind = _origins(student, teacher, kept, writing)
    result = Inheritance(layers=kept, writing=list(writing), dropped=left_behind)
    for name, parameter in student.state_dict().items():
        if name in computed:
            continue
        if (origin := origins.get(name)) is None:
            result.fresh.append(name)
            continue
        of_block = {"feed_forward": neurons.get(block_of(origin), places["feed_forward"])}
        found = cut(weights[origin], axes.get(origin, {}), places | of_block, before, after)
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
    student: PreTrainedModel, teacher: PreTrainedModel, kept: Sequence[int], writing: Sequence[int]
) -> tuple[dict[str, str], list[str]]:
    """Student parameter → teacher parameter; and the teacher's parameters that kept parts have no place for."""
    of_stack = dict.fromkeys(layer_prefixes(teacher), kept)
    of_stack |= dict.fromkeys(layer_prefixes(teacher, "decoder_layers") if writing else (), writing)
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
    numbers = [place for place, part in enumerate(parts) if part.isdigit()]
    return ".".join(parts[: numbers[-1] + 1]) if numbers else ""


def cut(tensor: Tensor, axes: Mapping[int, Axis], places: Places, teacher: Sizes, student: Sizes) -> Tensor:
    """The teacher's `tensor` with only the coordinates at `places`."""
    for number, axis in axes.items():
        rows = _rows(axis, places[axis.size], teacher, student)
        if rows != list(range(tensor.shape[number])):
            tensor = tensor.index_select(number, torch.tensor(rows, device=tensor.device))
    return tensor


def _rows(axis: Axis, places: Sequence[int], teacher: Sizes, student: Sizes) -> list[int]:
    """Where `places` lie on an axis that holds its size several times over."""
    if not axis.head_major:
        size = getattr(teacher, axis.size)
        return [block * size + place for block in range(axis.blocks) for place in places]
    d, wide = teacher.head_size, teacher.head_size * axis.blocks  # one head holds its q, k and v side by side
    return [
        (place // d) * wide + block * d + place % d
        for head in range(student.heads)
        for block in range(axis.blocks)
        for place in places[head * student.head_size : (head + 1) * student.head_size]
    ]
