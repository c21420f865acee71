"""Chats: a column of messages, each with a role and a content, read and tokenised.

Until then a chat travels as its JSON. It becomes tokens through the tokenizer's own template, each token marked if the
assistant must produce it.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal

import numpy as np

from limbeck.core.errors import DataError, ModelError
from limbeck.data.columns import plain
from limbeck.data.language.pack import Blocks, Packed, encoded, tokenise
from limbeck.data.settings import BlockSettings, DataSettings
from limbeck.data.sources.tables import Table, is_missing, unboxed
from limbeck.data.splits import RowSelection
from limbeck.data.text.examples import spans
from limbeck.data.text.rows import TextRow

Message = dict[str, Any]  # role and content, and what else the template reads, such as tool_calls
Chat = list[Message]

Span = tuple[int, int]  # characters
_GENERATION = re.compile(r"\{%-?\s*generation\s*-?%\}")
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
    dropped: Counter[str] = Counter()
    rows: list[TextRow] = []
    for row, value in enumerate(table.columns[column]):
        chat = _chat(value, f"{table.where(row)}, column '{column}'")
        if not chat:
            dropped["empty chat"] += 1
        elif any(_is_empty(message) for message in chat):
            dropped["chat with an empty message"] += 1
        else:
            rows.append(TextRow.of(table, row, json.dumps(chat, ensure_ascii=False)))
    if not rows:
        raise DataError(
            f"{table.source}: every chat in column '{column}' is empty or has an empty message",
            "choose another column with --blocks.messages-column, or one with plain text with --text-column",
        )
    return RowSelection.of(table, rows, dropped)


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


def tokenise_chats(
    chats: Sequence[Chat], tokenizer: Any, learn: Literal["answers", "all"], where: Callable[[int], str]
) -> Blocks:
    """Every chat as one block. To be learnt are the answers with the token that ends a turn, or everything."""
    if not getattr(tokenizer, "chat_template", None):
        raise ModelError(
            "the data holds chats, but the tokenizer has no chat template",
            "set tokenizer.chat_template and save it with the model, or choose a text column with --text-column",
        )
    texts = [_rendered(chat, tokenizer, where(index)) for index, chat in enumerate(chats)]
    if learn == "all":
        return tokenise(texts, tokenizer, "generate")
    if not tokenizer.is_fast:
        raise ModelError(
            "the tokenizer does not say which characters a token stands for, so the assistant's tokens are unknown",
            "use a fast tokenizer, or learn whole chats with --blocks.learn all",
        )
    ends = tuple(tokenizer.get_added_vocab())
    ids, learnt = [np.empty(0, dtype=np.int32)], [np.empty(0, dtype=bool)]
    encodings = (encoding for found in encoded(texts, tokenizer) for encoding in found.encodings)
    for index, encoding in enumerate(encodings):
        places = answers(chats[index], texts[index], tokenizer, ends)
        marks = _within(encoding.offsets, places) if places is not None else None
        ids.append(np.array(encoding.ids, dtype=np.int32))
        learnt.append(_from_template(chats[index], tokenizer, where(index)) if marks is None else marks)
    flat = np.concatenate(ids)
    offsets = np.cumsum([0, *map(len, ids[1:])], dtype=np.int64)
    return Blocks(flat, offsets, np.zeros(len(flat), dtype=bool), learnt=np.concatenate(learnt))


def _rendered(chat: Chat, tokenizer: Any, where: str) -> str:
    try:
        return tokenizer.apply_chat_template(chat, tokenize=False)
    except Exception as error:  # a template raises what it likes
        reason = str(error).splitlines()[0] if str(error) else type(error).__name__
        roles = ", ".join(message["role"] for message in chat)
        raise DataError(
            f"{where}: the tokenizer's chat template refuses the chat ({reason}); its roles: {roles}",
            "mend the chat, leave it out, or choose a text column with --text-column",
        ) from None


def answers(chat: Chat, text: str, tokenizer: Any, ends: tuple[str, ...]) -> list[Span] | None:
    """The assistant's turns in the rendered chat: from the generation prompt to the end of the turn.

    None if the template renders the start of a chat otherwise than the same start of a longer one."""
    spans = []
    for turn, message in enumerate(chat):
        if message["role"] != "assistant":
            continue
        try:
            before = tokenizer.apply_chat_template(chat[:turn], tokenize=False, add_generation_prompt=True)
            after = tokenizer.apply_chat_template(chat[: turn + 1], tokenize=False)
        except Exception:  # half a chat may be one that the template refuses
            return None
        if not (text.startswith(after) and after.startswith(before) and len(before) < len(after)):
            return None
        # ChatML writes a line end after <|im_end|>, which is not generated
        turn_text = after.rstrip()
        spans.append((len(before), len(turn_text) if turn_text.endswith(ends) else len(after)))
    return spans


def _within(places: Sequence[Span], spans: Sequence[Span]) -> np.ndarray:
    """Tokens that lie in one of the spans. One that reaches over the start belongs to the prompt as well: it is not."""
    begins, ends = np.array(places, dtype=np.int64).reshape(-1, 2).T
    # byte-level tokenizers leave the space before a word out of its place: a token begins where the last one ended
    before = np.append(0, ends[:-1])
    begins = np.where(begins >= before, before, begins)
    inside = np.zeros(len(ends), dtype=bool)
    for start, stop in spans:
        inside |= (begins >= start) & (begins < stop)
    return inside


def _from_template(chat: Chat, tokenizer: Any, where: str) -> np.ndarray:
    if not _GENERATION.search(str(tokenizer.chat_template)):
        raise ModelError(
            f"{where}: the tokenizer's chat template does not show where the assistant's answers begin and end",
            "learn whole chats with --blocks.learn all, or mark the answers in the template with {% generation %}",
        )
    found = tokenizer.apply_chat_template(chat, tokenize=True, return_dict=True, return_assistant_tokens_mask=True)
    return np.array(found["assistant_masks"], dtype=bool)


def pack_chats(chats: Blocks, length: int, join: bool) -> Packed:
    """Blocks of whole chats; one that is longer than a block loses its end. Joined, a block takes as many as fit."""
    rows: Counter[str] = Counter()
    short = _shortened(chats, length)
    kept = np.arange(len(chats))
    if len(chats.learnt):
        some, any_before = _some(short), _some(chats)
        rows["chat without an answer"] = int((~any_before).sum())
        rows[f"chat whose first answer starts after {length} tokens"] = int((any_before & ~some).sum())
        kept = np.flatnonzero(some)
    whole = short.take(kept)
    blocks = whole if not join else _joined(whole, length)
    truncated = int((chats.lengths[kept] > length).sum())
    return Packed(blocks, truncated=truncated, rows=+rows)


def _some(chats: Blocks) -> np.ndarray:
    """Whether there is anything to learn in each chat."""
    return np.diff(np.append(0, np.cumsum(chats.learnt))[chats.offsets]) > 0


def _shortened(chats: Blocks, length: int) -> Blocks:
    chosen, offsets = spans(chats.offsets[:-1], np.minimum(chats.lengths, length))
    learnt = chats.learnt[chosen] if len(chats.learnt) else chats.learnt
    return Blocks(chats.ids[chosen], offsets, chats.special[chosen], learnt=learnt)


def _joined(chats: Blocks, length: int) -> Blocks:
    """In their order: a chat that does not fit begins the next block."""
    ends = [0]
    for end, size in zip(chats.offsets[1:].tolist(), chats.lengths.tolist(), strict=True):
        if len(ends) > 1 and end - ends[-2] <= length:
            ends[-1] = end
        elif size:
            ends.append(end)
    return Blocks(chats.ids, np.array(ends, dtype=np.int64), chats.special, learnt=chats.learnt)
