"""A winning ticket: which weights live, and where they start.

A ticket that was rewound to the very start is its mask and a fingerprint of the weights it belongs to; one that was
rewound to a later step carries the survivors as they were then. It is a safetensors file of its own, with checksums,
and serves any model that has those weights, whatever its head.

Controls ask what makes it win:

    reinit      the same mask, all weights drawn anew but those of an encoder's head, which is new anyway
    permuted    the weights as they were, the mask shuffled within each layer
    random      the weights as they were, as many living ones drawn from all layers together
    shuffled    the same mask, the weights shuffled within each layer
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import blake2b
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from limbeck.core.compress import Mask, in_head, prunable
from limbeck.core.errors import DataError, MismatchError
from limbeck.core.files import atomic

if TYPE_CHECKING:
    import torch
    from torch import Tensor, nn

Control = Literal["none", "reinit", "permuted", "random", "shuffled"]
FORMAT = "limbeck-ticket/1"
_ANEW = 1_000_003  # added to a seed, which has drawn the model's own start
_MASK, _WEIGHT = "mask.", "weight."  # before the names of tensors in the file


@dataclass(frozen=True)
class Ticket:
    """What lives of a model, and where its training starts.

    `load` opens a file of `limbeck tickets`; `apply` sets a model to the ticket's start, or to a control, and returns
    the mask to hold while it trains: Trainer(model, …, callbacks=[limbeck.HoldMask(mask)]).

    Example:

        import limbeck
        from transformers import BertConfig, BertForSequenceClassification

        sizes = {"hidden_size": 8, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 8}
        model = BertForSequenceClassification(BertConfig(vocab_size=20, **sizes))
        start = {name: weight.detach().clone() for name, weight in model.named_parameters()}
        pruned = limbeck.Magnitude(fraction=0.7, scope="global", head=0).apply(model, limbeck.Mask())
        limbeck.Ticket.of(pruned.mask, start, start, {"task": "none"}).save("ticket.safetensors")

        model.load_state_dict(start, strict=False)
        ticket = limbeck.Ticket.load("ticket.safetensors")
        mask = ticket.apply(model)
        assert round(ticket.sparsity, 2) == 0.7
        assert limbeck.Mask.of(model).remaining < mask.total
    """

    mask: Mask
    start: Mapping[str, str]  # a fingerprint of each masked weight at θ₀
    weights: Mapping[str, Tensor] = field(default_factory=dict)  # at step k, where it was rewound to k > 0
    facts: Mapping[str, Any] = field(default_factory=dict)  # round, model, task, data: for people

    @classmethod
    def of(
        cls, mask: Mask, start: Mapping[str, Tensor], rewound: Mapping[str, Tensor], facts: Mapping[str, Any]
    ) -> Ticket:
        """From the weights at θ₀ and, where those are others, the ones to rewind to."""
        masked = {name: fingerprint_of(start[name]) for name in mask.live}
        same = all((rewound[name] == start[name]).all() for name in mask.live)
        weights = {} if same else {name: rewound[name] * mask.live[name] for name in mask.live}
        return cls(mask, masked, weights, facts)

    @property
    def sparsity(self) -> float:
        """The part of the masked weights that went."""
        return 1 - self.mask.remaining / max(self.mask.total, 1)

    def apply(self, model: nn.Module, control: Control = "none", seed: int = 0) -> Mask:
        """Sets a model to where the ticket starts, or to a control; the mask to hold while it trains."""
        import torch

        self.check(model)
        random = torch.Generator().manual_seed(seed)
        weights = dict(model.named_parameters())
        with torch.no_grad():
            for name, value in self.weights.items():
                weights[name].copy_(value)
            if control == "reinit":
                _draw_anew(model, seed)
            elif control == "shuffled":
                for name in self.mask.live:
                    weights[name].copy_(_shuffled(weights[name], random))
        mask = self._mask(control, random)
        mask.hold(model)
        return mask

    def check(self, model: nn.Module) -> None:
        """Refuses another model than the ticket's, and other weights than those it was found with."""
        weights = self.check_shapes(model)
        for name in self.mask.live:
            if fingerprint_of(weights[name]) != self.start[name]:
                raise MismatchError(
                    f"the ticket belongs to other weights: {name} is not what it started from",
                    "start from the very weights that it was found with (of a random start: the same seed)",
                )

    def check_shapes(self, model: nn.Module) -> dict[str, Tensor]:
        """The model's weights by name; refuses one that does not have those that the ticket masks."""
        weights: dict[str, Tensor] = dict(model.named_parameters())
        for name, live in self.mask.live.items():
            if name not in weights or weights[name].shape != live.shape:
                raise MismatchError(
                    f"the ticket was made for another model: it masks {name} of shape {tuple(live.shape)}",
                    "use it with the model it was found in, or find one with `limbeck tickets`",
                )
        return weights

    def completed(self, model: nn.Module) -> Ticket:
        """With the layers of this model's encoder that the ticket does not name, at the same sparsity.

        A masked LM has no pooler, a classifier has. What is missing goes by its magnitude at the start, smallest first,
        so that as many weights go in all as of a ticket that was found with all these layers."""
        self.check(model)
        more = prunable(model).keys() - self.mask.live.keys() - in_head(model)
        new = {name: weight.detach().cpu() for name, weight in prunable(model).items() if name in more}
        if not new:
            return self
        whole = sum(weight.numel() for weight in new.values())
        gone = round(self.sparsity * (self.mask.total + whole)) - (self.mask.total - self.mask.remaining)
        masks = smallest_off(new, min(max(gone, 0), whole))
        start = {name: fingerprint_of(weight) for name, weight in new.items()}
        facts = {**self.facts, "completed": sorted(new)}
        return Ticket(Mask({**self.mask.live, **masks}), {**self.start, **start}, self.weights, facts)

    def _mask(self, control: Control, random: torch.Generator) -> Mask:
        live = self.mask.live
        if control == "permuted":
            return Mask({name: _shuffled(one, random) for name, one in live.items()})
        if control != "random":
            return self.mask
        import torch

        flat = _shuffled(torch.cat([one.reshape(-1) for one in live.values()]), random)
        parts = torch.split(flat, [one.numel() for one in live.values()])
        return Mask({name: part.reshape(live[name].shape) for name, part in zip(live, parts, strict=True)})

    def save(self, path: Path | str) -> None:
        import numpy as np
        import torch
        from safetensors.torch import save_file

        live = self.mask.live.items()
        tensors = {_MASK + name: torch.from_numpy(np.packbits(one.numpy())) for name, one in live}  # an eighth of bools
        tensors |= {_WEIGHT + name: weight.contiguous() for name, weight in self.weights.items()}
        shapes = json.dumps({name: list(one.shape) for name, one in live})
        about = {"format": FORMAT, "shapes": shapes, "start": json.dumps(dict(self.start))}
        about["facts"] = json.dumps(dict(self.facts))
        with atomic(Path(path)) as part:
            save_file(tensors, part, about | {"checksum": _checksum(tensors, about)})

    @classmethod
    def load(cls, path: Path | str) -> Ticket:
        from safetensors import SafetensorError, safe_open

        if not Path(path).is_file():
            raise DataError(f"there is no ticket {path}", "name a file that `limbeck tickets` wrote")
        try:
            with safe_open(path, framework="pt") as file:
                about = dict(file.metadata() or {})
                tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118  not a mapping
        except SafetensorError as error:
            raise DataError(
                f"{path} is damaged or no ticket: {error}", "find it again with `limbeck tickets`"
            ) from None
        checksum = about.pop("checksum", "")
        if about.get("format") != FORMAT:
            raise DataError(f"{path} is no ticket", "name a file that `limbeck tickets` wrote")
        if checksum != _checksum(tensors, about):
            raise DataError(f"{path} is damaged: its checksum differs", "find it again with `limbeck tickets`")
        shapes = json.loads(about["shapes"])
        mask = {name: _unpacked(tensors[_MASK + name], shape) for name, shape in shapes.items()}
        weights = {name.removeprefix(_WEIGHT): one for name, one in tensors.items() if name.startswith(_WEIGHT)}
        return cls(Mask(mask), json.loads(about["start"]), weights, json.loads(about["facts"]))


