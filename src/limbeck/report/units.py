"""What is counted and timed, as the Records of a page have it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from limbeck.core.record import Record, Shape
from limbeck.core.task import Units
from limbeck.report import numbers as n


def units(record: Record) -> Units:
    """Of the task; the documents of a language model may be chats."""
    found = record.task.units
    return replace(found, source="chat", repeated="chat") if "messages" in record.data.columns else found


def in_blocks(record: Record) -> bool:
    """Running text, cut into blocks; a split then counts blocks and tokens."""
    return record.task.units.row == "block"


def beam_of(records: Sequence[Record]) -> int:
    """The beam with which all of these were tested; 0 where it is not known or not one."""
    beams = {int((record.knobs.get("translate") or {}).get("test_beam", 0)) for record in records}
    return beams.pop() if len(beams) == 1 else 0


def decoding(records: Sequence[Record]) -> str:
    """How the timed text comes about, where it is decoded."""
    beam = beam_of(records)
    return f"decoded with a beam of {beam}" if beam > 1 else "decoded greedily" if beam else "decoded token by token"


def layers(shape: Shape) -> str:
    """3 layers, or 6+2 of an encoder and a decoder."""
    if not shape.decoder_layers:
        return n.plural(shape.layers, "layer")
    return f"{shape.layers}+{shape.decoder_layers} layers"


def block_length(record: Record) -> int:
    """Tokens of a test block, on average; 0 where that is not known."""
    split = record.data.splits.get("test") or record.data.splits.get("dev")
    return round(split.labelled / split.rows) if in_blocks(record) and split and split.rows else 0


def timed(records: Sequence[Record]) -> str:
    """What one measurement of speed takes in: a sentence, a question with its text, or a block and how long it is."""
    inputs = {record.task.units.input for record in records}
    if inputs != {"block"}:
        return inputs.pop() if len(inputs) == 1 else "text"
    lengths = {block_length(record) for record in records}
    about = lengths.pop() if len(lengths) == 1 else 0
    return f"block of about {n.plural(about, 'token')}" if about else "block"


def throughput(records: Sequence[Record]) -> str:
    inputs = {record.task.units.input for record in records}
    return f"{inputs.pop() if len(inputs) == 1 else 'text'}s/s"
