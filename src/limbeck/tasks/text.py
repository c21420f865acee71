"""Text classification: one label, several labels, or a number for each text or pair of texts."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
from torch import Tensor
from transformers import EvalPrediction, PreTrainedModel

from limbeck.core.errors import KnobError, MismatchError
from limbeck.core.files import write_text
from limbeck.core.objective import Objective
from limbeck.core.progress import Watcher
from limbeck.core.task import TEXT_KINDS, Kind, TaskInfo
from limbeck.core.teacher import NoTeacher, Teacher
from limbeck.core.want import PER_TEXT, Want
from limbeck.data.augment import augment, unlabelled
from limbeck.data.batches import Collator, batches
from limbeck.data.settings import AugmentSettings, DataSettings
from limbeck.data.text.examples import Corpus, Encoded, Examples, concatenate, encode, read_texts, relabel
from limbeck.data.text.labels import is_generic, permutation
from limbeck.data.tinybert import MaskedWords, words_from
from limbeck.measure.disagreements import text_disagreements
from limbeck.measure.fidelity import fidelity
from limbeck.measure.predict import collect, predict
from limbeck.measure.quality import quality
from limbeck.students.load import kind_of
from limbeck.students.load import load as load_model
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
    same_tokens,
    task,
)

SPLITS = ("train", "dev", "test")
BATCH = 64  # texts


@dataclass(frozen=True)
class TextEvaluator(Evaluator):
    info: TaskInfo
    processor: Any
    splits: Mapping[str, Encoded]
    examples: int = 0  # disagreements to keep
    teacher: Teacher = field(default_factory=NoTeacher)

    @property
    def dev(self) -> Encoded:
        return self.splits["dev"]

    @property
    def test_rows(self) -> int:
        return len(self.splits["test"])

    def collate(self, rows: list[dict[str, Any]]) -> dict[str, Tensor]:
        return Collator.of(self.processor, self.info)(rows)

    def with_teacher(self, teacher: Teacher, test: Evaluation | None = None) -> TextEvaluator:
        """Where dev has no labels, the teacher's answers stand for them."""
        found = replace(self, teacher=teacher)
        if self.dev.has_label.any() or not len(self.dev):
            return found
        logits = found._teacher_logits("dev")
        if self.info.kind == "classify":
            labels = logits.argmax(-1)
        else:
            labels = (logits > 0).astype(np.float32) if self.info.kind == "multilabel" else logits[:, 0]
        return replace(found, splits={**self.splits, "dev": self.dev.with_labels(labels)})

    def dev_metrics(self, model: PreTrainedModel) -> dict[str, float]:
        dev = self.dev
        return quality(self.info, self._logits(model, dev), dev.labels, dev.has_label)[0]

    def while_training(self) -> dict[str, Callable[[Any], dict[str, float]]]:
        def compute_metrics(prediction: EvalPrediction) -> dict[str, float]:
            labels, has_label = prediction.label_ids
            return quality(self.info, prediction.predictions, labels, has_label.astype(bool))[0]

        return {"compute_metrics": compute_metrics}

    def test(self, model: PreTrainedModel) -> Evaluation:
        return self.beside(self.scored(self.test_logits(model)), self._teacher_test)

    def of_teacher(self) -> Evaluation:
        return self.scored(self._teacher_test)

    def scored(self, logits: np.ndarray) -> Evaluation:
        split = self.splits["test"]
        scores, per_class = quality(self.info, logits, split.labels, split.has_label)
        return Evaluation(split.uids, logits, scores, per_class, None, split.labels, split.has_label)

    def beside(self, found: Evaluation, teacher: np.ndarray) -> Evaluation:
        """With how close it is to the teacher's logits, if there are any."""
        if not len(teacher):
            return found
        test, rows = self.splits["test"].examples, (found.labels, found.has_label)
        apart = text_disagreements(
            self.info, test.texts, test.pairs, found.statistics, teacher, *rows, most=self.examples
        )
        return replace(found, fidelity=fidelity(self.info, found.statistics, teacher, *rows), disagreements=apart)

    def test_logits(self, model: PreTrainedModel, on_share: Callable[[float], None] = lambda share: None) -> np.ndarray:
        rows = max(self.test_rows, 1)
        return self._logits(model, self.splits["test"], lambda done: on_share(done / rows))

    def _logits(
        self, model: PreTrainedModel, split: Encoded, on_batch: Callable[[int], None] | None = None
    ) -> np.ndarray:
        return predict(
            model, batches(split, Collator.of(self.processor, self.info), BATCH), split.uids, on_batch=on_batch
        )

    @cached_property
    def _teacher_test(self) -> np.ndarray:
        return np.empty(0) if isinstance(self.teacher, NoTeacher) else self._teacher_logits("test")

    def _teacher_logits(self, name: str) -> np.ndarray:
        split = self.splits[name]
        asked = batches(split, Collator.of(self.processor, self.info), BATCH)
        return collect(lambda batch: self.teacher.answer(batch).logits, asked, split.uids, self.info.outputs)


