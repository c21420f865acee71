"""What seq2seq models generate: how good it is, and what a Record shows of it beside its figures."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
from transformers import PreTrainedModel

from limbeck.core.errors import LimbeckError
from limbeck.core.progress import Watcher
from limbeck.core.record import Artifact, Record, Sample
from limbeck.core.task import TaskInfo
from limbeck.core.teacher import Teacher
from limbeck.data.batches import batches
from limbeck.data.padding import Collator
from limbeck.data.seq2seq.pairs import Parallel
from limbeck.data.seq2seq.sequences import Sequences, encode_sequences
from limbeck.engines.base import Engine, Hypothesis
from limbeck.engines.ctranslate2 import CTranslate2Engine
from limbeck.engines.transformers import TransformersEngine
from limbeck.exporters.ctranslate2 import convert
from limbeck.measure.disagreements import sequence_disagreements
from limbeck.measure.fidelity import sequence_fidelity
from limbeck.measure.quality import quality
from limbeck.measure.significance import compare
from limbeck.measure.size import size_of
from limbeck.measure.timing import speeds_of
from limbeck.measure.tokens import token_statistics
from limbeck.measure.written import BEST, sentence_statistics
from limbeck.students.load import load
from limbeck.tasks.base import Evaluation, Evaluator
from limbeck.teachers.settings import TranslateSettings
from limbeck.teachers.switch import score_name

BATCH = 64  # sentences
INT8 = "student-int8"  # the folder
Nats = tuple[np.ndarray, np.ndarray]  # of each sentence: −log probability of its tokens, and how many they are


@dataclass(frozen=True)
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

    @cached_property
    def dev(self) -> Sequences:
        return self.encoded(self.dev_texts.sources, self.dev_texts.targets)

    @property
    def test_rows(self) -> int:
        return len(self.test_texts)

    def with_teacher(self, teacher: Teacher, test: Evaluation | None = None) -> Seq2SeqEvaluator:
        return replace(self, teacher=test)

    def dev_metrics(self, model: PreTrainedModel) -> dict[str, float]:
        """Greedy on dev: what early stopping watches, and quick enough to be done often."""
        texts = self.dev_texts
        best = _texts(self.engine(model).translate(texts.sources))
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
        theirs = _texts(beam) if teacher_texts is None else teacher_texts
        taught = self._nats(model, self.encoded(texts.sources, theirs)) if len(theirs) else None
        return self._evaluation(greedy, beam, gold, taught)

    def test_engine(self, engine: Engine, single: bool = False) -> Evaluation:
        """Of an engine that gives no probabilities of given texts; a `single` one has no beam either."""
        unknown = np.zeros(len(self.test_texts))
        return self._evaluation(*self._generated(engine, single), (unknown, unknown), None)

    def _evaluation(self, greedy: Written, beam: Written, gold: Nats, taught: Nats | None) -> Evaluation:
        texts, best = _texts(beam), np.array([one[0].log_p for one in beam])
        rows = sentence_statistics(_texts(greedy), texts, self.test_texts.targets, gold, taught, best)
        return Evaluation(self.test_texts.uids, rows, self.scores(rows), texts=texts)

    def _generated(self, engine: Engine, single: bool = False) -> tuple[Written, Written]:
        sources = self.test_texts.sources
        greedy = engine.translate(sources)
        return greedy, greedy if single else engine.translate(sources, self.settings.test_beam)

    def engine(self, model: PreTrainedModel) -> TransformersEngine:
        return TransformersEngine(model, self.processor, **generation(self.settings))

    def encoded(self, sources: Sequence[str], targets: Sequence[str]) -> Sequences:
        return encode_sequences(sources, targets, self.processor, self.start, self.max_length)

    def _nats(self, model: PreTrainedModel, rows: Sequences) -> Nats:
        collate = Collator.of(self.processor, self.info)
        found = token_statistics(model, batches(rows, collate, BATCH), self.info.vocab_size)
        of_uid = dict(zip(found.uids.tolist(), found.sums, strict=True))
        sums = np.stack([of_uid[uid] for uid in rows.uids.tolist()])
        return sums[:, 0], sums[:, 2]

    def scores(self, rows: np.ndarray) -> dict[str, float]:
        every = np.ones(len(rows), dtype=bool)
        return quality(self.info, rows, every, every)[0]


Written = list[list[Hypothesis]]  # of each source, best first


def generation(settings: TranslateSettings) -> dict[str, Any]:
    return settings.model_dump(include={"length_penalty", "longest", "batch_tokens"})


def _texts(written: Written) -> list[str]:
    return [one[0].text for one in written]


def with_generated(record: Record, finished: Any, watcher: Watcher) -> Record:
    """With samples, and the best student in int8, measured where it will run."""
    evaluator: Seq2SeqEvaluator = finished.done[0].data.evaluator
    record = record.but(samples=_samples(finished, evaluator))
    try:
        artifact, troubles = _int8(finished, evaluator, watcher)
    except LimbeckError as error:
        return record.but(notes=[*record.notes, f"No int8 student: {error.problem}. {error.remedy}"])
    return record.but(artifacts=[*record.artifacts, artifact], notes=[*record.notes, *troubles])


def _samples(finished: Any, evaluator: Seq2SeqEvaluator) -> list[Sample]:
    """Test sources, spread over the split, and what the first seed of every arm generates by a beam."""
    count = min(finished.run.measure.examples, evaluator.test_rows)
    if not count:
        return []
    rows = np.linspace(0, evaluator.test_rows - 1, count).round().astype(int).tolist()
    chosen = evaluator.test_texts.take(rows)
    written: dict[str, list[str]] = {}
    if finished.test is not None and finished.test.texts:
        written["teacher"] = [finished.test.texts[row] for row in rows]
    for arm in finished.done:
        folder, trusted = str(finished.results[arm.name][0].model), finished.run.trust_remote_code
        network, processor = load(folder, "translate", trust_remote_code=trusted)
        engine = replace(evaluator, processor=processor).engine(network)
        written[arm.name] = _texts(engine.translate(chosen.sources, evaluator.settings.test_beam))
    return [
        Sample(source=source, reference=target, written={name: texts[row] for name, texts in written.items()})
        for row, (source, target) in enumerate(zip(chosen.sources, chosen.targets, strict=True))
    ]


def _int8(finished: Any, evaluator: Seq2SeqEvaluator, watcher: Watcher) -> tuple[Artifact, list[str]]:
    """In CTranslate2, compared with its float32; and what hindered its timing."""
    (arm, result), run, folder = finished.best(), finished.run, finished.folder / INT8
    convert(result.model, folder, "int8")
    engine = CTranslate2Engine(folder, **generation(evaluator.settings))
    found = replace(evaluator, processor=arm.data.processor).test_engine(engine)
    texts, beam = [(source, "") for source in evaluator.test_texts.sources], evaluator.settings.test_beam
    speeds, troubles = speeds_of({INT8: folder}, texts, run.measure, run.data.max_length, watcher, beam)
    info, rows = finished.setup.info, np.ones(evaluator.test_rows, dtype=bool)
    statistics = [found.statistics], [result.statistics]
    both = compare(info, info.metric, INT8, arm.name, *statistics, rows, rows, rounds=run.measure.bootstrap)
    made = Artifact(
        name=INT8,
        arm=arm.name,
        seed=result.result.seed,
        engine="CTranslate2",
        precision="int8",
        path=INT8,
        quality=found.scores,
        size=size_of(arm.start.network, folder),
        speed=speeds.get(INT8),
        comparison=both,
    )
    return made, troubles
