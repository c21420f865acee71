"""The folder that an export leaves: which files it has, what `limbeck.json` says, and whether all of it is whole.

model.onnx  config.json  tokenizer.json  tokenizer_config.json  limbeck.json (sealed, with checksums of the others)

A static model has static.safetensors in the place of model.onnx: NumPy runs it.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from limbeck_runtime.checksum import FILES, DamagedError, check_files, read_sealed

FACTS, GRAPH, TOKENIZER, TOKENIZER_CONFIG = "limbeck.json", "model.onnx", "tokenizer.json", "tokenizer_config.json"
VECTORS, CONFIG = "static.safetensors", "config.json"
NUMPY, ONNX = "NumPy", "ONNX Runtime"  # engines
FORMAT = 1
TEXT_KINDS = ("classify", "multilabel", "regress")
KINDS = (*TEXT_KINDS, "tag", "answer", "mask-fill")
_AGAIN = "copy the folder again, or export the model again with `limbeck export`"


class UnusableError(Exception):
    """A folder, a file or a text that cannot be used: what is wrong, and what to do."""

    def __init__(self, problem: str, remedy: str = "") -> None:
        self.problem, self.remedy = problem, remedy
        super().__init__(f"{problem}\n  → {remedy}" if remedy else problem)


@dataclass(frozen=True)
class Facts:
    """What a model is for, and how its texts become inputs."""

    kind: str
    labels: tuple[str, ...]
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    max_length: int  # tokens read of a text at most
    pad_id: int
    pad_type_id: int = 0
    padding_side: str = "right"
    truncation_side: str = "right"
    mask_token: str = ""  # of a masked language model
    precision: str = ""
    parameters: tuple[int, ...] = ()  # all, and those outside the tables of embeddings
    parent: str = ""  # fingerprint of the model it was made from
    engine: str = ONNX
    files: Mapping[str, str] = field(default_factory=dict)  # file → checksum


def is_exported(folder: Path | str) -> bool:
    """Whether a folder holds a model for ONNX Runtime or NumPy, whole or not."""
    folder = Path(folder).expanduser()
    return (folder / GRAPH).is_file() or (folder / VECTORS).is_file()


def read_facts(folder: Path | str, check: bool = True) -> Facts:
    """What the folder says of itself; refuses one that is damaged, of another program, or of a later format.

    Without `check`, the other files are not read."""
    folder = Path(folder).expanduser()
    _refuse_no_export(folder)
    try:
        content = read_sealed(folder / FACTS)
    except DamagedError as error:
        raise UnusableError(f"{folder / FACTS} is damaged: {error}", _AGAIN) from None
    if content.get("format") != FORMAT:
        later = "a later version of Limbeck wrote it" if isinstance(content.get("format"), int) else "it names none"
        raise UnusableError(f"{folder} has not the format {FORMAT} that is read here: {later}", _AGAIN)
    if content.get("kind") not in KINDS:
        raise UnusableError(
            f"{folder} is for the task {content.get('kind')!r}, which this runtime does not have",
            f"use a model that is exported for one of {', '.join(KINDS)}",
        )
    try:
        facts = _facts(content, _settings(folder))
    except (KeyError, TypeError, ValueError) as error:
        raise UnusableError(f"{folder / FACTS} is incomplete: {type(error).__name__} {error}", _AGAIN) from None
    if check:
        try:
            needed = (VECTORS, CONFIG) if facts.engine == NUMPY else (GRAPH,)
            check_files(folder, {**dict.fromkeys((*needed, TOKENIZER), ""), **facts.files})  # they must be among them
        except DamagedError as error:
            raise UnusableError(f"{folder} is damaged: {error}", _AGAIN) from None
    return facts


def _refuse_no_export(folder: Path) -> None:
    if not folder.is_dir():
        what = "is a file" if folder.exists() else "is not there"
        raise UnusableError(
            f"{folder} {what}", f"give the folder that `limbeck export` wrote, with its {GRAPH} or {VECTORS}"
        )
    if not is_exported(folder):
        ours = (folder / FACTS).is_file() and not (folder / "model.bin").is_file()
        lacking = f"{GRAPH} is gone" if ours else f"no {GRAPH}"
        if ours and _engine(folder) == NUMPY:
            lacking = f"{VECTORS} is gone"
        problem = f"{folder} is {'damaged' if ours else 'not an exported model'}: {lacking}"
        raise UnusableError(
            problem, _AGAIN if ours else "export it first: limbeck export MODEL --to onnx-int8 --out DIR"
        )
    if not (folder / FACTS).is_file():
        raise UnusableError(f"{folder} has no {FACTS}: Limbeck did not export it, or not all of it was copied", _AGAIN)


def _engine(folder: Path) -> str:
    try:
        return str(read_sealed(folder / FACTS).get("engine", ONNX))
    except DamagedError:
        return ONNX


def _facts(content: Mapping[str, Any], settings: Mapping[str, Any]) -> Facts:
    """From limbeck.json and the settings of the tokenizer, which say what the former leaves out."""

    def named(key: str, default: str) -> str:
        return str(content.get(key) or settings.get(key) or default)

    mask = content.get("mask_token") or settings.get("mask_token") or ""
    facts = Facts(
        kind=content["kind"],
        labels=tuple(map(str, content["labels"])),
        inputs=tuple(map(str, content["inputs"])),
        outputs=tuple(map(str, content["outputs"])),
        max_length=int(content["max_length"]),
        pad_id=int(content["pad_id"]),
        pad_type_id=int(content.get("pad_type_id", 0)),
        padding_side=named("padding_side", "right"),
        truncation_side=named("truncation_side", "right"),
        mask_token=str(mask["content"] if isinstance(mask, dict) else mask),
        precision=str(content.get("precision", "")),
        parameters=tuple(map(int, content.get("parameters") or ())),
        parent=str(content.get("parent", "")),
        engine=str(content.get("engine", ONNX)),
        files={str(name): str(checksum) for name, checksum in content[FILES].items()},
    )
    if facts.max_length < 1:
        raise ValueError(f"max_length {facts.max_length}")
    return facts


def _settings(folder: Path) -> dict[str, Any]:
    """Of the tokenizer; what is damaged is found by its checksum."""
    try:
        return dict(json.loads((folder / TOKENIZER_CONFIG).read_text(encoding="utf-8")))
    except (OSError, ValueError, RecursionError):
        return {}
