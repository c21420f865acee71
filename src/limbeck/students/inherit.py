"""The student's weights, copied and cut from the teacher's by the rule that `shrink` states."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import torch

from limbeck.students.axes import Axis, layer_prefixes, learn_axes
from limbeck.students.places import hidden_places, spread, strided, within_head
from limbeck.students.shrink import Inheritance
from limbeck.students.sizes import Sizes, sizes_of

if TYPE_CHECKING:
    from torch import Tensor
    from transformers import PreTrainedModel

Axes = Mapping[str, Mapping[int, Axis]]  # parameter → axis number → what it is
Places = Mapping[str, Sequence[int]]  # size → the teacher's coordinates the student keeps


@torch.no_grad()
def inherit(student: PreTrainedModel, teacher: PreTrainedModel, kept: list[int]) -> Inheritance:
    """Fills the student with the teacher's weights; student layer i comes from teacher layer kept[i]."""
    before, after = sizes_of(teacher.config), sizes_of(student.config)
    weights = teacher.state_dict()
    axes: Axes = {} if replace(after, layers=before.layers) == before else learn_axes(teacher)
    places = {
        "hidden": hidden_places(before, after),
        "heads": spread(before.heads, after.heads),
        "head_size": within_head(before.head_size, min(before.head_size, after.head_size)),
        "feed_forward": strided(before.feed_forward, after.feed_forward),
    }
    neurons = strongest_neurons(weights, axes, after.feed_forward)
    origins, left_behind = _origins(student, teacher, kept)
    result = Inheritance(layers=kept, dropped=left_behind)
    for name, parameter in student.state_dict().items():
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


def _origins(student: PreTrainedModel, teacher: PreTrainedModel, kept: list[int]) -> tuple[dict[str, str], list[str]]:
    """Student parameter → teacher parameter; and the teacher's parameters that kept parts have no place for."""
    lists = "|".join(map(re.escape, layer_prefixes(teacher)))
    layer = re.compile(rf"({lists})(\d+)\.") if lists else re.compile(r"(?!)")

    def layer_of(name: str) -> int | None:
        found = layer.match(name)
        return int(found[2]) if found else None

    def in_teacher(name: str) -> str:
        return layer.sub(lambda found: f"{found[1]}{kept[int(found[2])]}.", name, count=1)

    names = teacher.state_dict().keys()
    origins = {name: origin for name in student.state_dict() if (origin := in_teacher(name)) in names}
    wanted = {name for name in names if layer_of(name) is None or layer_of(name) in kept}
    return origins, sorted(wanted - set(origins.values()))


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
