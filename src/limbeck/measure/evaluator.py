"""Measures models on dev while they train, and on test; beside a teacher, also how close they are to it."""

from __future__ import annotations

import copy
from abc import ABC, abstractmethod
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from itertools import compress
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np

from limbeck.core.record import ClassScore, Disagreement, Fidelity, Floor, ReliabilityBin, SeedResult
from limbeck.core.task import TaskInfo
from limbeck.core.trace import Batch, NoTeacher, Teacher
from limbeck.data.batches import Collator, Dataset, batches
from limbeck.data.image.encoded import EncodedImages
from limbeck.data.language.examples import Tokens
from limbeck.data.text.examples import Encoded
from limbeck.measure.fidelity import fidelity, text_disagreements, token_disagreements
from limbeck.measure.floor import constant_logits, unigram_sums
from limbeck.measure.predictions import constant, logits_of, predict, teacher_logits
from limbeck.measure.quality import confusion, quality, reliability
from limbeck.measure.tokens import TokenStatistics, token_statistics

if TYPE_CHECKING:
    from transformers import EvalPrediction, PreTrainedModel

TEXT_BATCH, BLOCKS = 64, 32  # rows of a batch
AGREEMENT, BOTH = "agreement", "labels_and_agreement"  # dev metrics by which weights are chosen


@dataclass(frozen=True)
class Evaluation:
    """A model on the test split: per-row statistics, from which every metric and every resample is computed."""

    uids: np.ndarray
    statistics: np.ndarray  # [rows, k]; of texts, the logits
    scores: dict[str, float]
    per_class: Sequence[ClassScore] = ()
    fidelity: Fidelity | None = None
    labels: np.ndarray = field(default_factory=partial(np.empty, 0))  # where the metrics need them too
    has_label: np.ndarray = field(default_factory=partial(np.empty, 0, dtype=bool))
    texts: Sequence[str] = ()  # what a generating model wrote
    disagreements: Sequence[Disagreement] = ()  # with the teacher, the surest first
    unseen: dict[str, float] = field(default_factory=dict)  # the scores on the rows that are not in train
    constant: str = ""  # the one answer of every row, if it is one
    confusion: list[list[int]] = field(default_factory=list)
    reliability: list[ReliabilityBin] = field(default_factory=list)

    def result(self, seed: int = 0) -> SeedResult:
        same = ("per_class", "fidelity", "unseen", "constant", "confusion", "reliability")
        return SeedResult(seed=seed, quality=self.scores, **{name: getattr(self, name) for name in same})


class Evaluator(ABC):
    """Of one processor's rows. A kind of problem says what is measured on dev and on test."""

    passes: ClassVar[tuple[int, int]] = (1, 1)  # forward passes that a row of dev and one of test costs
    agrees: ClassVar[bool] = False  # dev can be measured by agreement with the teacher
    info: TaskInfo
    dev_labelled: bool = True  # dev has labels that people gave
    best_by: str = "labels"  # or AGREEMENT, or BOTH
    processor: Any
    splits: Mapping[str, Dataset]  # only `test` where a model is only evaluated
    dev: Dataset
    test_rows: int
    collate: Collator

    def __post_init__(self) -> None:
        self.collate = Collator.of(self.processor, self.info)
        self.test_rows = len(self.splits.get("test", ()))
        if "dev" in self.splits:
            self.dev = self.splits["dev"]

    @property
    def labels_on_dev(self) -> bool:
        """Whether people gave labels for any of dev, or every row has what it is scored by."""
        labels = getattr(getattr(self, "dev", None), "has_label", None)
        return self.dev_labelled and (not self.agrees or labels is None or bool(labels.any()))

    @property
    def knows_agreement(self) -> bool:
        """Whether dev can be measured by agreement with the teacher, here and now."""
        return self.agrees and not isinstance(getattr(self, "teacher", NoTeacher()), NoTeacher)

    def choosing(self, best_by: str) -> Self:
        """The same, whose dev metrics have what the best weights are known by.

        `best_by` is as in a Schedule; what cannot be told (no teacher, no labels) is told by the other."""
        found, known = copy.copy(self), self.knows_agreement
        found.best_by = best_by if best_by in (AGREEMENT, "both") and known else "labels"
        if not self.dev_labelled and known:
            found.best_by = AGREEMENT
        return found

    @property
    def best_metric(self) -> str:
        return {"labels": self.info.metric, "both": BOTH}.get(self.best_by, self.best_by)

    @property
    def best_is_higher(self) -> bool:
        return self.info.higher_is_better or self.best_by != "labels"

    def with_agreement(self, scores: dict[str, float], agreement: Callable[[], float]) -> dict[str, float]:
        """The scores on dev's labels, and what else the best weights are known by."""
        if self.best_by == "labels":
            return scores
        alike = agreement()
        if not self.dev_labelled:
            return {AGREEMENT: alike}
        mean = {BOTH: (scores[self.info.metric] + alike) / 2} if self.best_by == "both" else {}
        return {**scores, AGREEMENT: alike, **mean}

    def floor(self) -> Floor | None:
        """What needs no model, on the test split; none where nothing of it is scored."""
        return None

    def keys(self, split: str) -> Sequence[Hashable]:
        """What tells the rows of a split apart, as their uids do; nothing where a row is no text of its own."""
        return ()

    @cached_property
    def seen(self) -> np.ndarray:
        """[test rows] bool: which stand in train too."""
        test = self.keys("test")
        wanted = set(test)  # of test, since train may be large
        train = {key for key in self.keys("train") if key in wanted}
        return np.array([key in train for key in test], dtype=bool)

    def without_seen(self, found: Evaluation, seen: np.ndarray) -> Evaluation:
        """With the scores on the other rows, where some are `seen`."""
        if not seen.any():
            return found
        every = np.ones(len(seen), dtype=bool)
        labels, has_label = (found.labels, found.has_label) if len(found.has_label) else (every, every)
        rows = (values[~seen] for values in (found.statistics, labels, has_label))
        return replace(found, unseen=quality(self.info, *rows)[0])

    @abstractmethod
    def dev_metrics(self, model: PreTrainedModel) -> dict[str, float]: ...

    def while_training(self) -> dict[str, Callable[..., dict[str, float]]]:
        """The dev metrics as the trainer takes them: from the model, or from all logits of its own evaluation loop."""
        return {"dev_metrics": self.dev_metrics}

    @abstractmethod
    def test(self, model: PreTrainedModel) -> Evaluation: ...

    @abstractmethod
    def with_teacher(self, teacher: Teacher, test: Evaluation | None = None) -> Self:
        """The same, comparing with a teacher and what it made of the test split."""

    @abstractmethod
    def of_teacher(self, network: PreTrainedModel) -> Evaluation:
        """The teacher itself on test: from its outputs, where they say all, else by its network."""


