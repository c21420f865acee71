"""Measure a translator that is already there, in transformers or in CTranslate2."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from limbeck.core.fingerprint import fingerprint
from limbeck.core.progress import Silent, Stage, Watcher
from limbeck.core.record import Arm, Record, Sample, SeedResult
from limbeck.core.task import TaskInfo
from limbeck.data.parallel import ParallelCorpus, read_tested
from limbeck.data.parallel_settings import ParallelSettings
from limbeck.data.settings import DataSettings
from limbeck.measure.size import converted_size, is_ctranslate2, size_of
from limbeck.measure.written import sacrebleu_metrics
from limbeck.recipes.cell import Answers
from limbeck.recipes.evaluate import EVALUATING, record_of
from limbeck.recipes.sequence_exam import SequenceExam
from limbeck.recipes.tell import describe
from limbeck.students.folder import find_folder
from limbeck.students.languages import languages_said
from limbeck.students.open_translator import decoder_start, open_translator
from limbeck.students.sizes import shape_of
from limbeck.students.vocabulary import own_words
from limbeck.teachers.ct2 import Converted
from limbeck.teachers.translate_settings import TranslateSettings

SHOWN = 20  # texts of the file that the report shows


def evaluate_pairs(
    model: str,
    settings: DataSettings,
    parallel: ParallelSettings = ParallelSettings(),  # noqa: B008
    translate: TranslateSettings = TranslateSettings(),  # noqa: B008
    *,
    teacher: str = "",
    data: object = None,
    trust_remote_code: bool = False,
    watcher: Watcher | None = None,
    command: str = "",
) -> Record:
    """BLEU and chrF of `model` on all of `settings.train`, greedily and by a beam; of a `teacher` too."""
    watcher = watcher or Silent()
    sacrebleu_metrics()  # or refuses, before anything is translated
    corpus = read_tested(settings, parallel, data, watcher)
    asked = {"teacher": teacher, "student": model} if teacher else {"model": model}
    watcher.plan([Stage(f"{EVALUATING} {where}", 1.0) for where in asked.values()])
    arms: list[Arm] = []
    written: dict[str, list[str]] = {}
    prints: dict[str, str] = {}
    for role, where in asked.items():
        arm, written[role], mark = _measured(
            where, role, corpus, translate, settings, written, trust_remote_code, watcher
        )
        arms.append(arm)
        prints |= {role: mark} if mark else {}
        watcher.at(f"{EVALUATING} {where}", 1.0)
    task = TaskInfo(kind="translate", metric=translate.metric)
    return record_of("eval", Path(model).name, command, task, corpus.card, arms).but(
        knobs={
            "model": model,
            "teacher": teacher,
            "data": settings.model_dump(),
            "parallel": parallel.model_dump(),
            "translate": translate.model_dump(),
        },
        fingerprints=prints,
        samples=[sample.model_dump() for sample in _samples(corpus, written)],
    )


def _measured(
    where: str,
    role: str,
    corpus: ParallelCorpus,
    translate: TranslateSettings,
    settings: DataSettings,
    written: dict[str, list[str]],
    trust_remote_code: bool,
    watcher: Watcher,
) -> tuple[Arm, list[str], str]:
    """The model's arm, what it wrote, and its fingerprint, which only weights in transformers have."""
    said: Answers
    if is_ctranslate2(where):
        translator = Converted(where, **translate.model_dump(include={"length_penalty", "longest", "batch_tokens"}))
        tokenizer = translator.tokenizer
        exam = _exam(corpus, tokenizer, 0, len(tokenizer), translate, settings.max_length)
        said, texts = exam.of_engine(translator)
        title = f"{Path(where).name}, in CTranslate2"
        arm = Arm(name=role, title=title, role=role, runs=[_result(said)], size=converted_size(where))
        return arm, texts, ""
    network, tokenizer = open_translator(where, trust_remote_code=trust_remote_code)
    for line in languages_said(tokenizer):
        watcher.say(f"{where}: {line}")
    words = own_words(network, tokenizer)
    exam = _exam(corpus, tokenizer, decoder_start(network), words, translate, settings.max_length)
    said, texts = exam.beside(written.get("teacher", [])).taken(network, teaches=role == "teacher")
    folder = find_folder(where)
    arm = Arm(
        name=role,
        title=f"{Path(where).name}, {describe(network)}",
        role=role,
        shape=shape_of(network),
        runs=[_result(said)],
        size=size_of(network, folder),
    )
    return arm, texts, fingerprint(network)


def _exam(
    corpus: ParallelCorpus, tokenizer: object, start: int, words: int, translate: TranslateSettings, longest: int
) -> SequenceExam:
    task = TaskInfo(kind="translate", vocab_size=words)
    return SequenceExam(task, tokenizer, start, corpus.dev, corpus.test, translate, longest)


def _result(said: Answers) -> SeedResult:
    return SeedResult(seed=0, quality=said.quality)


def _samples(corpus: ParallelCorpus, written: dict[str, list[str]]) -> list[Sample]:
    texts = corpus.test
    rows = np.linspace(0, len(texts) - 1, min(SHOWN, len(texts))).round().astype(int).tolist()
    return [
        Sample(
            source=texts.sources[row],
            reference=texts.targets[row],
            written={role: lines[row] for role, lines in written.items()},
        )
        for row in rows
    ]
