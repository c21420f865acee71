"""Text classification: one label, several labels, or a number for each text or pair of texts."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from hashlib import blake2b
from pathlib import Path
from typing import Any, ClassVar, cast

import numpy as np

from limbeck.core.errors import KnobError, MismatchError
from limbeck.core.files import write_text
from limbeck.core.fingerprint import digest, tokenizers_equal
from limbeck.core.objective import Objective
from limbeck.core.progress import Watcher
from limbeck.core.record import DataCard
from limbeck.core.task import TEXT_KINDS, Kind, TaskInfo
from limbeck.core.trace import PER_TEXT, Want
from limbeck.data.augment import augment, unlabelled
from limbeck.data.batches import Collator, Split, batches
from limbeck.data.joins import lengths_of
from limbeck.data.settings import AugmentSettings, DataSettings
from limbeck.data.sources.tables import Table
from limbeck.data.splits import Splits
from limbeck.data.text.examples import Corpus, Encoded, Examples, concatenate, encode, new_texts, read_texts, relabel
from limbeck.data.text.labels import is_generic, permutation
from limbeck.data.tinybert import MaskedWords, words_from
from limbeck.data.uids import augmented_uid
from limbeck.data.windows import Windows
from limbeck.measure.evaluator import Evaluator, TextEvaluator
from limbeck.measure.predictions import logits_of, predict
from limbeck.students.load import kind_of, labels_in, load
from limbeck.tasks.base import (
    ALL,
    GOLD,
    Answer,
    EncodedData,
    Evaluated,
    Inputs,
    Model,
    Options,
    Setup,
    Task,
    evaluating,
    task,
)
from limbeck_runtime.answers import text_answer

Labelled = Splits[Examples] | Splits[Windows]


@task
@dataclass(frozen=True)
class TextClassification(Task[Corpus]):
    """A label, several labels or a number for each text or pair."""

    kinds: ClassVar[tuple[Kind, ...]] = TEXT_KINDS

    def read(self, data: object, model: Model | None, watcher: Watcher, *, only_test: bool = False) -> Corpus:
        found = self._read(data, model, watcher, only_test)
        return replace(found, task=self.with_metric(found.task))

    def _read(self, data: object, model: Model | None, watcher: Watcher, only_test: bool) -> Corpus:
        settings: DataSettings = self.knobs.data
        if model is None:
            return read_texts(settings, data, watcher)
        kind, labels = kind_of(model.network), labels_in(model.network.config)
        # a teacher that states its problem type settles what labels mean
        known = settings.but(task=kind) if kind and settings.task == "auto" else settings
        if only_test:
            corpus = read_texts(known, data, watcher, only_test=True)
            if corpus.task.kind == "regress":
                return corpus
            return relabel(corpus, labels, whose="the model", ordered=bool(settings.classes))
        corpus = read_texts(known, data, watcher, known=labels)
        return _in_order_of(corpus, model, ordered=bool(settings.classes))

    def encode(self, splits: Corpus, model: Model, watcher: Watcher, teacher: Model | None = None) -> EncodedData:
        longest: int = self.knobs.data.max_length
        rows = {name: encode(part, model.processor, longest) for name, part in splits.splits.items()}
        evaluator = TextEvaluator(splits.task, model.processor, rows, self.knobs.measure.examples)
        card = splits.card.but(truncated=sum(split.truncated for split in rows.values()))
        prints = {"data": data_fingerprint(splits, str(longest)), "labels": labels_fingerprint(splits)}
        found = encoded_rows(rows, evaluator, card, prints, splits.train.has_label)
        return replace(found, pairs=bool(splits.train.pairs))

    def texts(self, setup: Setup[Corpus], split: str) -> list[tuple[str, str]]:
        return setup.splits.splits[split].keys

    def new_rows(self, data: object) -> tuple[Table, list[Inputs]]:
        return new_texts(self.knobs.data, data)

    def predict(self, model: Model, rows: Sequence[Inputs]) -> list[Answer]:
        labels, count = labels_in(model.network.config), len(rows)
        kind = kind_of(model.network) or ("regress" if len(labels) == 1 else "classify")
        info = TaskInfo(kind=kind if self.knobs.data.task == "auto" else self.info.kind, labels=labels)
        texts, *pairs = (list(column) for column in zip(*rows, strict=True))
        nothing = np.zeros(count, dtype=np.int64), np.zeros(count, dtype=bool)
        examples = Examples(np.arange(count), texts, pairs[0] if pairs else [], *nothing)
        encoded = encode(examples, model.processor, self.longest(model))
        collate = Collator.of(model.processor, info)
        logits = logits_of(info, predict(model.network, batches(encoded, collate, self.knobs.batch_size), encoded.uids))
        return [text_answer(info.kind, info.labels, row, self.knobs.all_probabilities) for row in logits]

    def resolve(self, run: Options, setup: Setup[Corpus], needed: Want) -> Options:
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

    def check(
        self, run: Options, setup: Setup[Corpus], student: Model, objectives: Sequence[Objective], needed: Want
    ) -> None:
        teacher = setup.teacher
        assert teacher is not None  # or `prepare` refuses
        check_outputs(student, teacher)
        if not tokenizers_equal(student.processor, teacher.processor):
            _check_tokens(needed, run)
        if GOLD not in setup.data.rows and not needed:
            raise MismatchError(
                "no training row has a label, and the objective asks for nothing else", "add labels, or --recipe hinton"
            )

    def augmented(self, run: Options, setup: Setup[Corpus], data: EncodedData, watcher: Watcher) -> EncodedData:
        settings = run.table(AugmentSettings)
        if settings.kind == "none":
            return data
        made = _made_up(settings, setup, Path(run.out), watcher)
        train, longest = concatenate(setup.splits.train, made), self.knobs.data.max_length
        rows = encode(train, data.processor, longest)
        before = cast(Encoded, data.rows[ALL]).truncated
        prints = {"augmented": digest([np.sort(made.uids)])} if len(made) else {}
        return replace(
            data,
            rows={**data.rows, ALL: rows},
            size=len(rows),
            augmented=len(made),
            for_teacher=(encode(train, setup.data.processor, longest), *setup.data.for_teacher[1:]),
            card=data.card.but(truncated=data.card.truncated + rows.truncated - before),
            fingerprints={**data.fingerprints, **prints},
        )

    def evaluate(self, model: Model, splits: Corpus, watcher: Watcher, teacher: Model | None = None) -> Evaluated:
        """The teacher's outputs are put into the model's order."""
        order = _order_of(teacher, model, splits.task, self.knobs.data) if teacher else []
        evaluator, ours = self._predicted(model, splits, watcher)
        if teacher is None:
            return Evaluated(splits.task, [evaluator.evaluation(ours)], evaluator.floor())
        theirs = self._predicted(teacher, splits, watcher)[1][:, order]
        both = [evaluator.evaluation(ours, theirs), evaluator.evaluation(theirs)]
        return Evaluated(splits.task, both, evaluator.floor())

    def _predicted(self, model: Model, splits: Corpus, watcher: Watcher) -> tuple[TextEvaluator, np.ndarray]:
        test = encode(splits.test, model.processor, self.knobs.data.max_length)
        evaluator = TextEvaluator(splits.task, model.processor, {"test": test}, self.knobs.measure.examples)
        return evaluator, evaluator.logits("test", model.network, partial(watcher.at, evaluating(model)))


def encoded_rows(
    rows: Mapping[str, Split],
    evaluator: Evaluator,
    card: DataCard,
    fingerprints: Mapping[str, str],
    labelled: np.ndarray,
) -> EncodedData:
    """The data of a task whose rows have labels, of which a teacher gives logits; `labelled` training rows do."""
    train, info = rows["train"], evaluator.info
    gold = {}
    if train.has_label.any():
        gold = {GOLD: train if labelled.all() else train.take(np.flatnonzero(labelled))}
    data = EncodedData(info, evaluator.processor, {ALL: train, **gold}, evaluator, card, fingerprints, len(train))
    return replace(data, for_teacher=tuple(rows.values()), has_gold=bool(gold))


def data_fingerprint(corpus: Labelled, salt: str) -> str:
    """Names the set of examples, whatever their order, and how many tokens of each are seen."""
    return digest([np.sort(np.concatenate([rows.uids for rows in corpus.splits.values()])), salt])


def labels_fingerprint(corpus: Labelled, first: str = "") -> str:
    """Names what is learnt from the examples: their labels, and the order from which a seed shuffles."""
    columns = [column for rows in corpus.splits.values() for column in (rows.uids, rows.labels, rows.has_label)]
    return digest([first, *columns])


def check_outputs(student: Model, teacher: Model) -> None:
    outputs = student.network.config.num_labels, teacher.network.config.num_labels
    if outputs[0] != outputs[1]:
        raise MismatchError(
            f"the student has {outputs[0]} outputs, the teacher {outputs[1]}",
            "give the student as many labels as the teacher",
        )


def _check_tokens(needed: Want, run: Options) -> None:
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


def _made_up(settings: AugmentSettings, setup: Setup[Corpus], place: Path, watcher: Watcher) -> Examples:
    """Written beside the run: people read it, and a resumed run does."""
    train = setup.splits.train
    name = f"{settings.model_dump_json()} {setup.fingerprints['data']} {setup.fingerprints['tokenizer']}"
    file = place / f"augmented-{blake2b(name.encode(), digest_size=6).hexdigest()}.jsonl"
    found = _read_made_up(file)
    if found is None:
        mask = setup.data.processor.mask_token or ""
        masker, lengths = _masker(settings, setup), lengths_of(setup.splits.dev.keys)
        made = augment(train, settings, mask=mask, masker=masker, lengths=lengths, watcher=watcher)
        rows = zip(made.uids.tolist(), made.texts, made.pairs or [""] * len(made), strict=True)
        lines = (json.dumps({"uid": uid, "text": text, "pair": pair}) + "\n" for uid, text, pair in rows)
        write_text(file, "".join(lines))
        return made
    return unlabelled(found, train)


def _read_made_up(file: Path) -> dict[int, tuple[str, str]] | None:
    """None where there is no file, or one whose texts do not fit their uids: it is damaged, and made again."""
    try:
        lines = map(json.loads, file.read_text(encoding="utf-8").splitlines())
        found = {row["uid"]: (row["text"], row["pair"]) for row in lines}
        return found if all(uid == augmented_uid(*texts) for uid, texts in found.items()) else None
    except (OSError, ValueError, KeyError, TypeError):
        return None


def _masker(settings: AugmentSettings, setup: Setup[Corpus]) -> MaskedWords | None:
    if settings.kind != "tinybert":
        return None
    if not settings.model:
        assert setup.teacher is not None
        return words_from(setup.teacher.network, setup.teacher.processor)
    network, tokenizer = load(settings.model, "mask-fill")
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
    return relabel(corpus, labels_in(teacher.network.config), ordered=ordered)


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