@dataclass(eq=False)
class TextEvaluator(Evaluator):
    """Logits of every text or image; metrics, fidelity and disagreements are computed from them.

    `TextEvaluator(info, tokenizer, {"dev": dev, "test": test}).test(model).scores["accuracy"]`
    """

    agrees: ClassVar[bool] = True
    info: TaskInfo
    processor: Any
    splits: Mapping[str, Encoded | EncodedImages]
    examples: int = 0  # disagreements to keep
    teacher: Teacher = field(default_factory=NoTeacher)
    dev_labelled: bool = True

    def with_teacher(self, teacher: Teacher, test: Evaluation | None = None) -> TextEvaluator:
        """Where dev has no labels, the teacher's answers stand for them."""
        found, dev = replace(self, teacher=teacher), self.splits["dev"]
        if dev.has_label.any() or not len(dev):
            return found
        logits = found._teacher_logits("dev")
        if self.info.single_label:
            labels = logits.argmax(-1)
        else:
            labels = (logits > 0).astype(np.float32) if self.info.kind == "multilabel" else logits[:, 0]
        return replace(found, splits={**self.splits, "dev": dev.with_labels(labels)}, dev_labelled=False)

    def dev_metrics(self, model: PreTrainedModel) -> dict[str, float]:
        dev = self.splits["dev"]
        return self._dev_scores(self.logits("dev", model), dev.labels, dev.has_label, dev.uids)

    def while_training(self) -> dict[str, Callable[..., dict[str, float]]]:
        def compute_metrics(prediction: EvalPrediction) -> dict[str, float]:
            labels, has_label, uids = prediction.label_ids
            return self._dev_scores(prediction.predictions, labels, has_label.astype(bool), uids)

        return {"compute_metrics": compute_metrics}

    def _dev_scores(
        self, logits: np.ndarray, labels: np.ndarray, has_label: np.ndarray, uids: np.ndarray
    ) -> dict[str, float]:
        def agreement() -> float:
            theirs = self._teacher_dev[np.searchsorted(self._dev_uids, uids)]
            return fidelity(self.info, logits, theirs, labels, has_label).agreement or 0.0

        scores = quality(self.info, logits, labels, has_label)[0]
        return self.with_agreement(scores, agreement)

    @cached_property
    def _dev_uids(self) -> np.ndarray:
        return np.sort(self.splits["dev"].uids)

    @cached_property
    def _teacher_dev(self) -> np.ndarray:
        """[dev rows, outputs], by rising uid."""
        return self._teacher_logits("dev")[np.argsort(self.splits["dev"].uids)]

    def test(self, model: PreTrainedModel) -> Evaluation:
        return self.evaluation(self.logits("test", model), self._teacher_test)

    def of_teacher(self, network: PreTrainedModel | None = None) -> Evaluation:
        """On the rows that it has an answer to."""
        return self.evaluation(self._teacher_test, scored=_answered(self.splits["test"]))

    def evaluation(
        self,
        logits: np.ndarray,
        teacher: np.ndarray = np.empty(0),  # noqa: B008
        scored: np.ndarray | None = None,
    ) -> Evaluation:
        """With how close the logits are to the teacher's, if there are any; over the `scored` rows, or all."""
        split, info = self.splits["test"], self.info
        counted = np.ones(len(split), dtype=bool) if scored is None else scored
        rows = split.labels, split.has_label & counted
        scores, per_class = quality(info, logits, *rows)
        found = Evaluation(
            *(split.uids, logits, scores, per_class, None, *rows),
            constant=constant(info, logits_of(info, logits)[counted], split.labels[split.has_label]),
            confusion=confusion(info, logits, *rows),
            reliability=reliability(info, logits, *rows),
        )
        found = replace(self.without_seen(found, self.seen), has_label=split.has_label)
        both = _answered(split)
        if not len(teacher) or not both.any():
            return found
        mine, theirs, labels, known = (values[both] for values in (logits, teacher, split.labels, split.has_label))
        examples = split.examples
        texts, pairs = (list(compress(column, both)) for column in (examples.texts, examples.pairs))
        apart = text_disagreements(info, texts, pairs, mine, theirs, labels, known, most=self.examples)
        return replace(found, fidelity=fidelity(info, mine, theirs, labels, known), disagreements=apart)

    def floor(self) -> Floor | None:
        test = self.splits["test"]
        split = "train" if "train" in self.splits and self.splits["train"].has_label.any() else "test"
        known = self.splits[split]
        if not test.has_label.any():
            return None
        title, logits = constant_logits(self.info, known.labels[known.has_label], split)
        same = np.tile(logits, (len(test), 1))
        return Floor(title=title, quality=quality(self.info, same, test.labels, test.has_label)[0])

    def keys(self, split: str) -> Sequence[Hashable]:
        return self.splits[split].examples.keys if split in self.splits else ()

    def logits(self, name: str, model: PreTrainedModel, on_share: Callable[[float], None] | None = None) -> np.ndarray:
        return predict(model, self._batches(name), self.splits[name].uids, on_share)

    @cached_property
    def _teacher_test(self) -> np.ndarray:
        return np.empty(0) if isinstance(self.teacher, NoTeacher) else self._teacher_logits("test")

    def _teacher_logits(self, name: str) -> np.ndarray:
        return teacher_logits(self.teacher, self._batches(name), self.splits[name].uids, self.info.outputs)

    def _batches(self, name: str) -> Iterator[Batch]:
        return batches(self.splits[name], self.collate, TEXT_BATCH)


