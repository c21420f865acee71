"""Measures what a sequence-to-sequence model generates."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
from transformers import PreTrainedModel

from limbeck.core.record import Floor
from limbeck.core.task import TaskInfo
from limbeck.core.trace import Teacher
from limbeck.data.batches import Collator, batches
from limbeck.data.seq2seq.directions import without_prefix
from limbeck.data.seq2seq.pairs import Parallel
from limbeck.data.seq2seq.sequences import Sequences, encode_sequences
from limbeck.engines.base import Engine, Hypothesis
from limbeck.engines.transformers import TransformersEngine
from limbeck.measure.evaluator import Evaluation, Evaluator
from limbeck.measure.fidelity import sequence_disagreements, sequence_fidelity
from limbeck.measure.floor import COPIED_SOURCE
from limbeck.measure.quality import quality
from limbeck.measure.tokens import token_statistics
from limbeck.measure.translation import BEST, sentence_statistics
from limbeck.teachers.settings import TranslateSettings
from limbeck.teachers.switch import score_name

BATCH = 64  # sentences
Written = list[list[Hypothesis]]  # of each source, best first
Nats = tuple[np.ndarray, np.ndarray]  # of each sentence: −log probability of its tokens, and how many they are


@dataclass(eq=False)
class Seq2SeqEvaluator(Evaluator):
    """What a model generates, greedily and by a beam, and how probable it finds references and the teacher's texts.

    `Seq2SeqEvaluator(info, tokenizer, start, dev, test, TranslateSettings(), 128).test(model).scores["bleu"]`
    """

    passes: ClassVar[tuple[int, int]] = (10, 60)  # generating takes about ten passes, a beam of five fifty
    info: TaskInfo
    processor: Any
    start: int  # the decoder's first token
    dev_texts: Parallel
    test_texts: Parallel
    settings: TranslateSettings
    max_length: int
    examples: int = 0  # disagreements to keep
    teacher: Evaluation | None = None  # on the test split
    parts: Mapping[str, slice] = field(default_factory=dict)  # of several directions: the dev rows of each
    train_uids: Sequence[int] = ()  # of the training sources
    prefix: str = ""  # before every source, for the model alone

    def __post_init__(self) -> None:
        self.collate = Collator.of(self.processor, self.info)
        self.test_rows = len(self.test_texts)

    @cached_property
    def dev(self) -> Sequences:  # type: ignore[override]
        return self.encoded(self.dev_texts.sources, self.dev_texts.targets)

    def with_teacher(self, teacher: Teacher, test: Evaluation | None = None) -> Seq2SeqEvaluator:
        return replace(self, teacher=test)

    def dev_metrics(self, model: PreTrainedModel) -> dict[str, float]:
        """Greedy on dev: what early stopping watches, and quick enough to be done often."""
        texts = self.dev_texts
        best = best_texts(self.engine(model).translate(texts.sources))
        gold = self._nats(model, self.dev)
        rows = sentence_statistics(best, best, texts.targets, gold, None, np.full(len(texts), np.nan))
        scores = self.scores(rows)
        return {
            "loss": gold[0].sum() / max(gold[1].sum(), 1),
            **{name: scores[name] for name in ("bleu", "chrf", "perplexity") if name in scores},
            **{score_name(name): self.scores(rows[part])["bleu"] for name, part in self.parts.items()},
        }

    def test(self, model: PreTrainedModel) -> Evaluation:
        return self.beside_teacher(self._tested(model, self.teacher.texts if self.teacher else ()))

    def beside_teacher(self, found: Evaluation) -> Evaluation:
        """With how close it is to the teacher, if there is one."""
        if self.teacher is None:
            return found
        teacher, texts = self.teacher, self.test_texts
        ours, theirs = ((one.texts, one.statistics[:, BEST]) for one in (found, teacher))
        close = sequence_fidelity(found.statistics, teacher.statistics, found.texts, teacher.texts)
        apart = sequence_disagreements(texts.sources, texts.targets, *ours, *theirs, most=self.examples)
        return replace(found, fidelity=close, disagreements=apart)

    def of_teacher(self, network: PreTrainedModel) -> Evaluation:
        """Its own translations stand for the teacher's."""
        return self._tested(network, None)

    def _tested(self, model: PreTrainedModel, teacher_texts: Sequence[str] | None) -> Evaluation:
        texts = self.test_texts
        greedy, beam = self._generated(self.engine(model))
        gold = self._nats(model, self.encoded(texts.sources, texts.targets))
        theirs = best_texts(beam) if teacher_texts is None else teacher_texts
        taught = self._nats(model, self.encoded(texts.sources, theirs)) if len(theirs) else None
        return self._evaluation(greedy, beam, gold, taught)

    def test_engine(self, engine: Engine, single: bool = False) -> Evaluation:
        """Of an engine that gives no probabilities of given texts; a `single` one has no beam either."""
        unknown = np.zeros(len(self.test_texts))
        return self._evaluation(*self._generated(engine, single), (unknown, unknown), None)

    def _evaluation(self, greedy: Written, beam: Written, gold: Nats, taught: Nats | None) -> Evaluation:
        texts, best = best_texts(beam), np.array([one[0].log_p for one in beam])
        rows = sentence_statistics(best_texts(greedy), texts, self.test_texts.targets, gold, taught, best)
        return self.evaluation(rows, texts)

    def evaluation(self, rows: np.ndarray, texts: Sequence[str]) -> Evaluation:
        """Of sentence statistics, and what was written with a beam."""
        same = texts[0] if len(texts) > 1 and len(set(texts)) == 1 else ""
        found = Evaluation(self.test_texts.uids, rows, self.scores(rows), texts=texts, constant=same)
        return self.without_seen(found, self.seen)

    def keys(self, split: str) -> Sequence[Hashable]:
        """Sources alone, as uids have it: a model that learnt another translation of a source has learnt from it, and
        a teacher's translation of it is what it learns where people gave none."""
        uids = {"train": self.train_uids, "test": self.test_texts.uids.tolist()}
        return uids[split]

    def floor(self) -> Floor | None:
        texts = self.test_texts
        copies, unknown = [without_prefix(source, self.prefix) for source in texts.sources], np.zeros(len(texts))
        scores = self.scores(sentence_statistics(copies, copies, texts.targets, (unknown, unknown)))
        scores.pop("beam_gain", None)  # a copy is not searched for
        return Floor(title=COPIED_SOURCE, quality=scores) if scores else None

    def _generated(self, engine: Engine, single: bool = False) -> tuple[Written, Written]:
        sources = self.test_texts.sources
        greedy = engine.translate(sources)
        return greedy, greedy if single else engine.translate(sources, self.settings.test_beam)

    def engine(self, model: PreTrainedModel) -> TransformersEngine:
        return TransformersEngine(model, self.processor, **generation(self.settings))

    def encoded(self, sources: Sequence[str], targets: Sequence[str]) -> Sequences:
        return encode_sequences(sources, targets, self.processor, self.start, self.max_length)

    def _nats(self, model: PreTrainedModel, rows: Sequences) -> Nats:
        found = token_statistics(model, batches(rows, self.collate, BATCH), self.info.vocab_size)
        of_uid = dict(zip(found.uids.tolist(), found.sums, strict=True))
        sums = np.stack([of_uid[uid] for uid in rows.uids.tolist()])
        return sums[:, 0], sums[:, 2]

    def scores(self, rows: np.ndarray) -> dict[str, float]:
        every = np.ones(len(rows), dtype=bool)
        return quality(self.info, rows, every, every)[0]


def generation(settings: TranslateSettings) -> dict[str, Any]:
    return settings.model_dump(include={"length_penalty", "longest", "batch_tokens"})


def best_texts(written: Written) -> list[str]:
    return [one[0].text for one in written]
