"""Text classification: one label, several labels, or a number for each text or pair of texts."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from hashlib import blake2b
from pathlib import Path
from typing import Any, ClassVar, cast

import numpy as np

from limbeck.core.errors import KnobError, MismatchError
from limbeck.core.files import write_text
from limbeck.core.fingerprint import digest, tokenizer_fingerprint, tokenizers_equal
from limbeck.core.objective import Objective
from limbeck.core.progress import Watcher
from limbeck.core.task import TEXT_KINDS, Kind, TaskInfo
from limbeck.core.trace import PER_TEXT, Want
from limbeck.data.augment import affordable, augment, unlabelled
from limbeck.data.batches import Collator, batches
from limbeck.data.joins import lengths_of
from limbeck.data.settings import BY_TIME, AugmentSettings, DataSettings
from limbeck.data.sources.tables import Table
from limbeck.data.text.examples import Corpus, Encoded, Examples, concatenate, encode, new_texts, read_texts, relabel
from limbeck.data.tinybert import MaskedWords, words_from
from limbeck.data.uids import augmented_uid
from limbeck.measure.evaluator import TextEvaluator
from limbeck.measure.predictions import logits_of, predict
from limbeck.students.load import kind_of, labels_in, load
from limbeck.tasks.base import (
    ALL,
    GOLD,
    Answer,
    EncodedData,
    Inputs,
    Model,
    Options,
    Setup,
    task,
)
from limbeck.tasks.whole import (
    WholeClassification,
    as_they_are,
    check_teacher,
    data_fingerprint,
    encoded_rows,
    labels_fingerprint,
)
from limbeck.teachers.column import ColumnTeacher
from limbeck.teachers.live import LiveTeacher, answers_per_second
from limbeck_runtime.answers import text_answer

_TIMED = 128  # texts that tell how fast a teacher answers
TRANSFER = "transfer"  # the folder of unlabelled texts, in a run's


@task
@dataclass(frozen=True)
class TextClassification(WholeClassification[Corpus]):
    """A label, several labels or a number for each text or pair."""

    kinds: ClassVar[tuple[Kind, ...]] = TEXT_KINDS
    unlabelled_remedy: ClassVar[str] = ""

    def read_rows(self, data: object, model: Model | None, watcher: Watcher, only_test: bool) -> Corpus:
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
        corpus = read_texts(known, data, watcher, known=labels, place=self._place)
        return _in_order_of(corpus, model, ordered=bool(settings.classes))

    def prepare_answered(self, data: object, watcher: Watcher, student: Model | None = None) -> Setup[Corpus]:
        """The student's own tokenizer reads the rows: there is no other."""
        splits = self.read(data, None, watcher)
        task = self.settled(splits)
        owner = student or task.load(self.knobs.student_from, new_head=True)
        encoded, answers = task.encode(splits, owner, watcher), splits.answers
        assert answers is not None  # or reading refuses
        teacher = ColumnTeacher(answers.column, answers.uids, answers.logits)
        tokenizer = tokenizer_fingerprint(encoded.processor)
        prints = {"teacher": answers.fingerprint, "tokenizer": tokenizer, **encoded.fingerprints}
        return Setup(task, None, splits, encoded, prints, answers=teacher)

    def encode(self, splits: Corpus, model: Model, watcher: Watcher, teacher: Model | None = None) -> EncodedData:
        longest: int = self.knobs.data.max_length
        rows = {name: self.encode_rows(part, model.processor) for name, part in splits.splits.items()}
        evaluator = TextEvaluator(splits.task, model.processor, rows, self.knobs.measure.examples)
        card = splits.card.but(truncated=sum(split.truncated for split in rows.values()))
        prints = {"data": data_fingerprint(splits, str(longest)), "labels": labels_fingerprint(splits)}
        found = encoded_rows(rows, evaluator, card, prints, splits.train.has_label)
        return replace(found, pairs=bool(splits.train.pairs))

    @property
    def _place(self) -> Path | None:
        """Where the texts and tokens of a transfer set lie."""
        out = getattr(self.knobs, "out", "")
        return Path(out) / TRANSFER if out else None

    def encode_rows(self, rows: Examples, processor: Any) -> Encoded:
        return encode(rows, processor, self.knobs.data.max_length)

    def texts(self, setup: Setup[Corpus], split: str) -> list[tuple[str, str]]:
        return list(setup.splits.splits[split].keys)

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
        check_teacher(setup, student, needed, run.teacher_cache.live)
        if setup.teacher and not tokenizers_equal(student.processor, setup.teacher.processor):
            _check_tokens(needed, run)
        if setup.answers and run.table(AugmentSettings).kind != "none":
            raise MismatchError(
                "the teacher's column has no answer to augmented texts",
                "leave out --augment.kind, or give the model itself with --teacher",
            )
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
        if settings.copies == BY_TIME:
            settings = _affordable(settings, setup, watcher)
        masker, lengths = _masker(settings, setup), lengths_of(setup.splits.dev.keys)
        made = augment(train, settings, mask=mask, masker=masker, lengths=lengths, watcher=watcher)
        rows = zip(made.uids.tolist(), made.texts, made.pairs or [""] * len(made), strict=True)
        lines = (json.dumps({"uid": uid, "text": text, "pair": pair}) + "\n" for uid, text, pair in rows)
        write_text(file, "".join(lines))
        return made
    return unlabelled(found, train)


def _affordable(settings: AugmentSettings, setup: Setup[Corpus], watcher: Watcher) -> AugmentSettings:
    """How much is made, by how fast the teacher answers; decided once, since the texts are kept."""
    rates = list(_rates(setup))
    rate = 1 / sum(1 / one for one in rates)  # several answer one after the other
    found = affordable(settings, len(setup.splits.train), bool(setup.splits.train.pairs), rate)
    who = "the teacher answers" if len(rates) == 1 else f"the {len(rates)} teachers together answer"
    watcher.say(
        f"{who} {rate:,.0f} texts a second, {found.limit:,} in {settings.minutes:g} minutes: "
        f"{found.copies} new texts for each row, {found.limit:,} at most"
    )
    return found


def _rates(setup: Setup[Corpus]) -> Iterator[float]:
    """Texts a second that each teacher answers."""
    assert setup.teacher is not None
    voices = [(one.model, one.encode) for one in setup.members] or [(setup.teacher, as_they_are)]
    for model, encoded in voices:
        rows, collate = encoded(setup.data.for_teacher[0]), Collator.of(model.processor, setup.info)
        some = np.linspace(0, len(rows) - 1, min(_TIMED, len(rows))).astype(np.int64)
        yield answers_per_second(LiveTeacher(model.network), list(batches(rows, collate, _TIMED // 4, some)))


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
