"""The student's weights, copied and cut from the teacher's by the rule that `shrink` states.

Which axis of which parameter is the hidden size, the heads, the feed-forward is learned, not listed: the model is built
again on the meta device (no memory, little time) with a single size changed. An axis that changes with the hidden size
is a hidden axis. So no table of parameter names is needed, and an architecture seen for the first time works like a
known one. An axis may hold its size several times over: ModernBERT's Wqkv has 3 × hidden rows, its Wi 2 × feed-forward
rows.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import ExitStack
from copy import deepcopy
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Literal, TypeVar

import torch

from limbeck.core.compress import NO_CALIBRATION, Calibration
from limbeck.core.errors import ModelError
from limbeck.students.sizes import Sizes, kept_coordinates, resized, sizes_of, strided

if TYPE_CHECKING:
    from torch import Tensor
    from transformers import PretrainedConfig, PreTrainedModel

Coordinates = Mapping[str, Sequence[int]]  # size → the teacher's coordinates the student keeps
T = TypeVar("T")
WATCHED_BATCHES = 40  # that a teacher runs on to show which of its neurons are active
# Fused projections laid out head by head ([head][q, k, v][coordinate]); shapes cannot tell them from [q, k, v][head].
_HEAD_MAJOR = {"deberta": "in_proj"}


@dataclass(frozen=True)
class Axis:
    size: str  # "hidden", "heads", "head_size", "all_heads", "feed_forward"
    blocks: int = 1  # how many times over
    head_major: bool = False


Axes = dict[str, dict[int, Axis]]  # parameter → axis number → what it is


@dataclass
class Inheritance:
    """Where the student's weights came from. Counts are of named tensors."""

    layers: list[int]  # the teacher layer of each student layer; of an encoder-decoder, of its encoder
    decoder_layers: list[int] = field(default_factory=list)
    whole: int = 0  # copied bit for bit
    sliced: int = 0  # cut to the kept coordinates
    fresh: list[str] = field(default_factory=list)  # newly initialised
    dropped: list[str] = field(default_factory=list)  # of kept parts of the teacher, without a place in the student
    note: str = ""  # a sentence on what else a family did

    def sentence(self) -> str:
        """For people: which of the teacher's layers the student starts from, and what is new in it."""

        def few(names: list[str]) -> str:
            return ", ".join(names[:3]) + (", …" if len(names) > 3 else "")

        parts = [f"{self.whole} tensors copied whole"]
        parts += [f"{self.sliced} cut narrower"] if self.sliced else []
        parts += [f"{len(self.fresh)} new ({few(self.fresh)})"] if self.fresh else []
        parts += [f"{len(self.dropped)} of the teacher's left out ({few(self.dropped)})"] if self.dropped else []
        layers, decoder = (", ".join(map(str, numbers)) for numbers in (self.layers, self.decoder_layers))
        origin = f"starts from teacher layers {layers}" if layers else "has layers of its own"
        if decoder:
            origin = f"starts from the teacher's encoder layers {layers} and decoder layers {decoder}"
        return f"The student {origin}: {', '.join(parts)}. {self.note}".rstrip()

    def words(self, source: str = "the teacher") -> str:
        """The same in few words, for a table: `layers 0, 3 of the teacher`."""

        def stack(numbers: list[int], kind: str = "") -> str:
            distinct = dict.fromkeys(numbers)  # layers that share their weights start from one
            return f"{kind}layer{'s' if len(distinct) > 1 else ''} {', '.join(map(str, distinct))}"

        if not self.whole + self.sliced:
            return "fresh weights"
        if not self.layers:
            return f"embeddings of {source}, fresh layers"
        stacks = [stack(self.layers, "encoder "), stack(self.decoder_layers, "decoder ")]
        layers = " and ".join(stacks) if self.decoder_layers else stack(self.layers)
        return f"{layers} of {source}{', cut narrower' if self.sliced else ''}"


