"""Magnitude pruning: the smallest weights go.

    keep the (1 − fraction) · n living weights with the largest |w|        of each layer, or of all layers together

Counts are exact: round(fraction · n) weights go, equals by their place. Biases, norms and embeddings stay whole.
Weights that went before never return. A fraction is of what still lives (Frankle and Carbin: 80, 64, 51.2 % … remain),
or of all there were (Chen et al.: 90, 80, 70 % … remain). `head` and `rates` spare layers, or prune them more.

Example:

    import torch
    from limbeck import Magnitude, Mask

    layer = torch.nn.Sequential(torch.nn.Linear(4, 2, bias=False))
    change = Magnitude(fraction=0.5).apply(layer, Mask.full(layer))
    assert (change.mask.remaining, change.mask.total) == (4, 8)
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Literal, Self

from pydantic import field_validator, model_validator

from limbeck.core.card import Paper
from limbeck.core.compress import NO_CALIBRATION, Calibration, Change, Mask, Pass, compression, in_head, prunable
from limbeck.core.errors import KnobError
from limbeck.core.knob import knob

if TYPE_CHECKING:
    from torch import Tensor, nn

HAN_2015 = Paper(
    "Learning both Weights and Connections for Efficient Neural Networks",
    "Song Han, Jeff Pool, John Tran, William J. Dally",
    2015,
    "NeurIPS 2015",
    "han2015learning",
    "https://arxiv.org/abs/1506.02626",
)


@compression("magnitude", HAN_2015)
class Magnitude(Pass):
    """Removes the weights of the smallest magnitude."""

    fraction: float = knob(
        0.2,
        "part of the weights that goes, of those that `part_of` names",
        at_least=0,
        below=1,
        source="Frankle 2019, 20 % of what lives; Chen 2020, 10 % of all",
    )
    scope: Literal["layer", "global"] = knob("layer", "smallest within each layer, or among all layers")
    part_of: Literal["living", "all"] = knob(
        "living", "what `fraction` is a part of: what still lives, or all there were"
    )
    head: float = knob(
        1.0,
        "share of `fraction` for the layers that answer; 0: they stay whole; between 0 and 1 with scope layer only",
        at_least=0,
        source="Frankle 2019, 0.5 for LeNet; Chen 2020, 0",
    )
    rates: dict[str, float] = knob({}, "fractions of single layers, by a part of their name; 0: they stay whole")

    @field_validator("rates")
    @classmethod
    def _check_rates(cls, rates: dict[str, float]) -> dict[str, float]:
        for layer, rate in rates.items():
            if not 0 <= rate < 1:
                raise KnobError(f"the rate of '{layer}' is {rate:g}", "give a fraction from 0 to below 1")
        return rates

    @model_validator(mode="after")
    def _check_scope(self) -> Self:
        shares = [self.head, *(rate / self.fraction if self.fraction else 0.0 for rate in self.rates.values())]
        if self.scope == "global" and any(share not in (0.0, 1.0) for share in shares):
            raise KnobError(
                "a layer has a rate of its own, but the smallest weights of all layers together go",
                "set scope to layer, or a rate to 0, which leaves a layer whole",
            )
        if self.fraction * self.head >= 1:
            raise KnobError(f"{self.head:g} · {self.fraction:g} of the layers that answer is all", "lower `head`")
        return self

    def apply(self, model: nn.Module, mask: Mask, calibration: Calibration = NO_CALIBRATION) -> Change:
        mask, whole = mask if mask.live else self.scope_of(model), prunable(model)
        fractions = self._fractions(model, list(mask.live))
        weights = {name: whole[name].detach().cpu() for name, fraction in fractions.items() if fraction}
        if self.scope == "layer" or not weights:
            pruned = self._by_layer(weights, mask, fractions)
        else:
            pruned = self._together(weights, mask)
        kept = Mask({**mask.live, **pruned})
        kept.hold(model)
        share = kept.remaining / max(kept.total, 1)
        return Change(kept, f"{kept.remaining:,} of {kept.total:,} weights remain ({100 * share:.1f} %).")

    def scope_of(self, model: nn.Module) -> Mask:
        """Every weight that it may prune, living."""
        fractions = self._fractions(model, list(prunable(model)))
        return Mask(
            {name: live for name, live in Mask.full(model).live.items() if fractions[name] or not self.fraction}
        )

    def _fractions(self, model: nn.Module, names: list[str]) -> dict[str, float]:
        """Of each layer."""
        head = in_head(model) if self.head != 1 else set()
        found = {name: self.fraction * (self.head if name in head else 1.0) for name in names}
        for part, rate in self.rates.items():
            named = [name for name in names if part in name]
            if not named:
                raise KnobError(
                    f"no layer that can be pruned has '{part}' in its name", f"it may be one of {', '.join(names[:6])}"
                )
            found |= dict.fromkeys(named, rate)
        return found

    def _by_layer(self, weights: Mapping[str, Tensor], mask: Mask, fractions: Mapping[str, float]) -> dict[str, Tensor]:
        return {name: self._largest(weight, mask.live[name], fractions[name]) for name, weight in weights.items()}

    def _together(self, weights: Mapping[str, Tensor], mask: Mask) -> dict[str, Tensor]:
        import torch

        flat = torch.cat([weight.reshape(-1) for weight in weights.values()])
        live = torch.cat([mask.live[name].reshape(-1) for name in weights])
        parts = self._largest(flat, live, self.fraction).split([weight.numel() for weight in weights.values()])
        return {name: part.reshape(weights[name].shape) for name, part in zip(weights, parts, strict=True)}

    def _largest(self, weight: Tensor, live: Tensor, fraction: float) -> Tensor:
        """The living places but for those with the smallest magnitude."""
        places = live.reshape(-1).nonzero()[:, 0]
        order = weight.reshape(-1)[places].abs().argsort(stable=True)
        kept = live.reshape(-1).clone()
        kept[places[order[: self._count(len(places), live.numel(), fraction)]]] = False
        return kept.reshape(live.shape)

    def _count(self, living: int, all_: int, fraction: float) -> int:
        """How many go. Fractions of all add up exactly, round after round: 10, 20, 30 % …"""
        if self.part_of == "living":
            return round(fraction * living)
        rounds = round((all_ - living) / (fraction * all_)) + 1
        return max(0, min(living, round(rounds * fraction * all_) - (all_ - living)))
