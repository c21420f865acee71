"""Running text or chats from any source, as documents in train, dev and test."""

from __future__ import annotations

import difflib
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path
from typing import Literal

import numpy as np

from limbeck.core.errors import DataError
from limbeck.core.record import DataCard, SplitCard
from limbeck.data.columns import NO_LABELS, Roles, check_column, choose
from limbeck.data.language.chats import Chat, chat_column, select_chats
from limbeck.data.settings import BlockSettings, DataSettings
from limbeck.data.sources.files import PLAIN, SUFFIXES, format_of, read_file, read_text, suffix_of
from limbeck.data.sources.gather import NAMES, files_by_split, files_in, gather
from limbeck.data.sources.tables import Table
from limbeck.data.splits import (
    Division,
    RowSelection,
    cut_by_hash,
    cut_missing,
    in_order,
    measured_split,
    missing_splits,
)
from limbeck.data.text.rows import TextRow, select_texts

Rule = Literal["blank-line", "line", "file"]
Selection = RowSelection[TextRow]
Place = tuple[int, int]  # document, character

_RULES: dict[Rule, str] = {"blank-line": "what stands between blank lines", "line": "every line", "file": "every file"}
_BLANK_LINE = re.compile(r"\n[^\S\n]*\n")
_FEWEST = 20  # documents; fewer are cut as one long text
_LINE = 2000  # characters within which a cut waits for the end of a line


@dataclass(frozen=True)
class Documents:
    parts: dict[str, Selection]  # train, dev, test
    chats: bool
    card: DataCard  # its splits count documents

    def texts(self, split: str) -> list[str]:
        return [document_text(row) for row in self.parts[split].rows]

    def messages(self, split: str) -> list[Chat]:
        return [json.loads(row.text) for row in self.parts[split].rows]

    def where(self, split: str, index: int) -> str:
        return self.parts[split].rows[index].where


def read_documents(
    settings: DataSettings, text: BlockSettings, data: object | None = None, only_test: bool = False
) -> Documents:
    """Reads, finds the text, splits. Nothing is left out uncounted; equal documents are counted and kept.

    With `only_test` the whole file is the test split, and train and dev are empty."""
    tables, rule, notes = _tables(settings, text, data)
    given, columns = _select(tables, settings, text)
    chats = "messages" in columns
    if only_test:
        given = {"test": given[measured_split(given, labelled=False)]}
    parts, more = _cut_documents(given, settings, chats)
    card = Division(parts, given).card(
        columns | ({"text": _RULES[rule]} if rule else {}),
        {name: SplitCard(source=part.source, rows=len(part), labelled=0) for name, part in parts.items()},
        "document",
        {split: [row.key for row in part.rows] for split, part in parts.items()},
        notes=[*notes, *more],
    )
    learnt = {row.key for row in parts["train"].rows}
    return Documents(parts, chats, card.but(overlap=sum(row.key in learnt for row in parts["test"].rows)))


def _tables(
    settings: DataSettings, text: BlockSettings, data: object | None
) -> tuple[dict[str, Table], Rule | None, list[str]]:
    """A table per split that is given, what ends a document if train is plain text, and notes."""
    source = settings.train if data is None else data
    files = _text_files(source)
    tables: dict[str, Table] = {}
    notes = _unused(files)
    if not files:
        given = gather(settings.model_copy(update={"dev": "", "test": ""}), source if data is None else _as_rows(data))
        tables, notes = dict(given.tables), list(given.notes)
    plain_train = bool(files)
    for split, flag in (("dev", settings.dev), ("test", settings.test)):
        path = Path(flag).expanduser()
        if flag and _is_plain(path):
            files[split] = [path]
        elif flag:
            files.pop(split, None)
            tables[split] = read_file(path, settings)
    texts = {split: [read_text(path, settings) for path in paths] for split, paths in files.items()}
    rule = _rule(text, next(iter(texts.values()), []))
    for split, paths in files.items():
        name = str(paths[0]) if len(paths) == 1 else f"{paths[0].parent} ({len(paths)} text files)"
        tables[split] = _text_table(texts[split], rule, name)
    return in_order(tables), rule if plain_train else None, notes


def _text_files(source: object) -> dict[str, list[Path]]:
    if not isinstance(source, (str, Path)) or not str(source):
        return {}
    path = Path(source).expanduser()
    if path.is_dir():
        return _files_of_folder(path)
    return {"train": [path]} if _is_plain(path) else {}


def _rule(text: BlockSettings, texts: Sequence[str]) -> Rule:
    """Train decides for all splits."""
    if text.documents != "auto":
        return text.documents
    blank = text.pairs or any(_BLANK_LINE.search(one.strip()) for one in texts)
    return "blank-line" if blank else "line"


def _as_rows(data: object) -> object:
    """Bare texts and bare chats, also inside named splits, get a column of their own."""
    if isinstance(data, Mapping) and any(NAMES.get(str(key).lower()) == "train" for key in data):
        return {key: _as_rows(value) for key, value in data.items()}
    if isinstance(data, (list, tuple)) and data:
        if all(isinstance(item, str) for item in data):
            return [{"text": item} for item in data]
        if all(isinstance(item, (list, tuple)) for item in data):
            return [{"messages": item} for item in data]
    return data