@task
@dataclass(frozen=True)
class TextClassification(Task):
    """A label, several labels or a number for each text or pair."""

    kinds: ClassVar[tuple[Kind, ...]] = TEXT_KINDS
    recipes: ClassVar[Mapping[str, str]] = {"classify": "hinton", "multilabel": "hinton", "regress": "logits"}

    def load(self, source: str, *, new_head: bool = False) -> Model:
        how: dict[str, Any] = {"new_head": new_head, "trust_remote_code": self.knobs.trust_remote_code}
        return Model(*load_model(source, self.info.kind, self.info if new_head else None, **how), source=source)

    def read(self, data: object, model: Model | None, watcher: Watcher, *, only_test: bool = False) -> Corpus:
        settings: DataSettings = self.knobs.data
        if model is None:
            return read_texts(settings, data, watcher)
        kind = kind_of(model.network)  # a teacher that states its problem type settles what labels mean
        known = settings.but(task=kind) if kind and settings.task == "auto" else settings
        if only_test:
            corpus = read_texts(known, data, watcher, only_test=True)
            if corpus.task.kind == "regress":
                return corpus
            return relabel(corpus, model.labels, whose="the model", ordered=bool(settings.classes))
        corpus = read_texts(known, data, watcher, known=model.labels)
        return _in_order_of(corpus, model, ordered=bool(settings.classes))

    def encode(self, splits: Corpus, model: Model, watcher: Watcher, teacher: Model | None = None) -> EncodedData:
        rows = {name: encode(getattr(splits, name), model.processor, self.max_length) for name in SPLITS}
        train = rows["train"]
        gold = {GOLD: train} if train.has_label.any() else {}
        return EncodedData(
            info=splits.task,
            processor=model.processor,
            rows={ALL: train, **gold},
            evaluator=TextEvaluator(splits.task, model.processor, rows, self.knobs.measure.examples),
            card=splits.card.but(truncated=sum(split.truncated for split in rows.values())),
            fingerprints={"data": data_fingerprint(splits, str(self.max_length)), "labels": labels_fingerprint(splits)},
            size=len(train),
            for_teacher=tuple(rows.values()),
            has_gold=bool(gold),
            pairs=bool(splits.train.pairs),
        )

    def timing_inputs(self, setup: Setup) -> list[tuple[str, str]]:
        test: Examples = setup.splits.test
        return list(zip(test.texts, test.pairs or [""] * len(test), strict=True))

    def resolve(self, run: Any, setup: Setup, needed: Want) -> Any:
        """Where a term leaves open how a text is pooled: the first token if it is made for that, else the mean."""
        pool = "cls" if setup.data.processor.cls_token_id is not None else "mean"

        def settled(table: dict[str, dict[str, Any]]) -> dict[str, dict[str, Any]]:
            return {
                term: {**entry, "pool": pool} if entry.get("pool") == "auto" else entry for term, entry in table.items()
            }

        stages = {name: stage.but(objective=settled(stage.objective)) for name, stage in run.stages.items()}
        return run.but(
            objective=settled(run.objective),
            stages={name: stage.model_dump() for name, stage in stages.items()},
            augment=run.table(AugmentSettings).settled(),
        )

    def check(self, run: Any, setup: Setup, student: Model, objectives: Sequence[Objective], needed: Want) -> None:
        super().check(run, setup, student, objectives, needed)
        teacher = setup.teacher
        if teacher is None:
            return
        check_outputs(student, teacher)
        if not same_tokens(student.processor, teacher.processor):
            _check_tokens(needed, run)
        if GOLD not in setup.data.rows and not needed:
            raise MismatchError(
                "no training row has a label, and the objective asks for nothing else", "add labels, or --recipe hinton"
            )

    def augmented(self, run: Any, setup: Setup, data: EncodedData, watcher: Watcher) -> EncodedData:
        settings = run.table(AugmentSettings)
        if settings.kind == "none":
            return data
        made = self._made_up(settings, setup, Path(run.out), watcher)
        train = concatenate(setup.splits.train, made)
        rows = encode(train, data.processor, self.max_length)
        mine = [encode(train, setup.data.processor, self.max_length), *setup.data.for_teacher[1:]]
        truncated = data.card.truncated + rows.truncated - data.rows[ALL].truncated  # type: ignore[attr-defined]
        prints = {**data.fingerprints, "augmented": uids_fingerprint(made.uids)} if len(made) else data.fingerprints
        return replace(
            data,
            rows={**data.rows, ALL: rows},
            size=len(rows),
            augmented=len(made),
            for_teacher=tuple(mine),
            card=data.card.but(truncated=truncated),
            fingerprints=prints,
        )

    def _made_up(self, settings: AugmentSettings, setup: Setup, place: Path, watcher: Watcher) -> Examples:
        """Written beside the run: people read it, and a resumed run does."""
        train: Examples = setup.splits.train
        name = f"{settings.model_dump_json()} {setup.fingerprints['data']} {setup.fingerprints['tokenizer']}"
        file = place / f"augmented-{hashlib.blake2b(name.encode(), digest_size=6).hexdigest()}.jsonl"
        if not file.exists():
            mask = setup.data.processor.mask_token or ""
            made = augment(train, settings, mask=mask, masker=_masker(settings, setup), watcher=watcher)
            rows = zip(made.uids.tolist(), made.texts, made.pairs or [""] * len(made), strict=True)
            lines = (json.dumps(dict(zip(("uid", "text", "pair"), row, strict=True))) + "\n" for row in rows)
            write_text(file, "".join(lines))
        found = map(json.loads, file.read_text(encoding="utf-8").splitlines())
        return unlabelled({row["uid"]: (row["text"], row["pair"]) for row in found}, train)

    def evaluate(self, model: Model, splits: Corpus, watcher: Watcher, teacher: Model | None = None) -> Evaluated:
        """The teacher's outputs are put into the model's order."""
        order = _order_of(teacher, model, splits.task, self.knobs.data) if teacher else []
        found = self._evaluator(splits, model)
        ours = found.scored(found.test_logits(model.network, partial(watcher.at, evaluating(model))))
        if teacher is None:
            return splits.task, [ours]
        other = self._evaluator(splits, teacher)
        theirs = other.test_logits(teacher.network, partial(watcher.at, evaluating(teacher)))[:, order]
        return splits.task, [found.beside(ours, theirs), found.scored(theirs)]

    def _evaluator(self, splits: Corpus, model: Model) -> TextEvaluator:
        test = {"test": encode(splits.test, model.processor, self.max_length)}
        return TextEvaluator(splits.task, model.processor, test, self.knobs.measure.examples)


