"""Magnitude pruning: the smallest weights go.

    keep the (1 − fraction) · n living weights with the largest |w|        of each layer, or of all layers together

Counts are exact: round(fraction · n) weights go, equals by their place. Biases, norms and embeddings stay whole.
Weights that went before are not counted and never return.

Example:

    import torch
    from limbeck import Magnitude, Mask

    layer = torch.nn.Sequential(torch.nn.Linear(4, 2, bias=False))
    change = Magnitude(fraction=0.5).apply(layer, Mask.full(layer))
    assert (change.mask.remaining, change.mask.total) == (4, 8)
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from limbeck.core.card import Paper
from limbeck.core.compress import NO_CALIBRATION, Calibration, Change, Mask, Pass, compression, prunable
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
        0.2, "part of the living weights that goes", at_least=0, below=1, source="Frankle 2019, 20 %"
    )
    scope: Literal["layer", "global"] = knob("layer", "smallest within each layer, or among all layers")

    def apply(self, model: nn.Module, mask: Mask, calibration: Calibration = NO_CALIBRATION) -> Change:
        mask = mask if mask.live else Mask.full(model)
        weights = {name: weight.detach().cpu() for name, weight in prunable(model).items() if name in mask.live}
        kept = Mask(self._by_layer(weights, mask) if self.scope == "layer" else self._together(weights, mask))
        kept.hold(model)
        share = kept.remaining / max(kept.total, 1)
        return Change(kept, f"{kept.remaining:,} of {kept.total:,} weights remain ({100 * share:.1f} %).")

    def _by_layer(self, weights: dict[str, Tensor], mask: Mask) -> dict[str, Tensor]:
        return {name: _largest(weight, mask.live[name], self.fraction) for name, weight in weights.items()}

    def _together(self, weights: dict[str, Tensor], mask: Mask) -> dict[str, Tensor]:
        import torch

        flat = torch.cat([weight.reshape(-1) for weight in weights.values()])
        live = torch.cat([mask.live[name].reshape(-1) for name in weights])
        parts = _largest(flat, live, self.fraction).split([weight.numel() for weight in weights.values()])
        return {name: part.reshape(weights[name].shape) for name, part in zip(weights, parts, strict=True)}


def _largest(weight: Tensor, live: Tensor, fraction: float) -> Tensor:
    """The living places but for the `fraction` of them with the smallest magnitude."""
    places = live.reshape(-1).nonzero()[:, 0]
    order = weight.reshape(-1)[places].abs().argsort(stable=True)
    kept = live.reshape(-1).clone()
    kept[places[order[: round(fraction * len(places))]]] = False
    return kept.reshape(live.shape)
