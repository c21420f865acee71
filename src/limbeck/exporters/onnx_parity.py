"""Whether an exported graph answers as its source: on real texts, in padded batches and alone, short and long.

A float graph must give the same logits; one in integers must give the same answers. What is quantised is chosen here
too: all of it, unless answers change too often. Then the weights are tried one by one, and those that move the logits
most stay float.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib import import_module
from typing import Any

import torch

from limbeck.core.errors import ModelError
from limbeck.core.progress import Watcher
from limbeck.exporters.onnx_graph import Graph
from limbeck.exporters.onnx_quantize import quantizable, quantize
from limbeck.exporters.reference import AGREEMENT, NOISE, Reference, check_rounding, keeps_answers

TOLERANCE = 1e-4  # of logits in float32, beside the largest
MOST_FLOAT = 0.5  # share of the weights that may stay float before it is not worth it
TRIED = 64  # texts on which single weights are tried


def checked_float(graph: Graph, reference: Reference) -> dict[str, float]:
    """Its figures, or a refusal."""
    figures = _compare(graph, reference)
    check_rounding(figures, reference.rows, TOLERANCE)
    return figures


def quantized(graph: Graph, reference: Reference, bits: int, watcher: Watcher) -> tuple[Graph, dict[str, float]]:
    """The graph in integers, all of it or as much as keeps its answers, and its figures."""
    names, limit = quantizable(graph), AGREEMENT[bits]
    found, figures = _with(graph, reference, bits, ())
    if keeps_answers(figures, bits):
        return found, figures | {"float_weights": 0.0}
    watcher.say(
        f"in int{bits}, {figures['agreement']:.1%} of the answers are the source's, and the noise in the logits is "
        f"{figures['noise']:.1%}; looking for the weights that suffer"
    )
    damage = {name: _with(graph, reference, bits, [n for n in names if n != name], TRIED)[1]["noise"] for name in names}
    worst = sorted(names, key=lambda name: -damage[name])
    sizes = graph.sizes(names)
    best, count = figures["agreement"], 1
    while count < len(names):
        leave = worst[:count]
        share = sum(sizes[name] for name in leave) / sum(sizes.values())
        if share > MOST_FLOAT:
            break
        found, figures = _with(graph, reference, bits, leave)
        best = max(best, figures["agreement"])
        if keeps_answers(figures, bits):
            watcher.say(f"{count} of {len(names)} weights stay float ({share:.0%} of their numbers)")
            return found, figures | {"float_weights": float(count)}
        count *= 2
    raise ModelError(
        f"in int{bits}, even with half of the weights left float, {best:.1%} of the answers on {reference.rows} texts "
        f"are the source's and the noise in the logits is {figures['noise']:.1%} (wanted: {limit:.0%} and at most "
        f"{NOISE[bits]:.0%})",
        "nothing was written; " + ("use --to onnx-int8" if bits == 4 else "use --to onnx, or train with more data"),
    )


def _with(
    graph: Graph, reference: Reference, bits: int, leave: Sequence[str], tried: int | None = None
) -> tuple[Graph, dict[str, float]]:
    some = graph.copy()
    quantize(some, bits, leave)
    return some, _compare(some, reference, tried)


def _compare(graph: Graph, reference: Reference, tried: int | None = None) -> dict[str, float]:
    with _explained():
        return reference.compare(_session(graph), tried)


@contextmanager
def _explained() -> Iterator[None]:
    """ONNX Runtime's refusal of a graph: of an operator that it lacks, or of texts of other lengths than the traced."""
    try:
        yield
    except Exception as error:
        if not type(error).__module__.startswith("onnxruntime."):
            raise
        reason = next(line for line in str(error).splitlines() if line.strip())
        raise ModelError(
            f"ONNX Runtime cannot run the exported graph: {reason}",
            "nothing was written; use a student of another architecture, such as BERT, ELECTRA or DistilBERT (limbeck "
            "distill --student.family …)",
        ) from error


def _session(graph: Graph) -> Any:
    onnxruntime = import_module("onnxruntime")
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4  # what fails is an exception too
    options.intra_op_num_threads = torch.get_num_threads()
    content = graph.copy().model().SerializeToString()
    return onnxruntime.InferenceSession(content, options, providers=["CPUExecutionProvider"])
