"""Masked and causal language models on running text."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from math import ceil
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from limbeck.core.errors import KnobError
from limbeck.core.fingerprint import digest, tokenizer_fingerprint
from limbeck.core.objective import Objective
from limbeck.core.progress import Watcher
from limbeck.core.task import LANGUAGE_KINDS, Kind, TaskInfo
from limbeck.core.trace import Want
from limbeck.data.language.corpus import LanguageCorpus, load_language
from limbeck.data.language.examples import MaskedTokens, NextTokens, Tokens
from limbeck.data.language.masking import Masker, count_tokens
from limbeck.data.settings import BlockSettings, MaskSettings
from limbeck.data.sources.new_rows import new_lines
from limbeck.data.sources.tables import Table
from limbeck.measure.evaluator import LanguageEvaluator
from limbeck.measure.language_answers import continuations, fill_masks
from limbeck.objectives.language import LanguageModeling
from limbeck.objectives.next_sentence import NextSentence
from limbeck.students.load import has_next_sentence_head, load
from limbeck.students.model_folder import model_in
from limbeck.students.sizes import positions_of
from limbeck.students.vocabulary import common_vocab, rows_of, vocab_size_of
from limbeck.tasks.base import ALL, GOLD, Answer, EncodedData, Inputs, Model, Options, Setup, Task, task
from limbeck.teachers.topk import TopKCache

TIMED = 256  # blocks at most
CACHEABLE_TOKENS = Want.TOP | Want.SAMPLED


@dataclass(frozen=True)
class RunningText:
    """Where the text is read from, which takes a tokenizer."""

    task: TaskInfo
    data: object
    only_test: bool = False
    corpora: dict[str, LanguageCorpus] = field(default_factory=dict)  # by tokenizer: read and cut once


@task
@dataclass(frozen=True)
class LanguageTask(Task[RunningText]):
    """Predicting the tokens of running text: those under a mask, or the next one."""

    kinds: ClassVar[tuple[Kind, ...]] = LANGUAGE_KINDS
    remedy: ClassVar[str] = "for language models use 'language', 'truncated' or 'word-kd'"
    labels_only: ClassVar[str] = "text only"
    unlabelled_remedy: ClassVar[str] = "running text needs no labels: add it to --data"

    def load(self, source: str, *, new_head: bool = False) -> Model:
        pairs, trusted = self.knobs.table(BlockSettings).pairs, self.knobs.trust_remote_code
        how = {"new_head": new_head, "next_sentence": pairs, "trust_remote_code": trusted}
        return Model(*load(source, self.info.kind, **how), source=model_in(source))

    def read(self, data: object, model: Model | None, watcher: Watcher, *, only_test: bool = False) -> RunningText:
        return RunningText(self.info, data, only_test)

    def encode(self, splits: RunningText, model: Model, watcher: Watcher, teacher: Model | None = None) -> EncodedData:
        if teacher is None:
            return self._encoded(splits, model.processor, vocab_size_of(model.network, model.processor), watcher, model)
        shared = common_vocab(teacher.network, model.network, teacher.processor, model.processor)
        data = self._encoded(splits, shared.tokenizer, shared.size, watcher, model, teacher)
        return replace(data, notes=[shared.note]) if shared.note else data

    def encode_for_training(self, splits: RunningText, model: Model, watcher: Watcher) -> EncodedData:
        """Over all rows of the projection: those that pad it are trained too, so that they become improbable."""
        vocab_size_of(model.network, model.processor)  # or refuses
        return self._encoded(splits, model.processor, rows_of(model.network), watcher, model)

    def _encoded(
        self, splits: RunningText, processor: Any, vocab_size: int, watcher: Watcher, *models: Model
    ) -> EncodedData:
        corpus = self._corpus(splits, processor, watcher)
        most = min(filter(None, (positions_of(model.network) for model in models)), default=corpus.length)
        if corpus.length > most:
            raise KnobError(
                f"blocks have {corpus.length} tokens, but the model reads {most} at once",
                f"set --blocks.length to {most}",
            )
        return self._masked(corpus, processor, vocab_size)

    def _corpus(self, splits: RunningText, processor: Any, watcher: Watcher) -> LanguageCorpus:
        name = tokenizer_fingerprint(processor)
        if name not in splits.corpora:
            blocks, kind = self.knobs.table(BlockSettings), self.info.kind
            how = splits.data, watcher, splits.only_test
            splits.corpora[name] = load_language(self.knobs.data, blocks, kind, processor, *how)  # type: ignore[arg-type]
        return splits.corpora[name]

    def _masked(self, corpus: LanguageCorpus, processor: Any, vocab_size: int) -> EncodedData:
        """The blocks as examples. Dev and test have one fixed mask, so that measurements compare."""
        info = replace(self.info, vocab_size=vocab_size)
        mask = self.knobs.table(MaskSettings).settled()
        splits: dict[str, Tokens]
        if info.kind == "generate":
            splits = {name: NextTokens(blocks) for name, blocks in corpus.splits.items()}
        else:
            counts = count_tokens(corpus.train, vocab_size) if mask.kind == "rare" else None
            masker = Masker(mask, processor.mask_token_id, vocab_size, processor.all_special_ids, counts)
            rounds = {"train": mask.rounds, "dev": 1, "test": 1}
            splits = {
                name: MaskedTokens(blocks, masker, mask.ask, rounds[name]) for name, blocks in corpus.splits.items()
            }
        train = splits["train"]
        rows = {ALL: train, GOLD: train}
        evaluator = LanguageEvaluator(info, processor, splits, self.knobs.measure.examples)
        prints = {"data": text_fingerprint(corpus), "mask": mask_fingerprint(info.kind, mask)}
        longest = corpus.length
        return EncodedData(info, processor, rows, evaluator, corpus.card, prints, len(train), max_length=longest)

    def texts(self, setup: Setup[RunningText], split: str) -> list[tuple[str, str]]:
        """The text of the blocks; of test, which is only timed, of some."""
        processor = setup.data.processor
        blocks = setup.splits.corpora[tokenizer_fingerprint(processor)].splits[split]
        most = TIMED if split == "test" else len(blocks)
        rows = np.linspace(0, len(blocks) - 1, min(most, len(blocks))).astype(int)
        ids = [blocks.ids[blocks.tokens(row)] for row in rows]
        return [(text, "") for text in processor.batch_decode(ids, skip_special_tokens=True)]

    def new_rows(self, data: object) -> tuple[Table, list[Inputs]]:
        return new_lines(self.knobs.data, data)

    def predict(self, model: Model, rows: Sequence[Inputs]) -> list[Answer]:
        info = replace(self.info, vocab_size=vocab_size_of(model.network, model.processor))
        how = model.network, model.processor, info, [text for (text,) in rows], self.knobs.batch_size
        if info.kind == "mask-fill":
            return fill_masks(*how, self.longest(model), self.knobs.top)
        return [{"continuation": text} for text in continuations(*how, self.longest(model), self.knobs.max_new_tokens)]

    def same_encoding(self, setup: Setup[RunningText], student: Model) -> bool:
        """The mask of an arm may be its recipe's own, its network may know fewer tokens, or be padded otherwise."""
        mask, shared = (knobs.table(MaskSettings).settled() for knobs in (self.knobs, setup.task.knobs))
        padded = setup.teacher is not None and rows_of(student.network) != rows_of(setup.teacher.network)
        vocab_size = vocab_size_of(student.network, student.processor)
        return bool(mask == shared) and not padded and vocab_size == setup.data.info.vocab_size

    def resolve(self, run: Options, setup: Setup[RunningText], needed: Want) -> Options:
        """A cache serves the masks it holds; a run that fills its own keeps one per epoch."""
        mask = run.table(MaskSettings).settled()
        cached = needed and not needed & ~CACHEABLE_TOKENS and not run.teacher_cache.live
        if mask.rounds or not cached:
            return run.but(mask=mask)
        rounds = _cached_rounds(run.teacher_cache.cache) if run.teacher_cache.cache else 0
        return run.but(mask=mask.but(rounds=rounds or ceil(run.train.epochs)))

    def check(
        self, run: Options, setup: Setup[RunningText], student: Model, objectives: Sequence[Objective], needed: Want
    ) -> None:
        pairs = run.table(BlockSettings).pairs
        if any(isinstance(part, NextSentence) for one in objectives for _, part in one.weighted) and not pairs:
            raise KnobError("'next-sentence' needs pairs of sentences", "add --blocks.pairs")
        if pairs and not has_next_sentence_head(student.network):
            raise KnobError(
                f"a {type(student.network).__name__} has no head for sentence pairs",
                "leave out --blocks.pairs, or set --student.family same",
            )

    def supervised(self) -> Objective:
        alone: Objective = 1.0 * LanguageModeling()
        return alone + NextSentence() if self.knobs.table(BlockSettings).pairs else alone


def _cached_rounds(folder: str) -> int:
    """How many masks per block a cache holds, as its maker wrote down."""
    if not (Path(folder) / "index.json").exists():
        return 0
    return int(TopKCache.open(folder).manifest.notes.get("mask", {}).get("rounds", 0))


def text_fingerprint(corpus: LanguageCorpus) -> str:
    """Names the blocks and their order."""
    columns = ("ids", "offsets", "learnt", "types", "next_sentence_label")
    return digest([getattr(blocks, column) for blocks in corpus.splits.values() for column in columns])


def mask_fingerprint(kind: str, mask: MaskSettings) -> str:
    """Names how tokens are masked and which are compared, whatever the number of rounds."""
    settings = mask.but(rounds=0).model_dump() if kind == "mask-fill" else {}
    return digest([json.dumps([kind, settings], sort_keys=True)])
