"""Running text in plain files: what ends a document, and which files of a folder belong to which split."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Literal

from limbeck.core.errors import DataError
from limbeck.data.read import SUFFIXES, decode, missing, suffix_of, unzipped
from limbeck.data.settings import DataSettings
from limbeck.data.sources import IN_NAME, SPLITS, stem
from limbeck.data.table import Table

Rule = Literal["blank-line", "line", "file"]

PLAIN = (".txt", ".text", ".raw", ".md")
_BLANK_LINE = re.compile(r"\n[^\S\n]*\n")


def is_plain(path: Path) -> bool:
    """Whether a file holds running text. One without a suffix does; what is not there is told apart by its name."""
    return suffix_of(path) in PLAIN or (not suffix_of(path) and path.is_file())


def files_by_split(folder: Path) -> dict[str, list[Path]]:
    """The text files of a folder for train, dev and test; all for train if none is named after a split.

    Nothing if the folder holds tables: a README.md beside them is no corpus."""
    files = sorted(path for path in folder.iterdir() if path.is_file() and not path.name.startswith("."))
    if any(suffix_of(path) in SUFFIXES and suffix_of(path) not in PLAIN for path in files):
        return {}
    plain = [path for path in files if suffix_of(path) in PLAIN]
    found: dict[str, list[Path]] = {}
    for path in plain:
        match = IN_NAME.search(stem(path))
        if match:
            found.setdefault(SPLITS[match[1]], []).append(path)
    if found and "train" not in found:
        names = ", ".join(path.name for paths in found.values() for path in paths)
        raise DataError(
            f"{folder} has no train file, but {names}",
            "name one train.txt; or give the train file itself, and the others with --data.dev and --data.test",
        )
    if not found:
        return {"train": plain} if plain else {}
    return {split: [path for path in paths if stem(path) in SPLITS] or paths for split, paths in found.items()}


def unused(files: dict[str, list[Path]]) -> list[str]:
    """A note on the text files beside those of the splits, where a folder has splits."""
    if len(files) < 2:
        return []
    taken = [path for paths in files.values() for path in paths]
    folder = taken[0].parent
    left = sorted(path.name for path in folder.iterdir() if suffix_of(path) in PLAIN and path not in taken)
    return [f"{folder}: not used: {', '.join(left)}"] if left else []


def read_text(path: Path, settings: DataSettings) -> str:
    """The whole of a file, with one kind of line end. Where lines end otherwise, a carriage return is a space."""
    if not path.exists():
        raise missing(path)
    text = decode(unzipped(path), str(path), settings.encoding).replace("\r\n", "\n")
    return text.replace("\r", " " if "\n" in text else "\n")


def rule_of(texts: Sequence[str]) -> Rule:
    return "blank-line" if any(_BLANK_LINE.search(text.strip()) for text in texts) else "line"


def text_table(texts: Sequence[str], rule: Rule, source: str) -> Table:
    """One row per document. The end of a file ends a document under every rule."""
    found = [document for text in texts for document in _documents(text, rule)]
    if not found:
        raise DataError(f"{source} is empty", "give a file with text in it")
    lines = [line for line, _ in found] if len(texts) == 1 else ()
    return Table(source, {"text": [document for _, document in found]}, lines)


def _documents(text: str, rule: Rule) -> list[tuple[int, str]]:
    """Each document with the line it starts on."""
    if rule == "file":
        return [(1, text.strip("\n"))] if text.strip() else []
    lines = list(enumerate(text.split("\n"), 1))
    if rule == "line":
        return [(number, line) for number, line in lines if line.strip()]
    found: list[tuple[int, str]] = []
    paragraph: list[str] = []
    for number, line in [*lines, (len(lines) + 1, "")]:
        if line.strip():
            paragraph.append(line)
        elif paragraph:
            found.append((number - len(paragraph), "\n".join(paragraph)))
            paragraph = []
    return found
