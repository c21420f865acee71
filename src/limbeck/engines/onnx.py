"""ONNX Runtime, or NumPy: exported models, opened by limbeck_runtime, in the errors and the shapes of this house."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import numpy as np

import limbeck_runtime
from limbeck.core.errors import DataError, LimbeckError, ModelError
from limbeck_runtime import Facts, UnusableError

if TYPE_CHECKING:
    from torch import Tensor
    from transformers import PretrainedConfig

    from limbeck_runtime import Model

NAMES = {"float32": "fp32", "float16": "fp16"}  # what a file calls a precision → what people say


@contextmanager
def explained(kind: type[LimbeckError] = DataError) -> Iterator[None]:
    """The runtime's own refusals, as ours."""
    try:
        yield
    except UnusableError as error:
        raise kind(error.problem, error.remedy) from None


def exported_facts(folder: Path | str, check: bool = True) -> Facts:
    with explained(ModelError):
        return limbeck_runtime.read_facts(folder, check)


def open_exported(folder: Path | str, threads: int = 0) -> Model:
    with explained(ModelError):
        return limbeck_runtime.load(folder, threads)


def engine_name(facts: Facts) -> str:
    return f"{facts.engine} {NAMES.get(facts.precision, facts.precision)}"


class OnnxNetwork:
    """An exported model in the place of a network that evaluators call; it has no weights to look at."""

    training = False

    def __init__(self, model: Model, config: PretrainedConfig) -> None:
        import torch

        self.model, self.config, self.device = model, config, torch.device("cpu")

    def __call__(self, input_ids: Tensor, attention_mask: Tensor, token_type_ids: Tensor | None = None) -> Any:
        return self.forward(input_ids, attention_mask, token_type_ids)

    def forward(self, input_ids: Tensor, attention_mask: Tensor, token_type_ids: Tensor | None = None) -> Any:
        import torch
        from transformers.utils import ModelOutput

        ids = input_ids.numpy()
        types = np.zeros_like(ids) if token_type_ids is None else token_type_ids.numpy()
        arrays = {"input_ids": ids, "attention_mask": attention_mask.numpy(), "token_type_ids": types}
        found = self.model.run({name: arrays[name].astype(np.int64) for name in self.model.facts.inputs})
        return ModelOutput(zip(self.model.facts.outputs, map(torch.from_numpy, found), strict=True))

    def eval(self) -> OnnxNetwork:
        return self

    def modules(self) -> Iterator[object]:
        return iter(())

    def named_modules(self) -> Iterator[tuple[str, object]]:
        return iter(())

    def get_output_embeddings(self) -> Any:
        """Only how many rows it has: logits are taken whole."""
        return SimpleNamespace(weight=np.empty((self.config.vocab_size, 0)))