def fingerprint_of(weight: Tensor) -> str:
    """Of its values, bit for bit."""
    import torch

    raw = weight.detach().cpu().contiguous().reshape(-1).view(torch.uint8).numpy()
    return blake2b(raw.tobytes(), digest_size=8).hexdigest()


def _unpacked(bits: Tensor, shape: Sequence[int]) -> Tensor:
    import numpy as np
    import torch

    return torch.from_numpy(np.unpackbits(bits.numpy(), count=math.prod(shape)).astype(bool)).reshape(tuple(shape))


def _shuffled(values: Tensor, random: torch.Generator) -> Tensor:
    import torch

    return values.reshape(-1)[torch.randperm(values.numel(), generator=random).to(values.device)].reshape(values.shape)


def smallest_off(weights: Mapping[str, Tensor], count: int) -> dict[str, Tensor]:
    """Masks of these weights together without the `count` smallest."""
    import torch

    live = torch.ones(sum(weight.numel() for weight in weights.values()), dtype=torch.bool)
    live[torch.cat([weight.reshape(-1) for weight in weights.values()]).abs().argsort(stable=True)[:count]] = False
    parts = torch.split(live, [weight.numel() for weight in weights.values()])
    return {name: part.reshape(weights[name].shape) for name, part in zip(weights, parts, strict=True)}


def _draw_anew(model: Any, seed: int) -> None:
    """All weights as a new model of this shape has them; the head of an encoder is new already."""
    import torch

    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed + _ANEW)
        fresh = type(model)(model.config)
    body = getattr(model, "base_model", model)  # of a model without an encoder, itself
    body.load_state_dict(getattr(fresh, "base_model", fresh).state_dict())


def _checksum(tensors: Mapping[str, Tensor], about: Mapping[str, str]) -> str:
    digest = blake2b(json.dumps(dict(sorted(about.items()))).encode(), digest_size=16)
    for name, tensor in sorted(tensors.items()):
        digest.update(f"{name} {tuple(tensor.shape)} {fingerprint_of(tensor)}".encode())
    return digest.hexdigest()