def data_fingerprint(corpus: Any, salt: str) -> str:
    """Names the set of examples, whatever their order, and how many tokens of each are seen."""
    return uids_fingerprint(np.concatenate([getattr(corpus, name).uids for name in SPLITS]), salt)


def uids_fingerprint(uids: np.ndarray, salt: str = "") -> str:
    return hashlib.blake2b(np.sort(uids).tobytes() + salt.encode(), digest_size=8).hexdigest()


def labels_fingerprint(corpus: Any, first: str = "") -> str:
    """Names what is learnt from the examples: their labels, and the order from which a seed shuffles."""
    digest = hashlib.blake2b(first.encode(), digest_size=8)
    for name in SPLITS:
        rows = getattr(corpus, name)
        for column in (rows.uids, rows.labels, rows.has_label):
            digest.update(np.ascontiguousarray(column).tobytes())
    return digest.hexdigest()


def check_outputs(student: Model, teacher: Model) -> None:
    outputs = student.network.config.num_labels, teacher.network.config.num_labels
    if outputs[0] != outputs[1]:
        raise MismatchError(
            f"the student has {outputs[0]} outputs, the teacher {outputs[1]}",
            "give the student as many labels as the teacher",
        )


def _check_tokens(needed: Want, run: Any) -> None:
    """What student and teacher may do when they use different tokenizers."""
    if by_token := needed & ~PER_TEXT:
        raise MismatchError(
            f"the objective compares {by_token} token by token, but student and teacher use different tokenizers",
            "use --recipe logits, hinton or pkd-skip, which look at whole texts, or start from a model with the "
            "teacher's tokenizer",
        )
    if run.teacher_cache.live:
        raise MismatchError(
            "student and teacher use different tokenizers, so one batch cannot serve both",
            "leave --teacher-cache.live off: cached outputs are per text and fit any tokenizer",
        )