def _select(
    tables: dict[str, Table], settings: DataSettings, text: BlockSettings
) -> tuple[dict[str, Selection], dict[str, str]]:
    """The documents of each split, and the columns of train: text and pair, or messages."""
    for flag, name in (("--text-column", settings.text_column), ("--blocks.messages-column", text.messages_column)):
        close = difflib.get_close_matches(name, tables["train"].columns, n=1)
        check_column(tables["train"], name, f"did you mean {flag} {close[0]}?" if close else f"pass {flag} NAME")
    columns = {split: chat_column(table, settings, text) for split, table in tables.items()}
    for split, column in columns.items():
        if bool(column) != bool(columns["train"]):
            held = {True: "chats", False: "plain text"}
            raise DataError(
                f"{tables[split].source} holds {held[bool(column)]}, but train holds {held[bool(columns['train'])]}",
                "give every split the same columns",
            )
    if columns["train"]:
        found = {split: select_chats(table, columns[split]) for split, table in tables.items()}
        return found, {"messages": columns["train"]}
    roles: dict[str, Roles] = {}
    for split, table in tables.items():
        roles[split] = choose(table, settings.model_copy(update={"label_column": NO_LABELS}), follow=roles.get("train"))
    found = {split: select_texts(table, roles[split]) for split, table in tables.items()}
    pair = roles["train"].pair
    return found, {"text": roles["train"].text, **({"pair": pair} if pair else {})}


def _is_plain(path: Path) -> bool:
    """Whether a file holds running text: by its suffix, or, if that says nothing, unless it is JSON or Parquet."""
    known = suffix_of(path) in (*PLAIN, *SUFFIXES) or not path.is_file()
    return suffix_of(path) in PLAIN if known else format_of(path) not in (".json", ".parquet")


def _files_of_folder(folder: Path) -> dict[str, list[Path]]:
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


def _unused(files: dict[str, list[Path]]) -> list[str]:
    """A note on the text files beside those of the splits, where a folder has splits."""
    if len(files) < 2:
        return []
    used = [path for paths in files.values() for path in paths]
    folder = used[0].parent
    left = sorted(path.name for path in folder.iterdir() if suffix_of(path) in PLAIN and path not in used)
    return [f"{folder}: not used: {', '.join(left)}"] if left else []


def _text_table(texts: Sequence[str], rule: Rule, source: str) -> Table:
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


def _cut_documents(
    parts: Mapping[str, Selection], settings: DataSettings, chats: bool
) -> tuple[dict[str, Selection], list[str]]:
    """By a hash of the document, as labelled rows are: a text keeps its split, and equal ones are never cut apart.

    Few documents are cut as one text, in consecutive parts; a note says so."""
    missing = missing_splits(parts, settings, len(parts["train"])) if "train" in parts else {}
    if not missing:
        return cut_missing(parts, settings, "document"), []
    train = parts["train"]
    made = cut_by_hash(train, missing, settings, "document")
    notes = []
    if len(train) < _FEWEST or not all(map(len, made.values())):
        made = _whole_ends(train, missing) if chats else _text_ends(train, missing)
        notes = [
            f"{train.source} has {len(train)} {'chats' if chats else 'documents'}, too few to draw from: "
            f"{' and '.join(missing)} {'are' if len(missing) > 1 else 'is'} cut from its end"
        ]
    return in_order({**parts, **made}), notes


def _whole_ends(train: Selection, share: Mapping[str, float]) -> dict[str, Selection]:
    """Consecutive parts that keep every document whole, at least one each."""
    counts = [max(1, round(len(train) * part)) for part in share.values()]
    rest = len(train) - sum(counts)
    if rest < 1:
        raise DataError(
            f"{train.source} has {len(train)} usable rows: too few to cut {' and '.join(share)} from",
            "give more rows, or files with --data.dev and --data.test",
        )
    places = np.cumsum([0, rest, *counts]).tolist()
    return {
        split: train.take(range(start, stop), _end_of(train, split))
        for split, (start, stop) in zip(("train", *share), pairwise(places), strict=True)
    }


def _text_ends(train: Selection, share: Mapping[str, float]) -> dict[str, Selection]:
    """Consecutive parts of the text, cut at the end of a line or a word."""
    texts = [document_text(row) for row in train.rows]
    ends = np.cumsum([len(text) for text in texts])
    after = 1 - sum(share.values())
    places: list[Place] = [(0, 0)]
    for part in share.values():
        places.append(_place(texts, ends, round(after * float(ends[-1]))))
        after += part
    places.append((len(texts), 0))
    return {
        split: _between(train, texts, start, stop, _end_of(train, split))
        for split, (start, stop) in zip(("train", *share), pairwise(places), strict=True)
    }


def _end_of(train: Selection, split: str) -> str:
    return train.source if split == "train" else f"cut from the end of {train.source}"


def _place(texts: Sequence[str], ends: np.ndarray, character: int) -> Place:
    """Where a cut near this character of the whole text breaks no line, or at least no word."""
    document = min(int(np.searchsorted(ends, character, side="right")), len(texts) - 1)
    text = texts[document]
    start = character - (int(ends[document]) - len(text))
    for space, within in (("\n", _LINE), (" ", len(text))):
        found = text.find(space, start, start + within)
        if found >= 0:
            return document, found + 1
    return document, start


def _between(train: Selection, texts: Sequence[str], start: Place, stop: Place, source: str) -> Selection:
    rows = []
    for document in range(start[0], min(stop[0] + 1, len(texts))):
        first = start[1] if document == start[0] else 0
        last = stop[1] if document == stop[0] else None
        piece = texts[document][first:last].strip("\n")
        if piece.strip():
            rows.append(replace(train.rows[document], text=piece, pair=""))
    return replace(train, rows=rows, source=source)


def document_text(row: TextRow) -> str:
    """Plain text; of a pair of texts, both, one under the other."""
    return "\n".join(filter(None, row.key))
