"""Masked and causal language models on running text."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import ceil
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
from torch import Tensor
from transformers import PreTrainedModel

from limbeck.core.errors import KnobError
from limbeck.core.fingerprint import tokenizer_fingerprint
from limbeck.core.objective import Objective
from limbeck.core.progress import Watcher
from limbeck.core.task import LANGUAGE_KINDS, Kind, TaskInfo
from limbeck.core.teacher import NoTeacher, Teacher
from limbeck.core.want import Want
from limbeck.data.batches import Collator, batches
from limbeck.data.language.corpus import LanguageCorpus, load_language
from limbeck.data.language.examples import MaskedTokens, NextTokens, Tokens
from limbeck.data.language.masking import Masker, count_tokens
from limbeck.data.language.pack import Blocks
from limbeck.data.settings import BlockSettings, MaskSettings
from limbeck.measure.disagreements import token_disagreements
from limbeck.measure.quality import quality
from limbeck.measure.tokens import TokenStatistics, token_statistics
from limbeck.objectives.language import LanguageModeling
from limbeck.objectives.next_sentence import NextSentence
from limbeck.students.load import has_next_sentence_head, load
from limbeck.students.sizes import positions_of
from limbeck.students.vocabulary import common_vocab, rows_of, vocab_size_of
from limbeck.tasks.base import (
    ALL,
    GOLD,
    EncodedData,
    Evaluated,
    Evaluation,
    Evaluator,
    Model,
    Setup,
    Task,
    evaluating,
    task,
)
from limbeck.teachers.live import LiveTeacher
from limbeck.teachers.memory import MemoryTeacher
from limbeck.teachers.topk import TopKCache

SPLITS = ("train", "dev", "test")
BATCH = 32  # blocks
TIMED = 256  # blocks at most
CACHEABLE = Want.TOP | Want.SAMPLED


@dataclass(frozen=True)
class LanguageEvaluator(Evaluator):
    """Every predicted token of a split once."""

    info: TaskInfo
    processor: Any
    splits: Mapping[str, Tokens]
    collator: Collator
    examples: int = 0
    teacher: Teacher = field(default_factory=NoTeacher)

    @property
    def dev(self) -> Tokens:
        return self.splits["dev"]

    @property
    def test_rows(self) -> int:
        return len(self.splits["test"])

    def collate(self, rows: list[dict[str, Any]]) -> dict[str, Tensor]:
        return self.collator(rows)

    def with_teacher(self, teacher: Teacher, test: Evaluation | None = None) -> LanguageEvaluator:
        return replace(self, teacher=teacher)

    def dev_metrics(self, model: PreTrainedModel) -> dict[str, float]:
        scores = self._scores(self._statistics(model, "dev", NoTeacher()))
        return {"loss": scores["token_nll"], **scores}

    def test(self, model: PreTrainedModel) -> Evaluation:
        found = self._statistics(model, "test", self.teacher, self.examples)
        apart = token_disagreements(found.examples, self.processor.decode)
        return Evaluation(found.uids, found.sums, self._scores(found), fidelity=found.fidelity, disagreements=apart)

    def _statistics(self, model: PreTrainedModel, split: str, teacher: Teacher, examples: int = 0) -> TokenStatistics:
        rows = batches(self.splits[split], self.collator, BATCH)
        return token_statistics(model, rows, self.info.vocab_size, teacher, examples=examples)

    def _scores(self, found: TokenStatistics) -> dict[str, float]:
        rows = np.ones(len(found.sums), dtype=bool)
        return quality(self.info, found.sums, rows, rows)[0]


@dataclass(frozen=True)
class RunningText:
    """Where the text is read from, which takes a tokenizer."""

    task: TaskInfo
    data: object
    only_test: bool = False
    corpora: dict[str, LanguageCorpus] = field(default_factory=dict)  # by tokenizer: read and cut once


@task
@dataclass(frozen=True)
class LanguageTask(Task):
    """Predicting the tokens of running text: those under a mask, or the next one."""

    kinds: ClassVar[tuple[Kind, ...]] = LANGUAGE_KINDS
    recipes: ClassVar[Mapping[str, str]] = dict.fromkeys(LANGUAGE_KINDS, "truncated")
    remedy: ClassVar[str] = "for language models use 'language', 'truncated' or 'word-kd'"

    def load(self, source: str, *, new_head: bool = False) -> Model:
        how: dict[str, Any] = {
            "next_sentence": self.knobs.table(BlockSettings).pairs,
            "trust_remote_code": self.knobs.trust_remote_code,
        }
        return Model(*load(source, self.info.kind, new_head=new_head, **how), source=source)

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
        name = tokenizer_fingerprint(processor)
        if name not in splits.corpora:
            splits.corpora[name] = self._corpus(splits, processor, watcher)
        corpus = splits.corpora[name]
        check_length(corpus, *(model.network for model in models))
        return self._masked(corpus, processor, vocab_size)

    def _masked(self, corpus: LanguageCorpus, processor: Any, vocab_size: int) -> EncodedData:
        """The blocks as examples. Dev and test have one fixed mask, so that measurements compare."""
        info = self.info.but(vocab_size=vocab_size)
        mask = self.knobs.table(MaskSettings).settled()
        splits: dict[str, Tokens]
        if info.kind == "generate":
            splits = {name: NextTokens(getattr(corpus, name)) for name in SPLITS}
        else:
            counts = count_tokens(corpus.train, vocab_size) if mask.kind == "rare" else None
            masker = Masker(mask, processor.mask_token_id, vocab_size, processor.all_special_ids, counts)
            rounds, ask = {"train": mask.rounds, "dev": 1, "test": 1}, mask.ask
            splits = {name: MaskedTokens(getattr(corpus, name), masker, ask, rounds[name]) for name in SPLITS}
        train = splits["train"]
        evaluator = LanguageEvaluator(
            info, processor, splits, Collator.of(processor, info), self.knobs.measure.examples
        )
        prints = {"data": text_fingerprint(corpus), "mask": mask_fingerprint(info.kind, mask)}
        return EncodedData(
            info=info,
            processor=processor,
            rows={ALL: train, GOLD: train},
            evaluator=evaluator,
            card=corpus.card,
            fingerprints=prints,
            size=len(train),
            max_length=corpus.length,
        )

    def timing_inputs(self, setup: Setup) -> list[tuple[str, str]]:
        """The text of some test blocks."""
        evaluator = setup.data.evaluator
        assert isinstance(evaluator, LanguageEvaluator)
        blocks = evaluator.splits["test"].blocks
        rows = np.linspace(0, len(blocks) - 1, min(TIMED, len(blocks))).astype(int)
        ids = [blocks.ids[blocks.tokens(row)] for row in rows]
        return [(text, "") for text in setup.data.processor.batch_decode(ids, skip_special_tokens=True)]

    def same_encoding(self, setup: Setup, student: Model) -> bool:
        """The mask of an arm may be its recipe's own, its network may know fewer tokens, or be padded otherwise."""
        mask = self.knobs.table(MaskSettings).settled()
        same = mask == setup.task.knobs.table(MaskSettings).settled()
        padded = setup.teacher is not None and rows_of(student.network) != rows_of(setup.teacher.network)
        return same and not padded and vocab_size_of(student.network, student.processor) == setup.info.vocab_size

    def resolve(self, run: Any, setup: Setup, needed: Want) -> Any:
        """A cache serves the masks it holds; a run that fills its own keeps one per epoch."""
        mask = run.table(MaskSettings).settled()
        cached = needed and not needed & ~CACHEABLE and not run.teacher_cache.live
        if mask.rounds or not cached:
            return run.but(mask=mask)
        rounds = _cached_rounds(run.teacher_cache.cache) if run.teacher_cache.cache else 0
        return run.but(mask=mask.but(rounds=rounds or ceil(run.train.epochs)))

    def check(self, run: Any, setup: Setup, student: Model, objectives: Sequence[Objective], needed: Want) -> None:
        super().check(run, setup, student, objectives, needed)
        pairs = run.table(BlockSettings).pairs
        if any(isinstance(part, NextSentence) for one in objectives for _, part in one.weighted) and not pairs:
            raise KnobError("'next-sentence' needs pairs of sentences", "add --blocks.pairs")
        if pairs and not has_next_sentence_head(student.network):
            raise KnobError(
                f"a {type(student.network).__name__} has no head for sentence pairs",
                "leave out --blocks.pairs, or set --student.family same",
            )

    def baseline(self, objective: Objective) -> Objective:
        return 1.0 * LanguageModeling()

    def supervised(self) -> Objective:
        """What `limbeck train` learns towards."""
        alone: Objective = 1.0 * LanguageModeling()
        return alone + NextSentence() if self.knobs.table(BlockSettings).pairs else alone

    def evaluate_teacher(self, setup: Setup, teacher: Teacher, place: Path) -> Evaluation | None:
        """Its outputs are remembered on the way, for students to be compared with when it is gone."""
        if setup.teacher is None:
            return None
        return replace(
            setup.data.evaluator.with_teacher(teacher).test(setup.teacher.network), fidelity=None, disagreements=()
        )

    def labels_only(self) -> str:
        return "text only"

    def evaluate(self, model: Model, splits: RunningText, watcher: Watcher, teacher: Model | None = None) -> Evaluated:
        data = self.encode(splits, model, watcher, teacher)
        if teacher is None:
            return data.info, [data.evaluator.test(model.network)]
        beside = MemoryTeacher(LiveTeacher(teacher.network, vocabulary=data.info.vocab_size))
        theirs = data.evaluator.test(teacher.network)
        watcher.at(evaluating(teacher), 1.0)
        return data.info, [data.evaluator.with_teacher(beside).test(model.network), theirs]

    def _corpus(self, splits: RunningText, processor: Any, watcher: Watcher) -> LanguageCorpus:
        blocks, kind = self.knobs.table(BlockSettings), self.info.kind
        return load_language(self.knobs.data, blocks, kind, processor, splits.data, watcher, splits.only_test)  # type: ignore[arg-type]


