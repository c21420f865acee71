"""Measure models that are already there: quality on a file, or speed and size alone."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from limbeck.core.errors import MismatchError
from limbeck.core.progress import Silent, Stage, Watcher
from limbeck.core.record import Arm, DataCard, Record, SeedResult
from limbeck.core.task import SEQ2SEQ_KINDS, WINDOW_KINDS, Kind, LanguageKind, TaskInfo, WindowKind
from limbeck.core.teacher import NoTeacher
from limbeck.data.corpus import Corpus
from limbeck.data.encode import encode
from limbeck.data.language import BlockSettings, MaskSettings
from limbeck.data.language_corpus import load_language
from limbeck.data.match import is_generic, places_among
from limbeck.data.place_single import load_single_places
from limbeck.data.settings import DataSettings
from limbeck.data.single import load_single
from limbeck.data.window_settings import WindowSettings
from limbeck.measure.disagreements import text_disagreements
from limbeck.measure.fidelity import fidelity
from limbeck.measure.machine import machine
from limbeck.measure.quality import quality
from limbeck.measure.settings import MeasureSettings
from limbeck.measure.size import converted_size, is_ctranslate2, size_of
from limbeck.recipes.cell import predict_split
from limbeck.recipes.forms import Places
from limbeck.recipes.place_exam import PlaceExam
from limbeck.recipes.prepare import Model
from limbeck.recipes.tell import describe, measure_speed, now
from limbeck.recipes.word_exam import Remembered, TokenExam
from limbeck.recipes.words import ask_words, check_length
from limbeck.students.open import fingerprint, open_classifier, open_language_model, shape_of, tokenizers_equal
from limbeck.students.saved import kind_of, kind_saved, open_saved
from limbeck.students.vocabulary import own_words, shared_words
from limbeck.teachers.ct2_folder import facts_of
from limbeck.teachers.live import LiveTeacher

EVALUATING, TIMING = "answering", "measuring"


def evaluate(
    model: str,
    settings: DataSettings,
    *,
    windows: WindowSettings = WindowSettings(),  # noqa: B008
    teacher: str = "",
    data: object = None,
    trust_remote_code: bool = False,
    watcher: Watcher | None = None,
    command: str = "",
) -> Record:
    """Quality of `model` on the rows of `settings.train`, and with a `teacher` its agreement with that."""
    watcher = watcher or Silent()
    kind = kind_saved(model, trust_remote_code) if settings.task == "auto" else settings.task
    if kind == "tag" or kind == "answer":
        record = _evaluate_places(model, teacher, settings, windows, kind, data, trust_remote_code, watcher)
        return record.but(command=command)
    asked = [
        Model(*open_classifier(where, trust_remote_code=trust_remote_code), where=where)
        for where in (model, teacher)
        if where
    ]
    corpus = load_single(settings, asked[0].labels, kind_of(asked[0].network), data, watcher)
    order = _order_of(asked[1], asked[0], corpus.task, settings) if teacher else []
    watcher.plan([Stage(f"{EVALUATING} {one.where}", float(one.network.num_parameters())) for one in asked])
    logits = [_answers(one, corpus, settings.max_length, watcher) for one in asked]
    arms = [_arm(asked[0], "model", _result(corpus, logits[0]))]
    differing = []
    if teacher:
        logits[1], test = logits[1][:, order], corpus.test
        closeness = fidelity(corpus.task, logits[0], logits[1], test.labels, test.has_label)
        arms = [
            _arm(asked[1], "teacher", _result(corpus, logits[1])),
            _arm(asked[0], "student", _result(corpus, logits[0]).but(fidelity=closeness)),
        ]
        differing = text_disagreements(
            corpus.task, test.texts, test.pairs, logits[0], logits[1], test.labels, test.has_label
        )
    return record_of("eval", Path(model).name, command, corpus.task, corpus.card, arms).but(
        knobs={"model": model, "teacher": teacher, "data": settings.model_dump()},
        fingerprints={one.where: fingerprint(one.network) for one in asked},
        disagreements=[row.model_dump() for row in differing],
    )


def _order_of(teacher: Model, model: Model, task: TaskInfo, settings: DataSettings) -> list[int]:
    """For every output of the model, the place of the teacher's of the same name; generic ones are named as data is."""
    generic = is_generic(teacher.labels)
    if kind_of(teacher.network) in (None, kind_of(model.network), task.kind):
        if task.kind == "regress" and len(teacher.labels) == 1:
            return [0]
        named = [teacher.labels]
        if generic:
            named += [settings.classes.split(","), [str(place) for place in range(len(teacher.labels))]]
        for names in (model.labels, task.labels):  # the data may name the outputs of a model that does not
            for labels in named:
                if found := places_among(names, labels):
                    return found
    told = [f"{', '.join(one.labels[:6])} ({kind_of(one.network) or task.kind})" for one in (model, teacher)]
    same = "; if they are the same, list them in the teacher's order with --data.classes" if generic else ""
    raise MismatchError(
        f"the model answers with {told[0]}; the teacher with {told[1]}",
        f"compare models of the same labels, or evaluate each alone, without --teacher{same}",
    )


