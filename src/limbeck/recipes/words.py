"""What every job on running text needs: the model opened, the text read, packed, masked and named."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from typing import Any

import numpy as np

from limbeck.core.errors import KnobError
from limbeck.core.task import LanguageKind, TaskInfo
from limbeck.data.language.blocks import Blocks
from limbeck.data.language.corpus import LanguageCorpus
from limbeck.data.language.examples import MaskedTokens, NextTokens, Tokens
from limbeck.data.language.masking import Masker, count_tokens
from limbeck.data.language.settings import MaskSettings
from limbeck.data.padding import Collator
from limbeck.students.sizes import positions_of

SPLITS = ("train", "dev", "test")


@dataclass(frozen=True)
class Words:
    """A corpus as questions to a language model."""

    task: TaskInfo
    corpus: LanguageCorpus
    splits: dict[str, Tokens]
    collator: Collator


def ask_words(kind: LanguageKind, corpus: LanguageCorpus, tokenizer: Any, mask: MaskSettings, vocabulary: int) -> Words:
    """The splits as questions. Dev and test have one fixed mask, so that measurements compare."""
    task = TaskInfo(kind=kind, vocab_size=vocabulary)
    pad = tokenizer.pad_token_id if tokenizer.pad_token_id is not None else tokenizer.eos_token_id
    splits: dict[str, Tokens] = {}
    if kind == "generate":
        splits = {name: NextTokens(getattr(corpus, name)) for name in SPLITS}
    else:
        counted = corpus.train if len(corpus.train) else corpus.test
        counts = count_tokens(counted, vocabulary) if mask.kind == "rare" else None
        masker = Masker(mask, tokenizer.mask_token_id, vocabulary, tokenizer.all_special_ids, counts)
        rounds = {"train": mask.rounds, "dev": 1, "test": 1}
        ask: Any = mask.ask
        splits = {name: MaskedTokens(getattr(corpus, name), masker, ask, rounds[name]) for name in SPLITS}
    return Words(task, corpus, splits, Collator(pad or 0, task))


def check_length(corpus: LanguageCorpus, *networks: Any) -> None:
    """Refuses blocks that a model cannot read at once."""
    most = min(filter(None, map(positions_of, networks)), default=corpus.length)
    if corpus.length > most:
        raise KnobError(
            f"blocks have {corpus.length} tokens, but the model reads {most} at once", f"set --blocks.length to {most}"
        )


def language_kind(task: str, architecture: str) -> LanguageKind:
    """The task asked for; left open, the one the model was made for."""
    if task in ("mask-fill", "generate"):
        return task  # type: ignore[return-value]
    if task != "auto":
        raise KnobError(
            f"--task {task} is about texts with labels; words are cached for --task mask-fill and generate",
            "a run keeps a classifier's answers by itself, or in --cache",
        )
    return "mask-fill" if "MaskedLM" in architecture or "PreTraining" in architecture else "generate"


def text_fingerprint(corpus: LanguageCorpus) -> str:
    """Names the blocks and their order."""
    digest = hashlib.blake2b(digest_size=8)
    for name in SPLITS:
        blocks: Blocks = getattr(corpus, name)
        for column in (blocks.ids, blocks.offsets, blocks.learnt, blocks.types, blocks.next_sentence_label):
            digest.update(np.ascontiguousarray(column).tobytes())
    return digest.hexdigest()


def mask_fingerprint(kind: LanguageKind, mask: MaskSettings) -> str:
    """Names how words are hidden and asked about, whatever the number of rounds."""
    said = mask.but(rounds=0).model_dump() if kind == "mask-fill" else {}
    return hashlib.blake2b(json.dumps([kind, said], sort_keys=True).encode(), digest_size=8).hexdigest()


def sample_of(blocks: Blocks, tokenizer: Any, most: int = 256) -> list[tuple[str, str]]:
    """The text of some blocks, to time a model on."""
    places = np.linspace(0, len(blocks) - 1, min(most, len(blocks))).astype(int)
    texts = tokenizer.batch_decode([blocks.ids[blocks.tokens(place)] for place in places], skip_special_tokens=True)
    return [(text, "") for text in texts]