def _cached_rounds(folder: str) -> int:
    """How many masks per block a cache holds, as its maker wrote down."""
    if not (Path(folder) / "index.json").exists():
        return 0
    return int(TopKCache.open(folder).manifest.notes.get("mask", {}).get("rounds", 0))


def check_length(corpus: LanguageCorpus, *networks: PreTrainedModel) -> None:
    """Refuses blocks that a model cannot read at once."""
    most = min(filter(None, map(positions_of, networks)), default=corpus.length)
    if corpus.length > most:
        raise KnobError(
            f"blocks have {corpus.length} tokens, but the model reads {most} at once", f"set --blocks.length to {most}"
        )


def text_fingerprint(corpus: LanguageCorpus) -> str:
    """Names the blocks and their order."""
    digest = hashlib.blake2b(digest_size=8)
    for name in SPLITS:
        blocks: Blocks = getattr(corpus, name)
        for column in (blocks.ids, blocks.offsets, blocks.learnt, blocks.types, blocks.next_sentence_label):
            digest.update(np.ascontiguousarray(column).tobytes())
    return digest.hexdigest()


def mask_fingerprint(kind: str, mask: MaskSettings) -> str:
    """Names how tokens are masked and which are compared, whatever the number of rounds."""
    said = mask.but(rounds=0).model_dump() if kind == "mask-fill" else {}
    return hashlib.blake2b(json.dumps([kind, said], sort_keys=True).encode(), digest_size=8).hexdigest()
