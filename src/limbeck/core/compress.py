"""Making a model smaller: a Pass changes a model, a Mask says which of its weights live.

A masked weight is 0 and stays 0: training holds the mask after every optimiser step (training/callbacks.py).
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import blake2b
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar

from limbeck.core.card import Card, Paper, registered
from limbeck.core.errors import MismatchError
from limbeck.core.files import atomic
from limbeck.core.knob import Settings
from limbeck.core.trace import Batch

if TYPE_CHECKING:
    from torch import Tensor, nn

PASSES: dict[str, Card] = {}
P = TypeVar("P", bound="type[Pass]")


def compression(name: str, paper: Paper) -> Callable[[P], P]:
    """Registers a pass under the name that run files and flags use."""
    return registered(PASSES, name, paper)


def prunable(model: nn.Module) -> dict[str, Tensor]:
    """Weights of linear and convolution layers by name; no biases, no norms, and nothing tied to an embedding."""
    from torch import nn
    from transformers.pytorch_utils import Conv1D

    layers = (nn.Linear, nn.Conv1d, nn.Conv2d, nn.Conv3d, Conv1D)  # the last is GPT-2's linear layer
    tables = {id(module.weight) for module in model.modules() if isinstance(module, nn.Embedding)}
    found = {f"{name}.weight": module.weight for name, module in model.named_modules() if isinstance(module, layers)}
    return {name: weight for name, weight in found.items() if id(weight) not in tables}


def in_head(model: nn.Module) -> set[str]:
    """Of the prunable weights, those that answer: outside the encoder, or the last of a model without one."""
    names, prefix = list(prunable(model)), getattr(model, "base_model_prefix", "")
    if prefix and hasattr(model, prefix):
        return {name for name in names if not name.startswith(f"{prefix}.")}
    return set(names[-1:])


@dataclass(frozen=True)
class Mask:
    """Which weights live, by parameter name. Parameters it does not name are whole.

    mask = Mask.full(model)
    change = Magnitude(fraction=0.5).apply(model, mask)
    change.mask.remaining, change.mask.total
    """

    live: Mapping[str, Tensor] = field(default_factory=dict)  # name → bool, in the shape of the parameter

    @classmethod
    def full(cls, model: nn.Module) -> Mask:
        """Every prunable weight lives."""
        return cls(
            {name: weight.detach().new_ones(weight.shape).bool().cpu() for name, weight in prunable(model).items()}
        )

    @classmethod
    def of(cls, model: nn.Module) -> Mask:
        """Every prunable weight lives that is not 0."""
        return cls({name: weight.detach().cpu() != 0 for name, weight in prunable(model).items()})

    @property
    def remaining(self) -> int:
        return sum(int(mask.sum()) for mask in self.live.values())

    @property
    def total(self) -> int:
        return sum(mask.numel() for mask in self.live.values())

    def __and__(self, other: Mask) -> Mask:
        """What lives in both: a mask only ever shrinks."""
        both = {name: mask & other.live[name] if name in other.live else mask for name, mask in self.live.items()}
        return Mask({**other.live, **both})

    def hold(self, model: nn.Module) -> None:
        """Sets what does not live to exactly 0."""
        self.holder(model)()

    def holder(self, model: nn.Module) -> Callable[[], None]:
        """What holds the mask whenever it is called: checked once, and with masks in the weights' own dtype.

        They take as many bytes as the weights, and a third of the time of a product with booleans."""
        import torch

        weights = dict(model.named_parameters())
        for name, mask in self.live.items():
            if name not in weights or weights[name].shape != mask.shape:
                raise MismatchError(
                    f"the mask has {name} of shape {tuple(mask.shape)}, which the model does not have",
                    "use it with the model it was made for",
                )
        held = [(weights[name], mask.to(weights[name])) for name, mask in self.live.items()]

        @torch.no_grad()
        def hold() -> None:
            for weight, mask in held:
                weight.mul_(mask)

        return hold

    def save(self, path: Path) -> None:
        from safetensors.torch import save_file

        with atomic(path) as part:
            save_file({name: mask.contiguous() for name, mask in self.live.items()}, part, {"checksum": self.checksum})

    @classmethod
    def load(cls, path: Path) -> Mask:
        from safetensors import safe_open

        with safe_open(path, framework="pt") as file:
            found = cls({name: file.get_tensor(name) for name in file.keys()})  # noqa: SIM118  not a mapping
            if (file.metadata() or {}).get("checksum") != found.checksum:
                raise MismatchError(f"{path} is damaged: its checksum differs", "make the mask again")
        return found

    @property
    def checksum(self) -> str:
        digest = blake2b(digest_size=16)
        for name, mask in sorted(self.live.items()):
            digest.update(f"{name} {tuple(mask.shape)}".encode() + mask.contiguous().numpy().tobytes())
        return digest.hexdigest()


@dataclass(frozen=True)
class Calibration:
    """What a pass may look at: some training rows, as texts and as batches, and the tokenizer between the two."""

    batches: Sequence[Batch] = ()
    texts: Sequence[tuple[str, ...]] = ()  # of each row: its text, or text and pair
    processor: Any = None
    held_out: Sequence[tuple[str, ...]] = ()  # texts of dev, to count on what no training row holds
    pieces: Collection[int] = ()  # token ids that must stay, since what is learnt afterwards speaks of them


@dataclass(frozen=True)
class Change:
    """What a pass made of a model."""

    mask: Mask
    note: str  # for the report
    processor: Any = None  # the new tokenizer, where the pass changed it
    figures: Mapping[str, float] = field(default_factory=dict)  # what it counted


NO_CALIBRATION = Calibration()


class Pass(Settings):
    """A model in, a smaller model out."""

    calibrates: ClassVar[bool] = False  # whether it looks at training rows
    reshapes: ClassVar[bool] = False  # whether tensors have other shapes or names afterwards
    retokenizes: ClassVar[bool] = False  # whether the model has another tokenizer afterwards

    def __init__(self, *values: Any, **knobs: Any) -> None:
        """Knobs by name, or by their order: Magnitude(0.5)."""
        names = list(type(self).model_fields)
        if len(values) > len(names):
            raise TypeError(f"{type(self).__name__} has {len(names)} knobs, not {len(values)}")
        super().__init__(**dict(zip(names, values, strict=False)), **knobs)

    __init__.__pydantic_base_init__ = True  # type: ignore[attr-defined]

    @property
    def name(self) -> str:
        """As run files and flags have it; of a pass that is not registered, its class's."""
        named = (card.name for card in PASSES.values() if card.cls is type(self))
        return next(named, type(self).__name__.lower())

    @property
    def precision(self) -> str:
        """Of the weights afterwards: "int8"; "" where they stay as they are."""
        return ""

    def __repr_args__(self) -> Iterator[tuple[str, Any]]:
        """The first knob, and those that are not at their default."""
        for number, (name, about) in enumerate(type(self).model_fields.items()):
            if not number or getattr(self, name) != about.default:
                yield name, getattr(self, name)

    @property
    def recoverable(self) -> bool:
        """Whether it changes what the model answers, and leaves weights that a training could mend that with."""
        return True

    @abstractmethod
    def apply(self, model: nn.Module, mask: Mask, calibration: Calibration = NO_CALIBRATION) -> Change:
        """Changes the model in place; what lives afterwards lived before."""
