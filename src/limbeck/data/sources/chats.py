"""Chats: a column of messages, each with a role and a content. Until a chat is tokenised it travels as its JSON."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping
from typing import Any

from limbeck.core.errors import DataError
from limbeck.data.columns import plain
from limbeck.data.settings import BlockSettings, DataSettings
from limbeck.data.sources.tables import Table, is_missing, unboxed
from limbeck.data.splits import RowSelection
from limbeck.data.text.rows import TextRow

Message = dict[str, Any]  # role and content, and what else the template reads, such as tool_calls
Chat = list[Message]

_COLUMNS = ("messages", "conversations", "conversation")
_SHAREGPT = {"human": "user", "gpt": "assistant", "chatgpt": "assistant", "model": "assistant", "observation": "tool"}


def chat_column(table: Table, settings: DataSettings, text: BlockSettings) -> str:
    """The column that holds chats; empty if the table holds plain text, or if a flag names a text column."""
    if text.messages_column and text.messages_column in table.columns:
        return text.messages_column
    if settings.text_column:
        return ""
    names = {plain(name): name for name in table.columns}
    found = [names[name] for name in _COLUMNS if name in names]
    return next((name for name in found if _holds_lists(table.columns[name])), "")


def _holds_lists(values: list[Any]) -> bool:
    first = next((value for value in values if value is not None), None)
    return not isinstance(first, str) and hasattr(first, "__len__") and hasattr(first, "__getitem__")


def select_chats(table: Table, column: str) -> RowSelection[TextRow]:
    """The chats of a table. An empty one is dropped and counted; a broken one is refused."""
    dropped: Counter[str] = Counter({"blank line": table.blank})
    rows: list[TextRow] = []
    for row, value in enumerate(table.columns[column]):
        chat = _chat(value, f"{table.where(row)}, column '{column}'")
        if not chat:
            dropped["empty chat"] += 1
        elif any(_is_empty(message) for message in chat):
            dropped["chat with an empty message"] += 1
        else:
            rows.append(TextRow(table, row, json.dumps(chat, ensure_ascii=False)))
    if not rows:
        raise DataError(
            f"{table.source}: every chat in column '{column}' is empty or has an empty message",
            "choose another column with --blocks.messages-column, or one with plain text with --text-column",
        )
    return RowSelection(rows, table.source, +dropped, len(table) + table.blank)


def _chat(value: Any, where: str) -> Chat:
    value = unboxed(value)  # pandas holds a list as an array
    if is_missing(value):
        return []
    if not isinstance(value, (list, tuple)):
        raise DataError(
            f"{where}: holds {type(value).__name__} {str(value)[:40]!r}, not a list of messages",
            'write [{"role": "user", "content": …}, …], or choose a text column with --text-column',
        )
    return [_message(message, f"{where}, message {number}") for number, message in enumerate(value, 1)]


def _message(message: Any, where: str) -> Message:
    if not isinstance(message, Mapping):
        raise DataError(f"{where} is a {type(message).__name__}, not an object", 'write {"role": "user", "content": …}')
    made = {str(name): value for name, value in message.items() if value is not None}  # Arrow writes absent as null
    if "role" not in made and "from" in made:
        made["role"] = _SHAREGPT.get(str(made["from"]).casefold(), made["from"])
        del made["from"]
        if "content" not in made and "value" in made:
            made["content"] = made.pop("value")
    for field in ("role", "content"):
        if field == "content" and made.get("tool_calls"):
            made.setdefault("content", "")
        if field not in made:
            raise DataError(
                f"{where} has no '{field}'; it has {', '.join(message) or 'nothing'}",
                'write {"role": "user", "content": …}, or {"from": "human", "value": …}',
            )
        if not isinstance(made[field], str):
            raise DataError(f"{where}: its {field} is a {type(made[field]).__name__}, not text", "write it as a string")
    return made


def _is_empty(message: Message) -> bool:
    """An empty system prompt is allowed: it means none."""
    return message["role"] != "system" and not message["content"].strip() and not message.get("tool_calls")
