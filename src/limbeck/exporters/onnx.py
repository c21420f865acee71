"""ONNX for encoders: texts, tokens, spans and masked words, with any batch and any length, in one file.

torch traces the model: its older exporter takes a second where the newer takes ten, which is used for what cannot be
traced (DeBERTa). Attention is written as ONNX Runtime's MultiHeadAttention, by way of the table in which transformers
looks up attention, with the padding mask as it comes: no mask of four dimensions is ever built. Where an architecture
computes attention by itself (MPNet), its own is traced. The graph is folded by ONNX Runtime, then simplified by
onnx_graph.py.
"""

from __future__ import annotations

import inspect
import io
import logging
import tempfile
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

from limbeck.core.errors import LimbeckError, ModelError
from limbeck.core.task import Kind
from limbeck.exporters.bilstm import bilstm_to_trace
from limbeck.exporters.onnx_graph import CONTRIB, OPSET, Graph, simplify
from limbeck.exporters.reference import OUTPUTS, inputs_of
from limbeck.students.model_folder import quiet

if TYPE_CHECKING:
    from transformers import PreTrainedModel, PreTrainedTokenizerBase

ATTENTION = "limbeck-onnx"  # the name under which transformers finds it
LARGEST = 2**31 - 2**20  # bytes: a file of ONNX holds no more
_BEYOND = ("position_bias", "softcap", "s_aux")  # what some models do to scores beside scaling and masking
_SAMPLE = (3, 11)  # texts and tokens of the batch that is traced


def onnx_graph(model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase, kind: Kind) -> Graph:
    """The graph of a model in float32, or a refusal."""
    if 4 * sum(x.numel() for x in model.parameters()) > LARGEST:
        raise ModelError(
            "the model has over 2 GB, which is more than a file of ONNX holds", "export a smaller student of it"
        )
    with _prepared(model):
        for dynamo in (False, True):  # what one of torch's exporters cannot say, the other may
            try:
                return _simplified(model, tokenizer, kind, dynamo=dynamo)
            except LimbeckError:
                raise
            except Exception as error:  # of torch, its exporter and ONNX Runtime
                failure = error
    reason = next((line for line in str(failure).splitlines() if line.strip()), type(failure).__name__)
    raise ModelError(
        f"a {type(model).__name__} cannot be exported to ONNX: {reason}",
        "use a student of another architecture, such as BERT, ELECTRA or DistilBERT (limbeck distill "
        "--student.family …)",
    ) from failure


class _ToTrace(nn.Module):
    """Tensors in, tensors out."""

    def __init__(self, model: nn.Module, inputs: Sequence[str], outputs: Sequence[str]) -> None:
        super().__init__()
        self.model, self.inputs, self.outputs = model, inputs, outputs

    def forward(self, *tensors: Tensor) -> tuple[Tensor, ...]:
        found = self.model(**dict(zip(self.inputs, tensors, strict=True)))
        return tuple(found[name] for name in self.outputs)


def _simplified(model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase, kind: Kind, dynamo: bool) -> Graph:
    inputs, outputs = inputs_of(model, tokenizer), OUTPUTS.get(kind, ("logits",))
    ids = torch.randint(0, model.get_input_embeddings().num_embeddings, _SAMPLE, generator=torch.Generator())
    mask = torch.ones_like(ids)
    mask[1, -4:] = 0
    tensors = {"input_ids": ids, "attention_mask": mask, "token_type_ids": torch.zeros_like(ids)}
    sample = tuple(tensors[name] for name in inputs)
    names: dict[str, Any] = {"input_names": inputs, "output_names": list(outputs), "opset_version": OPSET}
    network = _ToTrace(model, inputs, outputs).eval()
    both = {0: "batch", 1: "length"}
    with torch.no_grad(), _silent():
        if dynamo:
            model.set_attn_implementation("eager")
            shapes = (tuple(dict.fromkeys(both, torch.export.Dim.DYNAMIC) for _ in inputs),)
            program: Any = torch.onnx.export(
                network, sample, dynamo=True, dynamic_shapes=shapes, verbose=False, **names
            )
            return simplify(_folded(program.model_proto.SerializeToString()))
        axes = dict.fromkeys(inputs, both)
        axes |= dict.fromkeys(outputs, both if kind in ("tag", "answer", "mask-fill") else {0: "batch"})
        file: Any = io.BytesIO()
        torch.onnx.export(network, sample, file, dynamo=False, dynamic_axes=axes, custom_opsets={CONTRIB: 1}, **names)
        graph = simplify(_folded(file.getvalue()))
        if any(x.HasField("g") for node in graph.nodes for x in node.attribute):
            # Simplifying does not look inside branches (DeBERTa's): what it broke there is no graph any more.
            _open(graph.copy().model().SerializeToString())
        return graph


def _folded(content: bytes) -> Graph:
    """Without constants that can be computed beforehand, and without what is computed twice."""
    import onnx

    with tempfile.TemporaryDirectory(prefix="limbeck-onnx-") as place:
        path = str(Path(place) / "folded.onnx")
        _open(content, write_to=path)
        return Graph.of(onnx.load(path))