def _answered(split: Encoded | EncodedImages) -> np.ndarray:
    """[rows] bool: those that a teacher has an answer to; all of them, but where its answers stand in the file."""
    answered: np.ndarray = getattr(split, "answered", np.ones(len(split), dtype=bool))
    return answered


@dataclass(eq=False)
class LanguageEvaluator(Evaluator):
    """The probability of every predicted token of a split.

    `task.encode(text, model, Silent()).evaluator.test(network).scores["perplexity"]`
    """

    info: TaskInfo
    processor: Any
    splits: Mapping[str, Tokens]
    examples: int = 0  # disagreements to keep
    teacher: Teacher = field(default_factory=NoTeacher)

    def with_teacher(self, teacher: Teacher, test: Evaluation | None = None) -> LanguageEvaluator:
        return replace(self, teacher=teacher)

    def dev_metrics(self, model: PreTrainedModel) -> dict[str, float]:
        scores = self._scores(self._statistics(model, "dev", NoTeacher()).sums)
        return {"loss": scores["token_nll"], **scores}

    def test(self, model: PreTrainedModel) -> Evaluation:
        found = self._statistics(model, "test", self.teacher, self.examples)
        apart = token_disagreements(found.examples, self.processor.decode)
        token = self.processor.convert_ids_to_tokens(found.constant) if found.constant >= 0 else ""
        scores = self._scores(found.sums)
        return Evaluation(
            *(found.uids, found.sums, scores), fidelity=found.fidelity, disagreements=apart, constant=token
        )

    def of_teacher(self, network: PreTrainedModel) -> Evaluation:
        """A MemoryTeacher keeps what it sees here, so that students are compared with it after it is freed."""
        return replace(self.test(network), fidelity=None, disagreements=())

    def floor(self) -> Floor | None:
        """A unigram model of the training text, on the very tokens that are scored."""
        split = "train" if len(self.splits.get("train", ())) else "test"
        scored = self.splits["test"].scored_tokens()
        if not len(scored):
            return None
        sums = unigram_sums(self.splits[split].text_tokens(), scored, self.info.vocab_size)
        return Floor(title=f"unigrams of {split}", quality=self._scores(sums))

    def _statistics(self, model: PreTrainedModel, split: str, teacher: Teacher, examples: int = 0) -> TokenStatistics:
        rows = batches(self.splits[split], self.collate, BLOCKS)
        return token_statistics(model, rows, self.info.vocab_size, teacher, examples=examples)

    def _scores(self, sums: np.ndarray) -> dict[str, float]:
        rows = np.ones(len(sums), dtype=bool)
        return quality(self.info, sums, rows, rows)[0]