Built = tuple["PreTrainedModel", Inheritance]  # an untrained student and what it inherited


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
    calibration: Calibration = NO_CALIBRATION,
) -> Inheritance:
    """Fills the student with the teacher's weights; student layer i comes from teacher layer kept[i].

    Decoder layer i comes from decoder[i]. `computed` parameters are no weights and stay as they are. With rows to look
    at, the neurons that do most on them are kept."""
    before, after = sizes_of(teacher.config), sizes_of(student.config)
    weights = teacher.state_dict()
    as_deep = replace(after, layers=before.layers, decoder_layers=before.decoder_layers)
    axes: Axes = {} if as_deep == before else learn_axes(teacher)
    coordinates = kept_coordinates(before, after)
    narrows = after.feed_forward < before.feed_forward
    activations = mean_activations(teacher, axes, calibration) if narrows and calibration.batches else {}
    neurons = strongest_neurons(weights, axes, after.feed_forward, activations)
    origins, left_behind = _origins(student, teacher, kept, decoder)
    result = Inheritance(layers=kept, decoder_layers=list(decoder), dropped=left_behind)
    for name, parameter in student.state_dict().items():
        if name in computed:
            continue
        piece = None
        if origin := origins.get(name):
            of_block = {"feed_forward": neurons.get(block_of(origin), coordinates["feed_forward"])}
            piece = cut(weights[origin], axes.get(origin, {}), coordinates | of_block, before, after)
        if piece is None or piece.shape != parameter.shape:
            result.fresh.append(name)
            continue
        parameter.copy_(piece)
        if piece.shape == weights[origin].shape:
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


def strongest_neurons(
    weights: Mapping[str, Tensor], axes: Axes, keep: int, activations: Mapping[str, Tensor] | None = None
) -> dict[str, list[int]]:
    """Feed-forward block → the neurons that add most to the stream.

    A neuron adds out · act(in · x), so the norms of its incoming and outgoing weights together bound what it can
    contribute. Where its mean |activation| is known, that stands for the incoming ones: it is what the neuron does
    contribute. Empty when some block does not show both of its projections: then no block can be ranked without tearing
    another apart."""
    strengths: dict[str, list[Tensor]] = {}
    active: dict[str, Tensor] = {}
    for name, numbers in axes.items():
        for number, axis in numbers.items():
            if axis.size == "feed_forward":
                of_block = strengths.setdefault(block_of(name), [])
                if weights[name].dim() > 1:
                    rows = weights[name].float().movedim(number, 0).flatten(1)  # [blocks · neurons, rest]
                    norms = rows.norm(dim=1).unflatten(0, (axis.blocks, -1)).prod(dim=0)  # [neurons]
                    of_block.append(norms)
                    if activations and name in activations:
                        active[block_of(name)] = activations[name] * norms
    if any(len(of_block) < 2 or of_block[0].is_meta for of_block in strengths.values()):
        return {}
    found = {block: torch.stack(of_block).prod(dim=0) for block, of_block in strengths.items()} | active
    return {block: sorted(strength.topk(keep).indices.tolist()) for block, strength in found.items()}


@torch.no_grad()
def mean_activations(model: PreTrainedModel, axes: Axes, calibration: Calibration) -> dict[str, Tensor]:
    """Outgoing feed-forward weight → [neurons], the mean |activation| over the tokens that are there."""
    outgoing = {
        name: module
        for name, module in model.named_modules()
        if isinstance(module, torch.nn.Linear)
        and (axis := axes.get(f"{name}.weight", {}).get(1)) is not None
        and axis.size == "feed_forward"
    }
    sums: dict[str, Tensor] = {}
    present = torch.empty(0)

    def watch(name: str) -> Callable[..., None]:
        def add(module: torch.nn.Module, inputs: tuple[Tensor, ...]) -> None:
            shown = inputs[0].abs()
            seen = shown[present] if shown.shape[:2] == present.shape else shown.flatten(0, -2)
            sums[f"{name}.weight"] = sums.get(f"{name}.weight", 0.0) + seen.double().sum(0)

        return add

    tokens = 0
    with ExitStack() as hooks:
        for name, module in outgoing.items():
            hooks.enter_context(module.register_forward_pre_hook(watch(name)))
        for batch in some(calibration.batches, WATCHED_BATCHES):
            inputs = batch.to(model.device).inputs
            present = inputs["attention_mask"].bool()
            tokens += int(present.sum())
            model(**inputs)
    return {name: (total / tokens).float() for name, total in sums.items()}


