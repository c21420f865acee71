"""Weight-only quantisation: small integers in place of floats, for size.

    W ≈ s · (q − z)        8 bits with a scale per channel, or 4 bits with a scale per group of a channel's weights

Linear layers and tables of embeddings become integers; norms, biases and what flows through the layers stay float, as
does at 4 bits the head that makes answers of states. A matrix that two layers share stays one. Weights become float
again when they are used, so a file shrinks four or seven times, and PyTorch does not get faster: for speed, export.

Where some linear layers must stay float, `keep_float` of them do: those whose quantisation alone changes the model's
outputs most on calibration rows, by ‖y′ − y‖² / ‖y‖².

Example:

    import torch
    from limbeck import Mask, Quantize

    torch.manual_seed(0)
    layer = torch.nn.Sequential(torch.nn.Linear(64, 64))
    change = Quantize(bits=8).apply(layer, Mask())
    assert layer[0].codes.dtype == torch.int8
    assert change.figures["bytes_after"] == 64 * 64 + 64 * (4 + 1 + 4)  # codes; scales, zero points, biases
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar, Literal

from pydantic import field_validator

from limbeck.core.card import Paper
from limbeck.core.compress import NO_CALIBRATION, Calibration, Change, Mask, Pass, compression
from limbeck.core.errors import KnobError
from limbeck.core.knob import knob

if TYPE_CHECKING:
    from torch import Tensor, nn

    from limbeck.functional.quantise import Quantised

JACOB_2018 = Paper(
    "Quantization and Training of Neural Networks for Efficient Integer-Arithmetic-Only Inference",
    "Benoit Jacob, Skirmantas Kligys, Bo Chen, Menglong Zhu, Matthew Tang, Andrew Howard, Hartwig Adam, "
    "Dmitry Kalenichenko",
    2018,
    "CVPR 2018",
    "jacob2018quantization",
    "https://arxiv.org/abs/1712.05877",
)
MEASURED_ROWS = 64  # of the calibration rows, for each layer's sensitivity


@compression("quantize", JACOB_2018)
class Quantize(Pass):
    """Puts integers of 8 or 4 bits in place of the weights of linear layers and tables."""

    calibrates: ClassVar[bool] = True
    reshapes: ClassVar[bool] = True
    bits: Literal[8, 4] = knob(8, "bits per weight")
    group: Literal[32, 64, 128] = knob(64, "weights per scale, at 4 bits; at 8 bits a whole channel has one")
    affine: bool = knob(True, "a zero point beside each scale: a smaller error for a byte per scale")
    embeddings: bool = knob(True, "quantise tables of embeddings too")
    keep_float: int = knob(0, "linear layers that stay float: those that change the outputs most", at_least=0)

    @field_validator("bits", "group", mode="before")
    @classmethod
    def _number(cls, value: Any) -> Any:
        return int(value) if isinstance(value, str) and value.isdigit() else value  # of a flag

    @property
    def precision(self) -> str:
        return f"int{self.bits}"

    @property
    def recoverable(self) -> bool:
        return False  # integers do not learn

    def apply(self, model: nn.Module, mask: Mask, calibration: Calibration = NO_CALIBRATION) -> Change:
        import torch

        from limbeck.core.compressed import check_declarable, declare_layers
        from limbeck.core.layers import matrix

        check_declarable(model)
        groups = self._groups(model)
        sensitivity = self._sensitivity(model, groups, calibration) if self.keep_float else {}
        worst = sorted(sensitivity, key=lambda name: -sensitivity[name])[: self.keep_float]
        before, errors = _bytes(model), list[float]()
        with torch.no_grad():
            for name, members in groups.items():
                if name not in worst:
                    weight = matrix(members[name])
                    found = self._quantise(weight)
                    errors.append(float((found.numbers - weight).norm() / weight.norm().clamp(min=1e-30)))
                    _install(model, members, found, self.bits)
        declare_layers(model)
        figures = {
            "layers": float(len(errors)),
            "bytes_before": float(before),
            "bytes_after": float(_bytes(model)),
            "mean_relative_error": sum(errors) / max(len(errors), 1),
        }
        note = (
            f"{len(errors)} of {len(groups)} matrices have {self.bits} bits, mean relative error "
            f"{figures['mean_relative_error']:.4f}; {before / 1e6:,.2f} → {_bytes(model) / 1e6:,.2f} MB of weights."
        )
        if worst:
            kept = ", ".join(f"{name} ({sensitivity[name]:.1e})" for name in worst)
            note += f" Float, since they change the outputs most: {kept}."
        left = dict(model.named_parameters())
        return Change(Mask({name: live for name, live in mask.live.items() if name in left}), note, figures=figures)

    def _groups(self, model: nn.Module) -> dict[str, dict[str, nn.Module]]:
        """Matrices by the name of the first layer that has each: all layers that have it."""
        from limbeck.core.layers import is_linear, is_table
        from limbeck.passes.calibration import in_head, matrices

        head = in_head(model)
        found = dict[str, dict[str, Any]]()
        first = dict[int, str]()
        wanted = matrices(model, lambda module: is_linear(module) or (self.embeddings and is_table(module)))
        for name, module in wanted.items():
            if not (self.bits == 4 and head(name)):
                found.setdefault(first.setdefault(id(module.weight), name), {})[name] = module
        tables = {id(one.weight) for one in model.modules() if is_table(one)}
        return {
            name: members
            for name, members in found.items()
            # A head that is the word table stays with it.
            if self.embeddings or id(members[name].weight) not in tables
        }

    def _quantise(self, weight: Tensor) -> Quantised:
        from limbeck.functional.quantise import quantise

        return quantise(weight.detach(), self.bits, self.group if self.bits == 4 else 0, self.affine)

    def _sensitivity(
        self, model: nn.Module, groups: dict[str, dict[str, nn.Module]], calibration: Calibration
    ) -> dict[str, float]:
        """‖y′ − y‖² / ‖y‖² over calibration rows, where only that matrix is quantised."""
        import torch

        from limbeck.core.layers import is_table, matrix
        from limbeck.passes.calibration import run

        if not calibration.batches:
            raise KnobError(
                "which layers stay float is chosen by what they change on calibration rows, and there are none",
                "give calibration rows, or leave keep_float at 0",
            )
        batches = calibration.batches[: max(1, MEASURED_ROWS // max(len(calibration.batches[0].uids), 1))]
        truth = [_outputs(said) for said in run(model, batches)]
        scale = sum(float(y.square().sum()) for y in truth)
        found = {}
        for name, members in groups.items():
            if any(is_table(module) for module in members.values()):
                continue
            weight = matrix(members[name])
            kept = weight.detach().clone()
            with torch.no_grad():
                weight.copy_(self._quantise(kept).numbers)
                changed = zip(run(model, batches), truth, strict=True)
                found[name] = sum(float((_outputs(said) - y).square().sum()) for said, y in changed) / max(scale, 1e-30)
                weight.copy_(kept)
        return found


def _outputs(said: Any) -> Tensor:
    """All logits of a model in one row, or what it has in their place."""
    import torch

    names = [name for name in ("logits", "start_logits", "end_logits", "prediction_logits") if name in said]
    parts = [said[name] for name in names] if names else [said[0] if not isinstance(said, torch.Tensor) else said]
    return torch.cat([part.double().flatten() for part in parts])


def _install(model: nn.Module, members: dict[str, nn.Module], found: Quantised, bits: int) -> None:
    from limbeck.core.integers import pack
    from limbeck.core.layers import QuantizedEmbedding, QuantizedLinear, embed_scale, empty, is_table, matrix, replace

    owner: Any = None
    for name, module in members.items():
        source: Any = module
        weight = matrix(module)
        rows, width = weight.shape
        how = {"bits": bits, "group": found.group, "affine": found.zeros is not None, "owner": owner}
        layer: QuantizedEmbedding | QuantizedLinear
        if is_table(module):
            own = {"padding_idx": source.padding_idx, "embed_scale": embed_scale(module)}
            layer = empty(QuantizedEmbedding, weight, num_embeddings=rows, embedding_dim=width, **own, **how)
        else:
            bias = source.bias is not None
            layer = empty(QuantizedLinear, weight, in_features=width, out_features=rows, bias=bias, **how)
            layer.bias = source.bias  # the parameter itself: it may be shared
        if owner is None:
            owner = layer
            layer.codes.copy_(pack(found.codes) if bits == 4 else found.codes)
            layer.scales.copy_(found.scales)
            if layer.zeros is not None and found.zeros is not None:
                layer.zeros.copy_(found.zeros)
        replace(model, name, layer.train(module.training))


def _bytes(model: nn.Module) -> int:
    """Of parameters and of what was quantised, each counted once."""
    from limbeck.core.layers import stored

    return sum(tensor.numel() * tensor.element_size() for tensor in stored(model))
