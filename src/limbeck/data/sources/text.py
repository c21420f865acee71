"""Running text in plain files: what ends a document, and which files of a folder belong to which split."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Literal

from limbeck.core.errors import DataError
from limbeck.data.settings import DataSettings
from limbeck.data.sources.files import SUFFIXES, decode, missing, suffix_of, unzipped
from limbeck.data.sources.gather import files_by_split, files_in
from limbeck.data.sources.tables import Table

Rule = Literal["blank-line", "line", "file"]

PLAIN = (".txt", ".text", ".raw", ".md")
_BLANK_LINE = re.compile(r"\n[^\S\n]*\n")


def is_plain(path: Path) -> bool:
    """Whether a file holds running text, by its suffix; an existing file without a suffix does."""
    return suffix_of(path) in PLAIN or (not suffix_of(path) and path.is_file())


def text_files(folder: Path) -> dict[str, list[Path]]:
    """The text files of a folder for train, dev and test; all for train if none is named after a split.

    Nothing if the folder holds tables: a README.md beside them is no corpus."""
    if files_in(folder, set(SUFFIXES) - set(PLAIN)):
        return {}
    plain = files_in(folder, PLAIN)
    found = files_by_split(plain)
    if found and "train" not in found:
        names = ", ".join(path.name for paths in found.values() for path in paths)
        raise DataError(
            f"{folder} has no train file, but {names}",
            "name one train.txt; or give the train file itself, and the others with --data.dev and --data.test",
        )
    return found or ({"train": plain} if plain else {})


def unused(files: dict[str, list[Path]]) -> list[str]:
    """A note on the text files beside those of the splits, where a folder has splits."""
    if len(files) < 2:
        return []
    used = [path for paths in files.values() for path in paths]
    folder = used[0].parent
    left = sorted(path.name for path in folder.iterdir() if suffix_of(path) in PLAIN and path not in used)
    return [f"{folder}: not used: {', '.join(left)}"] if left else []


def read_text(path: Path, settings: DataSettings) -> str:
    """A file whose lines end in line feeds. In a file that has them, a lone carriage return is a space."""
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