def _masker(settings: AugmentSettings, setup: Setup) -> MaskedWords | None:
    if settings.kind != "tinybert":
        return None
    if not settings.model:
        assert setup.teacher is not None
        return words_from(setup.teacher.network, setup.teacher.processor)
    network, tokenizer = load_model(settings.model, "mask-fill")
    if not tokenizer.mask_token:
        raise KnobError(f"{settings.model} has no mask token", "give --augment.model a masked language model")
    return words_from(network, tokenizer)


def _in_order_of(corpus: Corpus, teacher: Model, ordered: bool) -> Corpus:
    """The corpus in the teacher's order of labels; a teacher of another task is refused."""
    kind, outputs = kind_of(teacher.network), teacher.network.config.num_labels
    if corpus.task.kind == "regress" or kind == "regress":
        if outputs != 1 or corpus.task.kind != "regress":
            raise MismatchError(
                f"the data asks for {corpus.task}, the teacher gives {outputs} output{'s' if outputs > 1 else ''} "
                f"({kind or 'classify'})",
                "use a teacher of this task, or set --data.task",
            )
        return corpus
    if kind == "multilabel" and corpus.task.kind == "classify":
        raise MismatchError(
            "the teacher gives any number of labels per text, the data one class", "set --data.task multilabel"
        )
    return relabel(corpus, teacher.labels, ordered=ordered)


def _order_of(teacher: Model, model: Model, info: TaskInfo, settings: DataSettings) -> list[int]:
    """For every output of the model, the teacher's of the same name; generic ones are named as the data is."""
    generic = is_generic(teacher.labels)
    if kind_of(teacher.network) in (None, kind_of(model.network), info.kind):
        if info.kind == "regress" and len(teacher.labels) == 1:
            return [0]
        named = [teacher.labels]
        if generic:
            named += [settings.classes.split(","), [str(place) for place in range(len(teacher.labels))]]
        for names in (model.labels, info.labels):  # the data may name the outputs of a model that does not
            for labels in named:
                if found := permutation(names, labels):
                    return found
    told = [f"{', '.join(one.labels[:6])} ({kind_of(one.network) or info.kind})" for one in (model, teacher)]
    same = "; if they are the same, list them in the teacher's order with --data.classes" if generic else ""
    raise MismatchError(
        f"the model's labels are {told[0]}; the teacher's {told[1]}",
        f"compare models of the same labels, or evaluate each alone, without --teacher{same}",
    )
