"""Low rank: two thin factors in place of a matrix.

    W ≈ L·R        r·(m + n) parameters instead of m·n, only where that is fewer

With calibration rows the factors keep what the layer computes on them, min ‖(W − L·R)·X‖, as SVD-LLM does; of a word
table each row counts as often as its word occurs, and once more. Without rows they keep the matrix itself, by truncated
SVD (Denton 2014, arXiv 1404.0736). One of four rules sets the ranks: a budget of parameters for all layers together,
spent where it gains most; the energy that each layer keeps; the error that each may make; or a rank for all. A bias
belongs to the second factor. A matrix that two layers share stays whole, as does a classifier's head.

BERT's matrices are nearly of full rank: below half of it, train the model again (`--teacher`).

Example:

    import torch
    from limbeck import LowRank, Mask

    torch.manual_seed(0)
    layer = torch.nn.Sequential(torch.nn.Linear(64, 64))
    change = LowRank(ratio=0.5).apply(layer, Mask())
    assert layer[0].rank == 16 and change.figures["parameters_after"] == 16 * (64 + 64) + 64
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

from pydantic import model_validator

from limbeck.core.card import Paper
from limbeck.core.compress import NO_CALIBRATION, Calibration, Change, Mask, Pass, compression
from limbeck.core.knob import knob

if TYPE_CHECKING:
    from torch import Tensor, nn

    from limbeck.functional.lowrank import Decomposition

WANG_2024 = Paper(
    "SVD-LLM: Truncation-aware Singular Value Decomposition for Large Language Model Compression",
    "Xin Wang, Yu Zheng, Zhongwei Wan, Mi Zhang",
    2024,
    "ICLR 2025",
    "wang2024svdllm",
    "https://arxiv.org/abs/2403.07378",
)


@compression("lowrank", WANG_2024)
class LowRank(Pass):
    """Puts two thin factors in place of linear layers and word tables."""

    calibrates: ClassVar[bool] = True
    reshapes: ClassVar[bool] = True
    ratio: float = knob(0.5, "part of the parameters of these layers that stays", above=0, below=1)
    energy: float = knob(
        0.0, "instead: part of a layer's squared output that it keeps; 0: not used", at_least=0, below=1
    )
    tolerance: float = knob(0.0, "instead: relative error of a layer's output; 0: not used", at_least=0, below=1)
    rank: int = knob(0, "instead: rank of every layer; 0: not used", at_least=0)
    embeddings: bool = knob(True, "factor the word table too, unless the head shares it")
    calibrated: bool = knob(True, "keep what layers compute on calibration rows, if there are any", source="SVD-LLM")

    @model_validator(mode="after")
    def _one_rule(self) -> LowRank:
        rules = [name for name in ("energy", "tolerance", "rank") if getattr(self, name)]
        if len(rules) > 1:
            raise ValueError(f"only one of {' and '.join(rules)}")
        return self

    def apply(self, model: nn.Module, mask: Mask, calibration: Calibration = NO_CALIBRATION) -> Change:
        from limbeck.core.compressed import check_declarable, declare_layers
        from limbeck.core.layers import matrix
        from limbeck.functional.lowrank import decompose
        from limbeck.passes.calibration import second_moments

        check_declarable(model)
        layers, tied = self._layers(model)
        batches = calibration.batches if self.calibrated else ()
        moments = second_moments(model, layers, batches)
        found, shapes = dict[str, "Decomposition"](), dict[str, tuple[int, int]]()
        for name, module in layers.items():
            weight, moment = _oriented(module), moments.get(name)
            found[name] = decompose(weight, moment + 1 if moment is not None and moment.dim() == 1 else moment)
            rows, columns = matrix(module).shape
            shapes[name] = rows, columns
        before = _parameters(model)
        ranks = {name: rank for name, rank in self._ranks(found, shapes).items() if rank}
        for name, rank in ranks.items():
            _factor(model, name, layers[name], found[name], rank)
        declare_layers(model)
        errors = [found[name].error(rank) for name, rank in ranks.items()]
        figures = {
            "layers": float(len(ranks)),
            "parameters_before": float(before),
            "parameters_after": float(_parameters(model)),
            "mean_relative_error": sum(errors) / max(len(errors), 1),
        }
        rows = sum(len(batch.uids) for batch in batches)
        how = f"on {rows:,} calibration rows" if moments else "of the matrices"
        note = (
            f"{len(ranks)} of {len(layers)} layers factored, mean relative error {figures['mean_relative_error']:.3f} "
            f"{how}; {before:,} → {_parameters(model):,} parameters."
        )
        if tied:
            note += f" Shared by several layers, so whole: {', '.join(tied[:3])}{' …' if len(tied) > 3 else ''}."
        left = dict(model.named_parameters())
        return Change(Mask({name: live for name, live in mask.live.items() if name in left}), note, figures=figures)

    def _layers(self, model: Any) -> tuple[dict[str, nn.Module], list[str]]:
        """What may be factored by name, and the names of what is not because its weights are not its own."""
        from limbeck.core.layers import LowRankEmbedding, LowRankLinear, is_linear, is_table
        from limbeck.passes.calibration import in_head, matrices, shared_weights

        words = model.get_input_embeddings() if hasattr(model, "get_input_embeddings") else None
        factors = {
            id(part)
            for module in model.modules()
            if isinstance(module, LowRankLinear | LowRankEmbedding)
            for part in module.children()
        }

        def wanted(module: nn.Module) -> bool:
            table = self.embeddings and is_table(module) and (words is None or module is words)
            return (is_linear(module) or table) and id(module) not in factors

        shared, head = shared_weights(model), in_head(model)
        every = {name: module for name, module in matrices(model, wanted).items() if not head(name)}
        tied = [name for name, module in every.items() if shared & {id(one) for one in module.parameters()}]
        return {name: module for name, module in every.items() if name not in tied}, tied

    def _ranks(self, found: dict[str, Decomposition], shapes: dict[str, tuple[int, int]]) -> dict[str, int]:
        """A rank for each layer, or 0 where factors would not be smaller."""
        from limbeck.functional.lowrank import largest_rank, rank_within, ranks_within

        gains, sizes = [one.gains for one in found.values()], list(shapes.values())
        if self.rank:
            ranks = [self.rank] * len(sizes)
        elif self.energy or self.tolerance:
            error = self.tolerance or (1 - self.energy) ** 0.5
            ranks = [rank_within(each, error) for each in gains]
        else:
            budget = round(self.ratio * sum(rows * columns for rows, columns in sizes))
            ranks = ranks_within(gains, sizes, budget) if sizes else []
        return {
            name: rank if rank <= largest_rank(*shapes[name]) else 0 for name, rank in zip(found, ranks, strict=True)
        }


def _oriented(module: nn.Module) -> Tensor:
    """[out, in]; of a table [width, rows], as if its input were one-hot."""
    from limbeck.core.layers import is_table, matrix

    return matrix(module).T if is_table(module) else matrix(module)


def _factor(model: nn.Module, name: str, module: Any, found: Decomposition, rank: int) -> None:
    import torch

    from limbeck.core.layers import LowRankEmbedding, LowRankLinear, embed_scale, empty, is_table, matrix, replace

    weight = matrix(module)
    rows, width = weight.shape
    with torch.no_grad():
        if is_table(module):
            how = {"padding_idx": module.padding_idx, "embed_scale": embed_scale(module)}
            table = empty(LowRankEmbedding, weight, num_embeddings=rows, embedding_dim=width, rank=rank, **how)
            words, back = found.table(weight.T, rank)
            table.words.weight.copy_(words)
            table.back.weight.copy_(back)
            replace(model, name, table.train(module.training))
            return
        bias = module.bias is not None
        layer = empty(LowRankLinear, weight, in_features=width, out_features=rows, rank=rank, bias=bias)
        left, right = found.factors(weight, rank)
        layer.first.weight.copy_(right)
        layer.second.weight.copy_(left)
        if bias:
            layer.second.bias.copy_(module.bias)
        replace(model, name, layer.train(module.training))


def _parameters(model: nn.Module) -> int:
    return sum(parameter.numel() for parameter in model.parameters())
