"""int8 and int4 for ONNX Runtime, weight by weight, so that what suffers can stay float.

int8: products in integers, the activations quantised as they come. Weights have a scale for each output and seven bits:

    q = clip(round(w / s), −63, 63)     s = c·max|w| / 63, c ≤ 1 as the squared error is least

Eight would overflow the 16 bits in which a processor without VNNI adds two products, silently; with seven, a file
answers the same on every machine. int4: weights in blocks of 32 with a scale each, multiplied out as they are read.
Tables of embeddings have eight (or four) bits and a scale for each row (or block): they are looked up, not added up.
"""

from __future__ import annotations

from collections.abc import Collection

import numpy as np
from onnx import NodeProto

from limbeck.exporters.onnx_graph import CONTRIB, LINEAR, Array, Graph, attribute

LEVELS = 63  # of a weight in int8, on each side of 0
BLOCK = 32  # weights of a scale in int4
SMALLEST = 16  # outputs of a product, or rows of a table, below which it stays float: labels, segments
_CLIPS = np.linspace(1.0, 0.7, 13)


def quantizable(graph: Graph) -> list[str]:
    """The outputs of the nodes that can be quantised: their names."""
    return [node.output[0] for node in graph.nodes if _table(graph, node) is not None]


def quantize(graph: Graph, bits: int, leave: Collection[str] = ()) -> None:
    """In place; the nodes that make what is in `leave` stay float."""
    for node in list(graph.nodes):
        table = _table(graph, node)
        if table is None or node.output[0] in leave:
            continue
        graph.remove(node)
        if node.op_type == "Gather":
            _look_up(graph, node, table, bits)
        elif node.op_type == "LSTM":
            _recurrent(graph, node)
        elif bits == 4:
            _multiply_blocks(graph, node, table)
        else:
            _multiply(graph, node, table)
    graph.prune()


def _table(graph: Graph, node: NodeProto) -> Array | None:
    """The weights that a node multiplies by or looks up, if they are worth it."""
    place = {"Gather": 0, LINEAR: 1, "LSTM": 1}.get(node.op_type)
    table = graph.weights.get(node.input[place]) if place is not None else None
    if table is None or table.dtype != np.float32 or table.ndim < 2:
        return None
    size = table.shape[1 if node.op_type == LINEAR else 0] if table.ndim == 2 else table.shape[1]
    looked_up = node.op_type != "Gather" or (table.ndim == 2 and attribute(node, "axis", 0) == 0)
    return table if size >= SMALLEST and looked_up else None


def rounded(rows: Array, levels: int, low: int | None = None) -> tuple[Array, Array]:
    """[n, k] as integers, and the scale of each row [n]: of several clips, that of the least squared error."""
    low = -levels if low is None else low
    largest = np.abs(rows).max(1)
    best = np.where(largest > 0, largest, 1.0) / levels
    least = np.full(len(rows), np.inf)
    for clip in _CLIPS:
        scale = np.where(largest > 0, largest, 1.0) * clip / levels
        error = np.square(np.clip(np.rint(rows / scale[:, None]), low, levels) * scale[:, None] - rows).sum(1)
        better = error < least
        best, least = np.where(better, scale, best), np.where(better, error, least)
    best = best.astype(np.float32)
    return np.clip(np.rint(rows / best[:, None]), low, levels), best


def _multiply(graph: Graph, node: NodeProto, table: Array) -> None:
    values, scales = rounded(table.T, LEVELS)
    names = [
        graph.weight(values.T.astype(np.int8), "weight"),
        graph.weight(scales, "scale"),
        graph.weight(np.zeros(len(scales), np.int8), "zero"),
    ]
    graph.add("DynamicQuantizeMatMul", [node.input[0], *names, node.input[2]], list(node.output), domain=CONTRIB)


def _blocks(rows: Array, bits: int, block: int) -> tuple[Array, Array]:
    """[n, k] as unsigned integers with 0 in the middle [n, blocks, block], and the scales [n, blocks]."""
    count, width = rows.shape
    blocks = -(-width // block)
    padded = np.zeros((count, blocks * block), np.float32)
    padded[:, :width] = rows
    middle = 2 ** (bits - 1)
    values, scales = rounded(padded.reshape(-1, block), middle - 1, -middle)
    return (values + middle).astype(np.uint8).reshape(count, blocks, block), scales.reshape(count, blocks)


def _packed(values: Array) -> Array:
    """Two of four bits in a byte, the first below."""
    return values[..., ::2] | (values[..., 1::2] << 4)


def _multiply_blocks(graph: Graph, node: NodeProto, table: Array) -> None:
    inputs, outputs = table.shape
    values, scales = _blocks(table.T, 4, BLOCK)
    names = [graph.weight(_packed(values), "weight"), graph.weight(scales, "scale")]
    bias = ["", "", node.input[2]] if node.input[2] else []  # after zero points and an order of groups
    sizes = {"K": inputs, "N": outputs, "bits": 4, "block_size": BLOCK, "accuracy_level": 4}
    graph.add("MatMulNBits", [node.input[0], *names, *bias], list(node.output), domain=CONTRIB, **sizes)


def _look_up(graph: Graph, node: NodeProto, table: Array, bits: int) -> None:
    width = table.shape[1]
    bits = 8 if width % 2 else bits
    # One scale for each row where there are eight bits; a block is a power of two, of 16 or more.
    block = BLOCK if bits == 4 else max(16, 1 << (width - 1).bit_length())
    values, scales = _blocks(table, bits, block)
    values = values.reshape(len(table), -1)[:, :width]
    data = graph.weight(_packed(values) if bits == 4 else values, "table")
    inputs = [data, node.input[1], graph.weight(scales, "scale")]
    how = {"gather_axis": 0, "quantize_axis": 1, "block_size": block, "bits": bits}
    graph.add("GatherBlockQuantized", inputs, list(node.output), domain=CONTRIB, **how)


def _recurrent(graph: Graph, node: NodeProto) -> None:
    """Both matrices of an LSTM [directions, 4·hidden, in] in int8, whatever the bits: there is no int4 of it."""
    inputs, parts = list(node.input), []
    inputs += [""] * (8 - len(inputs))
    for place in (1, 2):
        table = graph.weights[inputs[place]]
        directions, outputs, width = table.shape
        values, scales = rounded(table.reshape(-1, width), LEVELS)
        turned = values.reshape(directions, outputs, width).transpose(0, 2, 1).astype(np.int8)
        inputs[place] = graph.weight(turned, "weight")
        shape = (directions, outputs)
        parts += [graph.weight(scales.reshape(shape), "scale"), graph.weight(np.zeros(shape, np.int8), "zero")]
    graph.add(
        "DynamicQuantizeLSTM",
        [*inputs, *parts],
        list(node.output),
        domain=CONTRIB,
        direction=attribute(node, "direction", b"forward"),
        hidden_size=attribute(node, "hidden_size"),
    )
