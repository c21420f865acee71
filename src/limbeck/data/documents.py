"""Running text or chats from any source, as documents in train, dev and test."""

from __future__ import annotations

import difflib
import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from limbeck.core.errors import DataError
from limbeck.core.record import DataCard, SplitCard
from limbeck.data.chats import Chat, chat_column, chat_draft
from limbeck.data.columns import NO_LABELS, Roles, choose
from limbeck.data.cut import cut
from limbeck.data.draft import Draft, draft, shares
from limbeck.data.language import BlockSettings
from limbeck.data.read import read_file
from limbeck.data.settings import DataSettings
from limbeck.data.sources import SPLITS, gather
from limbeck.data.table import Table
from limbeck.data.text_files import Rule, files_by_split, is_plain, read_text, rule_of, text_table, unused

_ORDER = ("train", "dev", "test")
_NAMES: dict[Rule, str] = {"blank-line": "what stands between blank lines", "line": "every line", "file": "every file"}


@dataclass(frozen=True)
class Documents:
    parts: dict[str, Draft]  # train, dev, test
    chats: bool
    card: DataCard  # the rows of its splits are documents

    def texts(self, split: str) -> list[str]:
        """Plain text; of a pair of texts, both, one under the other."""
        return ["\n".join(filter(None, key)) for key in self.parts[split].keys]

    def talks(self, split: str) -> list[Chat]:
        return [json.loads(text) for text, _ in self.parts[split].keys]

    def where(self, split: str, index: int) -> str:
        part = self.parts[split]
        return part.table.where(part.rows[index])


def read_documents(settings: DataSettings, text: BlockSettings, data: object | None = None) -> Documents:
    """Reads, finds the text, splits. Nothing is left out uncounted; equal documents are counted and kept."""
    tables, rule, notes = _tables(settings, text, data)
    drafts, chats = _drafts(tables, settings, text)
    for part in drafts.values():
        shares(part)  # refuses half characters here, where the row is known
    parts, more = cut(drafts, settings, chats)
    train = drafts["train"]
    text_from = _NAMES[rule] if rule else train.roles.text
    columns = {"messages" if chats else "text": text_from, "pair": train.roles.pair}
    card = DataCard(
        source=train.table.source,
        columns={role: column for role, column in columns.items() if column},
        read=sum(len(part.table) + part.table.blank for part in drafts.values()),
        dropped=dict(sum((part.dropped for part in drafts.values()), Counter())),
        duplicates=sum(len(part) - len(set(part.keys)) for part in parts.values()),
        splits={name: SplitCard(source=part.source, rows=len(part), labelled=0) for name, part in parts.items()},
        notes=[*notes, *more, *_overlaps(parts)],
    )
    return Documents(parts, chats, card)


def _tables(
    settings: DataSettings, text: BlockSettings, data: object | None
) -> tuple[dict[str, Table], Rule | None, list[str]]:
    """A table per split that is given, the rule that ended the documents of a plain train file, and notes."""
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
    ordered = dict(sorted(tables.items(), key=lambda item: _ORDER.index(item[0])))
    return ordered, rule if plain_train else None, notes


def _text_files(source: object) -> dict[str, list[Path]]:
    if not isinstance(source, (str, Path)) or not str(source):
        return {}
    path = Path(source).expanduser()
    if path.is_dir():
        return files_by_split(path)
    return {"train": [path]} if is_plain(path) else {}


def _rule(text: BlockSettings, texts: Sequence[str]) -> Rule:
    """Train decides for all splits."""
    if text.documents != "auto":
        return text.documents
    return "blank-line" if text.pairs else rule_of(texts)


def _as_rows(data: object) -> object:
    """Bare texts and bare chats, also inside named splits, get a column of their own."""
    if isinstance(data, Mapping) and any(SPLITS.get(str(key).lower()) == "train" for key in data):
        return {key: _as_rows(value) for key, value in data.items()}
    if isinstance(data, (list, tuple)) and data:
        if all(isinstance(item, str) for item in data):
            return [{"text": item} for item in data]
        if all(isinstance(item, (list, tuple)) for item in data):
            return [{"messages": item} for item in data]
    return data


def _drafts(tables: dict[str, Table], settings: DataSettings, text: BlockSettings) -> tuple[dict[str, Draft], bool]:
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
        return {split: chat_draft(table, columns[split]) for split, table in tables.items()}, True
    labelless = settings.but(label_column=NO_LABELS)
    roles: Roles | None = None
    drafts = {}
    for split, table in tables.items():
        chosen = choose(table, labelless, follow=roles)
        roles = roles or chosen
        drafts[split] = draft(table, chosen)
    return drafts, False


def _present(table: Table, flag: str, name: str) -> None:
    if not name or name in table.columns:
        return
    listed = ", ".join(f"'{column}'" for column in table.columns)
    close = difflib.get_close_matches(name, table.columns, n=1)
    hint = f"did you mean {flag} {close[0]}?" if close else f"pass {flag} NAME"
    raise DataError(f"{table.source} has no column '{name}'; its columns: {listed}", hint)


def _overlaps(parts: dict[str, Draft]) -> list[str]:
    seen = set(parts["train"].keys)
    counts = {split: sum(key in seen for key in parts[split].keys) for split in ("dev", "test")}
    return [
        f"{count:,} {split} {'documents also occur' if count > 1 else 'document also occurs'} in train"
        for split, count in counts.items()
        if count
    ]
