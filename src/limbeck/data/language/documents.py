"""Running text or chats from any source, as documents in train, dev and test."""

from __future__ import annotations

import difflib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from limbeck.core.errors import DataError
from limbeck.core.record import DataCard, SplitCard
from limbeck.data.columns import NO_LABELS, Roles, choose
from limbeck.data.language.cut import cut_documents, document_text
from limbeck.data.settings import BlockSettings, DataSettings
from limbeck.data.sources.chats import Chat, chat_column, select_chats
from limbeck.data.sources.files import read_file
from limbeck.data.sources.gather import NAMES, gather
from limbeck.data.sources.tables import Table
from limbeck.data.sources.text import Rule, is_plain, read_text, rule_of, text_files, text_table, unused
from limbeck.data.splits import Division, RowSelection, count_repeats, in_order, overlaps, whole_as_test, with_empty
from limbeck.data.text.rows import TextRow, select_texts

_RULES: dict[Rule, str] = {"blank-line": "what stands between blank lines", "line": "every line", "file": "every file"}


@dataclass(frozen=True)
class Documents:
    parts: dict[str, RowSelection[TextRow]]  # train, dev, test
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
    for part in given.values():
        for row in part.rows:
            _ = row.split_hash  # refuses half characters here, where the row is known
    if only_test:
        given = whole_as_test(given, "", labelled=False)
        parts, more = with_empty(given), list[str]()
    else:
        parts, more = cut_documents(given, settings, chats)
    card = Division(parts, given).card(
        columns | ({"text": _RULES[rule]} if rule else {}),
        {name: SplitCard(source=part.source, rows=len(part), labelled=0) for name, part in parts.items()},
        **count_repeats(([row.key for row in part.rows], [None] * len(part)) for part in parts.values()),
        notes=[
            *notes,
            *more,
            *overlaps({split: [row.key for row in part.rows] for split, part in parts.items()}, "document"),
        ],
    )
    return Documents(parts, chats, card)


def _tables(
    settings: DataSettings, text: BlockSettings, data: object | None
) -> tuple[dict[str, Table], Rule | None, list[str]]:
    """A table per split that is given, what ends a document if train is plain text, and notes."""
    source = settings.train if data is None else data
    files = _text_files(source)
    tables: dict[str, Table] = {}
    notes = unused(files)
    if not files:
        given = gather(settings.but(dev="", test=""), source if data is None else _as_rows(data))
        tables, notes = dict(given.tables), list(given.notes)
    plain_train = bool(files)
    for split, flag in (("dev", settings.dev), ("test", settings.test)):
        path = Path(flag).expanduser()
        if flag and is_plain(path):
            files[split] = [path]
        elif flag:
            files.pop(split, None)
            tables[split] = read_file(path, settings)
    texts = {split: [read_text(path, settings) for path in paths] for split, paths in files.items()}
    rule = _rule(text, next(iter(texts.values()), []))
    for split, paths in files.items():
        name = str(paths[0]) if len(paths) == 1 else f"{paths[0].parent} ({len(paths)} text files)"
        tables[split] = text_table(texts[split], rule, name)
    return in_order(tables), rule if plain_train else None, notes


def _text_files(source: object) -> dict[str, list[Path]]:
    if not isinstance(source, (str, Path)) or not str(source):
        return {}
    path = Path(source).expanduser()
    if path.is_dir():
        return text_files(path)
    return {"train": [path]} if is_plain(path) else {}


def _rule(text: BlockSettings, texts: Sequence[str]) -> Rule:
    """Train decides for all splits."""
    if text.documents != "auto":
        return text.documents
    return "blank-line" if text.pairs else rule_of(texts)


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
) -> tuple[dict[str, RowSelection[TextRow]], dict[str, str]]:
    """The documents of each split, and the columns of train: text and pair, or messages."""
    _present(tables["train"], "--text-column", settings.text_column)
    _present(tables["train"], "--blocks.messages-column", text.messages_column)
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
        roles[split] = choose(table, settings.but(label_column=NO_LABELS), follow=roles.get("train"))
    found = {split: select_texts(table, roles[split]) for split, table in tables.items()}
    pair = roles["train"].pair
    return found, {"text": roles["train"].text, **({"pair": pair} if pair else {})}


def _present(table: Table, flag: str, name: str) -> None:
    if not name or name in table.columns:
        return
    close = difflib.get_close_matches(name, table.columns, n=1)
    hint = f"did you mean {flag} {close[0]}?" if close else f"pass {flag} NAME"
    raise DataError(f"{table.source} has no column '{name}'; its columns: {table.listed}", hint)
