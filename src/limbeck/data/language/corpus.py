"""A corpus for language models: documents from any source, as blocks of tokens in train, dev and test."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

from limbeck.core.errors import DataError, KnobError, MismatchError
from limbeck.core.progress import Silent, Watcher
from limbeck.core.record import SplitCard
from limbeck.core.task import LanguageKind
from limbeck.data.language.chats import pack_chats, tokenise_chats
from limbeck.data.language.documents import Documents, read_documents
from limbeck.data.language.next_sentence import pairs, tokens_cut
from limbeck.data.language.pack import FEWEST, Blocks, Packed, frame_of, pack, sentences, tokenise
from limbeck.data.settings import BlockSettings, DataSettings
from limbeck.data.splits import SPLITS, Splits, draw, limit_of, log_card
from limbeck.data.uids import hash64

_SEED = 0  # of sentence pairs: the same for every student, so that one cache serves all


@dataclass(frozen=True)
class LanguageCorpus(Splits[Blocks]):
    """The card's splits count blocks as rows, and tokens as labelled."""

    length: int  # tokens of a block at most

    @property
    def tokens(self) -> dict[str, int]:
        return {split: len(blocks.ids) for split, blocks in self.splits.items()}


def load_language(
    settings: DataSettings,
    text: BlockSettings,
    kind: LanguageKind,
    tokenizer: Any,
    data: object | None = None,
    watcher: Watcher = Silent(),  # noqa: B008
    only_test: bool = False,
) -> LanguageCorpus:
    """Reads, splits, tokenises and packs; logs what it chose and what became of the text.

    With `only_test` the whole file is the test split, and train and dev are empty."""
    documents = read_documents(settings, text, data, only_test)
    _refuse(documents, text, kind)
    length = min(text.length, tokenizer.model_max_length)
    used = documents.card.splits
    packed = {
        split: _pack(documents, split, text.model_copy(update={"length": length}), kind, tokenizer) for split in used
    }
    nothing = packed["test"].blocks.take([])
    blocks = {split: packed[split].blocks if split in used else nothing for split in SPLITS}
    for split in used:
        if not len(blocks[split]):
            raise DataError(
                f"{documents.parts[split].source}: nothing in it fills a block of {split}",
                "give more text, or files with --data.dev and --data.test",
            )
    notes = [*documents.card.notes, *_notes(packed, text, length)]
    if kind == "generate" and tokenizer.eos_token_id is None:
        notes.append("the tokenizer has no end-of-text token: documents follow each other without one")
    for split, found in blocks.items():
        limits = [limit_of(split, settings), *([(text.held_out, "--blocks.held-out")] if split != "train" else [])]
        most, knob = min((limit for limit in limits if limit[0]), default=(0, ""))
        hashes = [hash64("limit", found.ids[found.tokens(index)].tobytes()) for index in range(len(found))]
        if drawn := draw(hashes, most, notes, f"{split}: {{}} of {{}} blocks ({knob})"):
            blocks[split] = found.take(drawn)
    splits = {
        split: SplitCard(source=read.source, rows=len(blocks[split]), labelled=len(blocks[split].ids))
        for split, read in used.items()
    }
    dropped = dict(sum((Counter(part.rows) for part in packed.values()), Counter(documents.card.dropped)))
    truncated = sum(part.truncated for part in packed.values())
    counts = {"splits": splits, "dropped": dropped, "truncated": truncated, "notes": notes}
    card = documents.card.model_copy(update=counts)
    log_card(watcher, card, unit="chats" if documents.chats else "documents", block_length=length)
    return LanguageCorpus(**blocks, card=card, length=length)


def _refuse(documents: Documents, text: BlockSettings, kind: LanguageKind) -> None:
    if documents.chats and kind == "mask-fill":
        raise MismatchError(
            f"{documents.card.source} holds chats, but a masked LM needs plain text",
            "choose a text column with --text-column, or a causal LM with --task generate",
        )
    if text.pairs and kind != "mask-fill":
        raise MismatchError("sentence pairs are for masked LMs", "leave out --blocks.pairs, or use --task mask-fill")
    if text.pairs and text.documents == "line":
        raise KnobError(
            "sentence pairs need documents of several lines, and blocks.documents is line",
            "put blank lines between documents and set blocks.documents to blank-line",
        )


def _pack(documents: Documents, split: str, text: BlockSettings, kind: LanguageKind, tokenizer: Any) -> Packed:
    if documents.chats:
        chats = tokenise_chats(documents.messages(split), tokenizer, text.learn, partial(documents.where, split))
        return pack_chats(chats, text.length, text.pack)
    if text.pairs:
        return _pairs(documents.texts(split), text.length, tokenizer)
    found = tokenise(documents.texts(split), tokenizer, kind)
    return pack(found, frame_of(tokenizer, kind), text.length, text.pack, kind)


def _pairs(texts: list[str], length: int, tokenizer: Any) -> Packed:
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