def _open(content: bytes, write_to: str = "") -> None:
    """In ONNX Runtime, which refuses what is no graph; it can write what its first optimisations make of it."""
    onnxruntime = import_module("onnxruntime")
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_ENABLE_BASIC
    options.log_severity_level = 4
    options.optimized_model_filepath = write_to
    onnxruntime.InferenceSession(content, options, providers=["CPUExecutionProvider"])


@contextmanager
def _prepared(model: PreTrainedModel) -> Iterator[None]:
    """With attention that is exported as one node, where the architecture looks it up; afterwards as it was."""
    before = getattr(model.config, "_attn_implementation", None)
    _register()
    try:
        with quiet():
            with suppress(ValueError):  # it has no attention, or only one kind
                model.set_attn_implementation(ATTENTION if _looks_up_attention(model) else "eager")
            with bilstm_to_trace(model):
                yield
    finally:
        if before is not None:
            with quiet():
                model.set_attn_implementation(before)


def _looks_up_attention(model: PreTrainedModel) -> bool:
    return "ALL_ATTENTION_FUNCTIONS" in inspect.getmodule(type(model).__mro__[_transformers_class(model)]).__dict__


def _transformers_class(model: PreTrainedModel) -> int:
    """The place among its bases of the class that transformers has, which a student's may be derived from."""
    return next(i for i, cls in enumerate(type(model).__mro__) if not cls.__module__.startswith("limbeck."))


@cache
def _register() -> None:
    from transformers import AttentionInterface, AttentionMaskInterface

    AttentionInterface.register(ATTENTION, _attention)
    AttentionMaskInterface.register(ATTENTION, _mask)


def _mask(*sizes: Any, mask_function: Any = None, attention_mask: Tensor | None = None, **how: Any) -> Tensor | None:
    """The padding mask [batch, length] as it comes; for windows of attention, what is added to scores."""
    from transformers.masking_utils import bidirectional_mask_function, eager_mask

    if mask_function is bidirectional_mask_function and attention_mask is not None:
        return attention_mask.int()
    found: Tensor | None = eager_mask(*sizes, mask_function=mask_function, attention_mask=attention_mask, **how)
    return found


def _attention(
    module: nn.Module,
    query: Tensor,  # [batch, heads, length, head size]
    key: Tensor,
    value: Tensor,
    attention_mask: Tensor | None,
    scaling: float | None = None,
    **others: Any,
) -> tuple[Tensor, None]:
    """→ [batch, length, heads, head size]."""
    if beyond := [name for name in _BEYOND if others.get(name) is not None]:
        raise ModelError(f"its attention scores are changed by {', '.join(beyond)}", "use another architecture")
    heads, size = int(query.shape[1]), int(query.shape[3])

    def flat(x: Tensor) -> Tensor:
        return x.transpose(1, 2).reshape(x.shape[0], -1, heads * size)

    masks = [] if attention_mask is None else [attention_mask]
    found = _MultiHeadAttention.apply(
        heads, float(size**-0.5 if scaling is None else scaling), flat(query), flat(key), flat(value), *masks
    )
    return found.reshape(found.shape[0], -1, heads, int(value.shape[3])), None


class _MultiHeadAttention(torch.autograd.Function):
    """Computed as written here while it is traced, and exported as the one node that ONNX Runtime has for it."""

    @staticmethod
    def forward(
        ctx: Any, heads: int, scale: float, query: Tensor, key: Tensor, value: Tensor, *masks: Tensor
    ) -> Tensor:
        def split(x: Tensor) -> Tensor:
            return x.unflatten(-1, (heads, -1)).transpose(1, 2)

        scores = split(query) @ split(key).transpose(-1, -2) * scale
        for mask in masks:
            scores = scores + mask if mask.dim() == 4 else scores.masked_fill(mask[:, None, None] == 0, -1e4)
        return (scores.softmax(-1) @ split(value)).transpose(1, 2).flatten(2)

    @staticmethod
    def symbolic(g: Any, heads: int, scale: float, query: Any, key: Any, value: Any, *masks: Any) -> Any:
        nothing = g.op("prim::Constant")
        nothing.setType(torch._C.OptionalType.ofTensor())
        after: list[Any] = []  # a bias of the products, the mask of padding, what is added to scores
        for mask in masks:
            after = [nothing, nothing, mask] if mask.type().dim() == 4 else [nothing, mask]
        attributes = {"num_heads_i": heads, "scale_f": scale}
        return g.op(f"{CONTRIB}::MultiHeadAttention", query, key, value, *after, **attributes).setType(query.type())


@contextmanager
def _silent() -> Iterator[None]:
    """torch warns of every length that it takes for a constant, and of its exporter's age; parity is the proof."""
    log = logging.getLogger("torch.onnx")
    level = log.level
    log.setLevel(logging.ERROR)
    backend: Any = torch._C
    show, backend._jit_onnx_log = backend._jit_onnx_log, lambda *_: None  # of a failure, the whole graph
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        log.setLevel(level)
        backend._jit_onnx_log = show