def some(items: Sequence[T], most: int) -> list[T]:
    """At most so many of them, evenly spaced."""
    return [items[place] for place in strided(len(items), min(most, len(items)))]


def block_of(name: str) -> str:
    """A parameter's name up to its last number: the layer it belongs to."""
    found = re.match(r"(.*\.)?\d+(?=\.|$)", name)
    return found[0] if found else ""


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


def learn_axes(model: PreTrainedModel) -> Axes:
    """Parameter → axis number → what that axis is. Axes that depend on no size (vocabulary, positions) are left out."""
    sizes = sizes_of(model.config)
    probes = [
        # two more per head: an even number, because rotary positions need pairs
        (replace(sizes, hidden=sizes.hidden + 2 * sizes.heads), ("hidden", "head_size")),
        (replace(sizes, feed_forward=sizes.feed_forward + 2), ("feed_forward",)),
        (replace(sizes, heads=1), ("all_heads", "heads")),  # hidden fixes all heads together, but not in T5
    ]
    base = _shapes(model)
    fused = _HEAD_MAJOR.get(model.config.model_type)
    axes: Axes = {}
    for probe, candidates in probes:
        for name, shape in _shapes(_varied(model, probe)).items():
            for number, (before, after) in enumerate(zip(base.get(name, ()), shape, strict=False)):
                for size in candidates if before != after else ():
                    blocks, rest = divmod(before, getattr(sizes, size))
                    if rest == 0 and blocks * getattr(probe, size) == after:
                        axis = Axis(size, blocks, head_major=fused in name.split("."))
                        axes.setdefault(name, {}).setdefault(number, axis)
                        break
    return axes


def layer_prefixes(model: PreTrainedModel, size: Literal["layers", "decoder_layers"] = "layers") -> list[str]:
    """What the names of layer parameters start with, before the number: the lists that grow when a layer is added.

    Empty when layers share their weights (ALBERT)."""
    sizes = sizes_of(model.config)
    count: int = getattr(sizes, size)
    grown = _shapes(_varied(model, replace(sizes, **{size: count + 1}))).keys() - _shapes(model).keys()
    pattern = re.compile(rf"(.*?\.){count}\.")
    return sorted({match[1] for match in map(pattern.match, grown) if match})


def _shapes(model: PreTrainedModel) -> dict[str, tuple[int, ...]]:
    return {name: tuple(tensor.shape) for name, tensor in model.state_dict().items()}


def _varied(model: PreTrainedModel, sizes: Sizes) -> PreTrainedModel:
    layers = sizes_of(model.config).layers
    config = resized(model.config, sizes, [min(layer, layers - 1) for layer in range(sizes.layers)])
    return empty_model(model, config, "meta")


def empty_model(model: PreTrainedModel, config: PretrainedConfig, device: torch.device | str) -> PreTrainedModel:
    """A freshly initialised model of the same class, in eval mode."""
    try:
        with torch.device(device):
            return type(model)._from_config(config, dtype=model.dtype).eval()
    except (ValueError, RuntimeError, TypeError) as error:
        raise ModelError(
            f"transformers cannot build a {config.model_type} model of these sizes: {str(error).splitlines()[0]}",
            "keep the teacher's heads, hidden and feed_forward sizes, and take only layers away",
        ) from None
