"""Chats: read from their forms, rendered by the template, and exactly the assistant's tokens learnt."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import datasets
import numpy as np
import pytest

from limbeck.core.errors import DataError, MismatchError, ModelError
from limbeck.data.language.chats import Chat, pack_chats, tokenise_chats
from limbeck.data.language.corpus import load_language
from limbeck.data.language.documents import Documents, read_documents
from limbeck.data.language.pack import Blocks
from limbeck.data.settings import BlockSettings, DataSettings
from tiny_language import CHATML, byte_level, wordpiece

TALK: Chat = [
    {"role": "system", "content": "Be brief."},
    {"role": "user", "content": "Is the film good?"},
    {"role": "assistant", "content": "Très good 🙂"},
    {"role": "user", "content": "And the plot?"},
    {"role": "assistant", "content": " Bad.\n"},
]
TALKS: list[Chat] = [
    [{"role": "user", "content": f"What is {n} and {n}?"}, {"role": "assistant", "content": f"It is {2 * n}."}]
    for n in range(100)
]
# renders the start of a chat otherwise than the same start of a longer one: only the last turn keeps its header
LAST_ONLY = (
    "{% for message in messages %}{% if loop.last %}<|im_start|>{{ message['role'] }}\n{% endif %}"
    "{{ message['content'] }}<|im_end|>\n{% endfor %}"
)
MARKED = (
    "{{ messages|length }}\n{% for message in messages %}<|im_start|>{{ message['role'] }}\n"
    "{% if message['role'] == 'assistant' %}{% generation %}{{ message['content'] }}<|im_end|>{% endgeneration %}"
    "{% else %}{{ message['content'] }}<|im_end|>{% endif %}\n{% endfor %}"
)
STRICT = "{% if messages[0]['role'] != 'user' %}{{ raise_exception('the user begins') }}{% endif %}" + CHATML
# the prompt ends in spaces that a byte-level tokenizer gives no place of their own
SPACED = (
    "{% for message in messages %}{% if message['role'] == 'assistant' %}Answer:   {{ message['content'] }}<|end|>"
    "{% else %}{{ message['content'] }}\n{% endif %}{% endfor %}{% if add_generation_prompt %}Answer:   {% endif %}"
)


def place(index: int) -> str:
    return f"chat {index + 1}"


def read(data: Any, **text: Any) -> Documents:
    return read_documents(DataSettings(), BlockSettings(**text), data)


def learnt(blocks: Blocks, tokenizer: Any) -> list[str]:
    """What is learnt, as stretches of text."""
    edges = np.flatnonzero(np.diff(np.concatenate([[0], blocks.learnt.astype(int), [0]])))
    return [tokenizer.decode(blocks.ids[start:stop].tolist()) for start, stop in edges.reshape(-1, 2)]


def test_the_answers_are_learnt_with_the_token_that_ends_them() -> None:
    tokenizer = byte_level()
    blocks = tokenise_chats([TALK, TALKS[1]], tokenizer, "answers", place)
    assert learnt(blocks, tokenizer) == ["Très good 🙂<|im_end|>", " Bad.\n<|im_end|>", "It is 2.<|im_end|>"]
    for index, chat in enumerate([TALK, TALKS[1]]):
        assert tokenizer.decode(blocks.ids[blocks.tokens(index)].tolist()) == tokenizer.apply_chat_template(
            chat, tokenize=False
        )
        ids = tokenizer.apply_chat_template(chat)["input_ids"]
        assert blocks.ids[blocks.tokens(index)].tolist() == ids


def test_everything_is_learnt_when_asked() -> None:
    tokenizer = byte_level()
    blocks = tokenise_chats([TALK], tokenizer, "all", place)
    assert len(blocks.learnt) == 0
    assert tokenizer.decode(blocks.ids.tolist()) == tokenizer.apply_chat_template(TALK, tokenize=False)


def test_a_template_without_prefixes_may_mark_the_answers_itself() -> None:
    tokenizer = byte_level(MARKED)
    blocks = tokenise_chats([TALKS[3]], tokenizer, "answers", place)
    assert learnt(blocks, tokenizer) == ["It is 6.<|im_end|>"]


def test_a_template_that_shows_no_answers_is_refused_with_the_remedy() -> None:
    with pytest.raises(ModelError, match=r"chat 1: (.|\n)*--blocks.learn all"):
        tokenise_chats([TALK], byte_level(LAST_ONLY), "answers", place)
    assert len(tokenise_chats([TALK], byte_level(LAST_ONLY), "all", place)) == 1
    with pytest.raises(ModelError, match=r"no chat template\n.*--text-column"):
        tokenise_chats([TALK], byte_level(None), "answers", place)


def test_a_chat_that_the_template_refuses_is_named() -> None:
    with pytest.raises(DataError, match=r"chat 2: .*refuses the chat \(the user begins\); its roles: system, user"):
        tokenise_chats([TALKS[0], TALK], byte_level(STRICT), "answers", place)


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ("It is 6.", "It is 6.<|end|>"),
        ("good plot", " plot<|end|>"),  # " good" is one token that reaches back into the prompt
        ("\n on", "\n on<|end|>"),
    ],
)
def test_the_spaces_of_the_prompt_are_not_learnt(content: str, words: str) -> None:
    tokenizer = byte_level(SPACED)
    chat = [{"role": "user", "content": "Go"}, {"role": "assistant", "content": content}]
    assert learnt(tokenise_chats([chat], tokenizer, "answers", place), tokenizer) == [words]


def test_apart_every_chat_is_a_block_and_long_ones_lose_their_end() -> None:
    tokenizer = byte_level()
    blocks = tokenise_chats([TALK, *TALKS[:3]], tokenizer, "answers", place)
    longest = int(blocks.lengths[1:].max())
    packed = pack_chats(blocks, longest, join=False)
    first = int(blocks.learnt[blocks.tokens(0)].argmax())
    assert first > longest  # the long chat has its first answer later, so nothing of it can be learnt
    assert packed.rows == {f"chat whose first answer starts after {longest} tokens": 1}
    assert packed.truncated == 0
    assert learnt(packed.blocks, tokenizer) == [f"It is {n}.<|im_end|>" for n in (0, 2, 4)]
    cut = pack_chats(blocks, first + 2, join=False)
    assert cut.truncated == 1
    assert cut.blocks.ids[cut.blocks.tokens(0)].tolist() == blocks.ids[: first + 2].tolist()
    assert cut.blocks.learnt[cut.blocks.tokens(0)].tolist() == [False] * first + [True] * 2


def test_joined_chats_stay_whole() -> None:
    tokenizer = byte_level()
    blocks = tokenise_chats(TALKS, tokenizer, "answers", place)
    packed = pack_chats(blocks, 100, join=True)
    assert packed.blocks.ids.tolist() == blocks.ids.tolist()
    assert packed.blocks.learnt.tolist() == blocks.learnt.tolist()
    assert set(packed.blocks.offsets.tolist()) <= set(blocks.offsets.tolist())
    assert packed.blocks.lengths.max() <= 100
    sums = packed.blocks.lengths[:-1] + [
        blocks.lengths[np.searchsorted(blocks.offsets, end)] for end in packed.blocks.offsets[1:-1]
    ]
    assert (sums > 100).all()  # the next chat would not have fitted


def test_a_chat_without_an_answer_is_counted() -> None:
    tokenizer = byte_level()
    chats = [TALKS[0], [{"role": "user", "content": "Hello?"}]]
    packed = pack_chats(tokenise_chats(chats, tokenizer, "answers", place), 64, join=True)
    assert len(packed.blocks) == 1
    assert packed.rows == {"chat without an answer": 1}
    assert len(pack_chats(tokenise_chats(chats, tokenizer, "all", place), 64, join=False).blocks) == 2


def test_forms_of_chats_are_one(tmp_path: Path) -> None:
    datasets.disable_progress_bars()
    expected = read([{"messages": chat} for chat in TALKS])
    assert expected.chats
    assert expected.card.columns == {"messages": "messages"}
    names = {"user": "human", "assistant": "gpt"}
    shared = [[{"from": names[m["role"]], "value": m["content"]} for m in chat] for chat in TALKS]
    path = tmp_path / "chats.jsonl"
    path.write_text("\n".join(json.dumps({"messages": chat, "id": 1}) for chat in TALKS))
    table = datasets.Dataset.from_list([{"messages": chat} for chat in TALKS])
    table.to_parquet(str(tmp_path / "chats.parquet"))
    paths = (path, tmp_path / "chats.parquet")
    for data in (TALKS, {"train": TALKS}, [{"conversations": chat} for chat in shared], table, *paths):
        found = read(data)
        assert [found.messages(split) for split in found.parts] == [expected.messages(split) for split in found.parts]
    assert sorted(map(json.dumps, TALKS)) == sorted(
        json.dumps(chat) for split in expected.parts for chat in expected.messages(split)
    )
    named = read([{"talk": chat, "text": "plain"} for chat in TALKS], messages_column="talk")
    assert named.messages("train") == expected.messages("train")


def test_tool_calls_and_further_fields_reach_the_template() -> None:
    call = {"role": "assistant", "content": None, "tool_calls": [{"name": "look"}]}
    found = read([[*TALKS[n], call] for n in range(30)])
    assert found.messages("train")[0][-1] == {"role": "assistant", "content": "", "tool_calls": [{"name": "look"}]}


def test_plain_text_can_be_chosen_beside_chats() -> None:
    rows = [{"messages": chat, "text": f"Text {n}"} for n, chat in enumerate(TALKS)]
    assert read(rows).chats
    plain = read_documents(DataSettings(text_column="text"), BlockSettings(), rows)
    assert not plain.chats
    assert plain.texts("train")[0].startswith("Text ")


@pytest.mark.parametrize(
    ("message", "problem"),
    [
        ({"content": "Hi"}, "message 2 has no 'role'; it has content"),
        ({"role": "user"}, "message 2 has no 'content'; it has role"),
        ({"role": "user", "content": [{"type": "image"}]}, "message 2: its content is a list, not text"),
        ("Hi", "message 2 is a str, not an object"),
    ],
)
def test_broken_messages_are_named(tmp_path: Path, message: Any, problem: str) -> None:
    path = tmp_path / "chats.jsonl"
    lines = [{"messages": TALK}, {"messages": [TALK[0], message]}]
    path.write_text("\n\n".join(map(json.dumps, lines)))
    with pytest.raises(DataError, match=rf"chats.jsonl, line 3, column 'messages', {problem}"):
        read(path)


def test_a_column_of_something_else_is_named() -> None:
    with pytest.raises(DataError, match=r"row 1, column 'talk': holds str 'Hi', not a list of messages"):
        read([{"talk": "Hi"}], messages_column="talk")
    with pytest.raises(DataError, match="every chat in column 'messages' is empty"):
        read([{"messages": []}, {"messages": [{"role": "user", "content": " "}]}])
    mixed = {"train": [{"messages": TALK}], "dev": [{"text": "plain"}]}
    with pytest.raises(DataError, match=r"dev.* holds plain text, but train holds chats"):
        read(mixed)


def test_empty_chats_are_counted_and_few_chats_cut_at_the_end() -> None:
    hole = [{"role": "user", "content": "Hi"}, {"role": "assistant", "content": ""}]
    bare = [{"role": "system", "content": ""}, *TALKS[0]]
    found = read([{"messages": chat} for chat in (*TALKS[:8], [], None, hole, bare)])
    assert found.card.dropped == {"empty chat": 2, "chat with an empty message": 1}
    assert found.messages("train") == TALKS[:7]
    assert found.messages("dev") == [TALKS[7]]
    assert found.messages("test") == [bare]
    assert any("9 chats, too few to draw from" in note for note in found.card.notes)
    with pytest.raises(DataError, match="2 usable rows: too few to cut dev and test from"):
        read(TALKS[:2])


def test_a_corpus_of_chats() -> None:
    tokenizer = byte_level()
    data = [TALK, *TALKS, [{"role": "user", "content": "Hello?"}]] * 2
    corpus = load_language(DataSettings(), BlockSettings(length=48, pack=False), "generate", tokenizer, data)
    assert sum(map(len, corpus.splits.values())) == 2 * 101
    assert corpus.card.dropped == {"chat without an answer": 2}
    assert corpus.card.truncated == 2
    assert any("2 chats cut to 48 tokens" in note for note in corpus.card.notes)
    assert all(part.learnt.any() and len(part.learnt) == len(part.ids) for part in corpus.splits.values())
    with pytest.raises(MismatchError, match=r"holds chats(.|\n)*--text-column, or .*--task generate"):
        load_language(DataSettings(), BlockSettings(), "mask-fill", wordpiece(), data)