def _evaluate_places(
    model: str,
    teacher: str,
    settings: DataSettings,
    windows: WindowSettings,
    kind: WindowKind,
    data: object,
    trust_remote_code: bool,
    watcher: Watcher,
) -> Record:
    form = Places(kind)
    asked = [Model(*form.opened(where, trust_remote_code), where=where) for where in (model, teacher) if where]
    one = asked[0]
    known = one.labels if kind == "tag" else ()
    corpus = load_single_places(settings, windows, kind, one.tokenizer, data, watcher, known)
    exam = PlaceExam(corpus, one.tokenizer, windows)
    if teacher:
        _check_alike(one, asked[1], kind)
        exam = exam.beside(LiveTeacher(asked[1].network))
    watcher.plan([Stage(f"{EVALUATING} {each.where}", float(each.network.num_parameters())) for each in asked])
    arms = []
    for each, role in reversed(list(zip(asked, ("student" if teacher else "model", "teacher"), strict=False))):
        said = exam.of_teacher() if role == "teacher" else exam.test(each.network)
        watcher.at(f"{EVALUATING} {each.where}", 1.0)
        result = SeedResult(seed=0, quality=said.quality, per_class=list(said.per_class), fidelity=said.fidelity)
        arms.append(_arm(each, role, result))
    return record_of("eval", Path(model).name, "", corpus.task, corpus.card, arms).but(
        knobs={"model": model, "teacher": teacher, "data": settings.model_dump(), "windows": windows.model_dump()},
        fingerprints={each.where: fingerprint(each.network) for each in asked},
    )


def _check_alike(model: Model, teacher: Model, kind: WindowKind) -> None:
    """Answers about places compare only where the places and the tags are the same."""
    if not tokenizers_equal(model.tokenizer, teacher.tokenizer):
        raise MismatchError(
            "model and teacher cut text into different tokens, so their places in it are not the same",
            "evaluate each alone, without --teacher",
        )
    if kind == "tag" and model.labels != teacher.labels:
        raise MismatchError(
            f"the model tags with {', '.join(model.labels[:6])}; the teacher with {', '.join(teacher.labels[:6])}",
            "compare models of the same tags in the same order, or evaluate each alone, without --teacher",
        )


def bench(
    models: Sequence[str],
    texts: Sequence[tuple[str, str]],
    settings: MeasureSettings,
    *,
    kind: Kind = "classify",
    max_length: int = 128,
    beam: int = 0,
    trust_remote_code: bool = False,
    watcher: Watcher | None = None,
    command: str = "",
) -> Record:
    """Size, latency, throughput and memory of each model on the same texts, one process at a time."""
    watcher = watcher or Silent()
    watcher.plan([Stage(TIMING, 1.0)])
    arms = [_sized(where, trust_remote_code) for where in models]  # whoever cannot be opened is refused at once
    folders = {where: Path(where) for where in models}
    speeds = measure_speed(folders, texts, settings, max_length, watcher, TIMING, beam)
    arms = [arm.but(speed=speeds[arm.name].model_dump()) for arm in arms]
    watcher.at(TIMING, 1.0)
    card = DataCard(source=f"{len(texts)} texts", columns={}, read=len(texts))
    knobs = {"models": list(models), "measure": settings.model_dump(), "max_length": max_length}
    return record_of("bench", "bench", command, TaskInfo(kind=kind), card, arms).but(
        knobs=knobs | ({"translate": {"test_beam": beam}} if beam else {})
    )


def translators(models: Sequence[str], task: str, trust_remote_code: bool = False) -> bool:
    """Whether the models translate: by the task that a person named, else by what each folder says."""
    if task != "auto":
        return task in SEQ2SEQ_KINDS
    return all(is_ctranslate2(one) or kind_saved(one, trust_remote_code) == "translate" for one in models)


