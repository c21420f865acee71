"""A corpus for language models: documents from any source, as blocks of tokens in train, dev and test."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from hashlib import blake2b
from typing import Any

import numpy as np

from limbeck.core.errors import DataError, KnobError, MismatchError
from limbeck.core.progress import Silent, Watcher
from limbeck.core.record import DataCard, SplitCard
from limbeck.core.task import LanguageKind
from limbeck.data.blocks import Blocks
from limbeck.data.chat_tokens import pack_chats, tokenise_chats
from limbeck.data.documents import Documents, read_documents
from limbeck.data.language import BlockSettings
from limbeck.data.pack import FEWEST, Packed, frame_of, pack, sentences, tokenise
from limbeck.data.settings import DataSettings

_SEED = 0  # of sentence pairs: the same for every student, so that one cache serves all


@dataclass(frozen=True)
class LanguageCorpus:
    train: Blocks
    dev: Blocks
    test: Blocks
    length: int  # tokens of a block at most
    card: DataCard  # of its splits, rows counts blocks and labelled counts tokens

    @property
    def splits(self) -> dict[str, Blocks]:
        return {"train": self.train, "dev": self.dev, "test": self.test}

    @property
    def tokens(self) -> dict[str, int]:
        return {split: len(blocks.ids) for split, blocks in self.splits.items()}

    @property
    def notes(self) -> list[str]:
        return self.card.notes


def load_language(
    settings: DataSettings,
    text: BlockSettings,
    kind: LanguageKind,
    tokenizer: Any,
    data: object | None = None,
    watcher: Watcher = Silent(),  # noqa: B008
) -> LanguageCorpus:
    """Reads, splits, tokenises and packs. Says what it chose and what became of the text."""
    documents = read_documents(settings, text, data)
    _refuse(documents, text, kind)
    length = min(text.length, tokenizer.model_max_length)
    packed = {split: _pack(documents, split, text.but(length=length), kind, tokenizer) for split in documents.parts}
    blocks = {split: part.blocks for split, part in packed.items()}
    for split, part in blocks.items():
        if not len(part):
            raise DataError(
                f"{documents.parts[split].source}: nothing in it fills a block of {split}",
                "give more text, or files with --data.dev and --data.test",
            )
    notes = [*documents.card.notes, *_notes(packed, text, length)]
    if kind == "generate" and tokenizer.eos_token_id is None:
        notes.append("the tokenizer has no end-of-text token: documents follow each other without one")
    for split, most, knob in (
        ("train", settings.limit, "--data.limit"),
        ("dev", text.held_out, "--blocks.held-out"),
        ("test", text.held_out, "--blocks.held-out"),
    ):
        if 0 < most < len(blocks[split]):
            notes.append(f"{split}: {most:,} of {len(blocks[split]):,} blocks ({knob})")
            blocks[split] = _drawn(blocks[split], most)
    card = documents.card.but(
        splits={
            split: SplitCard(source=documents.parts[split].source, rows=len(part), labelled=len(part.ids))
            for split, part in blocks.items()
        },
        dropped=dict(sum((Counter(part.rows) for part in packed.values()), Counter(documents.card.dropped))),
        truncated=sum(part.truncated for part in packed.values()),
        notes=notes,
    )
    _tell(watcher, documents, card, length)
    return LanguageCorpus(blocks["train"], blocks["dev"], blocks["test"], length, card)


def _refuse(documents: Documents, text: BlockSettings, kind: LanguageKind) -> None:
    if documents.chats and kind == "mask-fill":
        raise MismatchError(
            f"{documents.card.source} holds chats, and filling masks needs plain text",
            "choose a text column with --text-column, or a causal model with --task generate",
        )
    if text.pairs and kind != "mask-fill":
        raise MismatchError("sentence pairs are for masked models", "leave out --blocks.pairs, or use --task mask-fill")
    if text.pairs and text.documents == "line":
        raise KnobError(
            "sentence pairs need documents of several lines, and blocks.documents is line",
            "put blank lines between documents and set blocks.documents to blank-line",
        )


def _pack(documents: Documents, split: str, text: BlockSettings, kind: LanguageKind, tokenizer: Any) -> Packed:
    if documents.chats:
        chats = tokenise_chats(documents.talks(split), tokenizer, text.learn, partial(documents.where, split))
        return pack_chats(chats, text.length, text.pack)
    if text.pairs:
        return _pairs(documents.texts(split), text.length, tokenizer)
    found = tokenise(documents.texts(split), tokenizer, kind)
    return pack(found, frame_of(tokenizer, kind), text.length, text.pack, kind)


def _pairs(texts: list[str], length: int, tokenizer: Any) -> Packed:
    from limbeck.data.next_sentence import pairs, tokens_cut

    ids, inside = sentences(texts, tokenizer)
    if all(len(document) < 2 for document in ids):
        raise DataError(
            "no document has a second line, so no sentence has a next one",
            "write one sentence per line and blank lines between documents, or leave out --blocks.pairs",
        )
    blocks = pairs(ids, length, tokenizer.cls_token_id, tokenizer.sep_token_id, _SEED, inside)
    return Packed(blocks, tokens_cut(ids, blocks))


def _notes(packed: Mapping[str, Packed], text: BlockSettings, length: int) -> list[str]:
    notes = []
    if length < text.length:
        notes.append(f"blocks have {length} tokens, not {text.length}: the model reads no more at once")
    why = "cut off pairs too long for a block" if text.pairs else f"in pieces of fewer than {FEWEST}"
    for split, part in packed.items():
        if part.dropped:
            notes.append(f"{split}: {part.dropped:,} {_plural('token', part.dropped)} left out, {why}")
        if part.truncated:
            notes.append(f"{split}: {part.truncated:,} {_plural('chat', part.truncated)} cut to {length} tokens")
    return notes


def _plural(noun: str, count: int) -> str:
    return noun + "s" * (count != 1)


def _drawn(blocks: Blocks, limit: int) -> Blocks:
    """As many blocks, drawn by a hash of their tokens and so always the same ones, in their own order."""
    hashes = [
        blake2b(blocks.ids[blocks.tokens(index)].tobytes(), digest_size=8, person=b"limit").digest()
        for index in range(len(blocks))
    ]
    drawn = sorted(range(len(blocks)), key=lambda index: hashes[index])[:limit]
    return blocks.take(np.sort(drawn))


def _tell(watcher: Watcher, documents: Documents, card: DataCard, length: int) -> None:
    what = "chats" if documents.chats else "documents"
    roles = ", ".join(f"{role} from {column}" for role, column in card.columns.items())
    watcher.say(f"data: {card.source}, {card.read:,} {what}; {roles}")
    counts = (f"{name} {split.rows:,} ({split.labelled:,} tokens)" for name, split in card.splits.items())
    watcher.say(f"blocks of {length} tokens: {', '.join(counts)}")
    fates = [f"{count:,} dropped: {reason}" for reason, count in card.dropped.items()]
    fates += [f"{card.duplicates:,} seen before, kept"] if card.duplicates else []
    watcher.say(f"{what}: {'; '.join(fates) if fates else 'none dropped, none repeated'}")
    for note in card.notes:
        watcher.say(f"note: {note}")