def kind_timed(models: Sequence[str], task: str, trust_remote_code: bool = False) -> Kind:
    """What texts the models read, as far as it matters to a clock: words, questions, sources, or any text."""
    if translators(models, task, trust_remote_code):
        return "translate"
    said = {task}
    if task == "auto":
        said = {"" if is_ctranslate2(one) else kind_saved(one, trust_remote_code) or "" for one in models}
    return next((kind for kind in WINDOW_KINDS if said == {kind}), "classify")


def _sized(where: str, trust_remote_code: bool) -> Arm:
    name = Path(where).name
    if is_ctranslate2(where):
        facts_of(where)  # or refuses: without them it may write something else
        title = f"{name}, in CTranslate2"
        return Arm(name=where, title=title, role="model", runs=[], size=converted_size(where))
    network, _ = open_saved(where, trust_remote_code=trust_remote_code)
    return Arm(
        name=where,
        title=f"{name}, {describe(network)}",
        role="model",
        shape=shape_of(network),
        runs=[],
        size=size_of(network, Path(where)),
    )


def evaluate_words(
    model: str,
    settings: DataSettings,
    blocks: BlockSettings,
    mask: MaskSettings,
    *,
    teacher: str = "",
    trust_remote_code: bool = False,
    watcher: Watcher | None = None,
    command: str = "",
) -> Record:
    """Perplexity of a language model on all of `settings.train`, and with a `teacher` its agreement with that."""
    watcher = watcher or Silent()
    kind: LanguageKind = settings.task  # type: ignore[assignment]
    asked = [
        Model(*open_language_model(where, kind, trust_remote_code=trust_remote_code), where=where)
        for where in (model, teacher)
        if where
    ]
    one = asked[0]
    vocabulary, reader = own_words(one.network, one.tokenizer), one.tokenizer
    if teacher:
        shared = shared_words(asked[1].network, one.network, asked[1].tokenizer, one.tokenizer)
        vocabulary, reader = shared.size, shared.tokenizer
    # Nothing is cut off: the same text stands for all three splits, and one of them is measured on.
    whole = settings.but(dev=settings.dev or settings.train, test=settings.test or settings.train)
    corpus = load_language(whole, blocks, kind, reader, watcher=watcher)
    check_length(corpus, *(each.network for each in asked))
    words = ask_words(kind, corpus, reader, mask.settled().but(rounds=1), vocabulary)
    watcher.plan([Stage(f"{EVALUATING} {each.where}", float(each.network.num_parameters())) for each in asked])
    beside = Remembered(LiveTeacher(asked[1].network, vocabulary=vocabulary)) if teacher else NoTeacher()
    arms = []
    for each, role in reversed(list(zip(asked, ("student" if teacher else "model", "teacher"), strict=False))):
        found = TokenExam(words, beside if role == "student" else NoTeacher()).test(each.network)
        watcher.at(f"{EVALUATING} {each.where}", 1.0)
        arms.append(_arm(each, role, SeedResult(seed=0, quality=found.quality, fidelity=found.fidelity)))
    prints = {name: fingerprint(each.network) for each, name in zip(asked, ("model", "teacher"), strict=False)}
    return record_of("eval", Path(model).name, command, words.task, corpus.card, arms).but(fingerprints=prints)


def _answers(one: Model, corpus: Corpus, max_length: int, watcher: Watcher) -> np.ndarray:
    split = encode(corpus.test, one.tokenizer, max_length)
    stage, rows = f"{EVALUATING} {one.where}", max(len(split), 1)
    logits = predict_split(one.network, one.tokenizer, corpus.task, split, lambda done: watcher.at(stage, done / rows))
    watcher.at(stage, 1.0)
    return logits


def _result(corpus: Corpus, logits: np.ndarray) -> SeedResult:
    scores, per_class = quality(corpus.task, logits, corpus.test.labels, corpus.test.has_label)
    return SeedResult(seed=0, quality=scores, per_class=per_class)


def _arm(one: Model, role: str, result: SeedResult) -> Arm:
    where = Path(one.where)
    return Arm(
        name=role,
        title=f"{where.name}, {describe(one.network)}",
        role=role,
        shape=shape_of(one.network),
        runs=[result],
        size=size_of(one.network, where if where.is_dir() else None),
    )


def record_of(kind: str, name: str, command: str, task: TaskInfo, card: DataCard, arms: list[Arm]) -> Record:
    return Record(
        kind=kind,
        name=name,
        created=now(),
        command=command,
        machine=machine(),
        seeds=[],
        knobs={},
        fingerprints={},
        task=task,
        metric=task.metric,
        data=card,
        arms=arms,
    )
