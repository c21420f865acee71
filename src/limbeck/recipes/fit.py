"""Train a model without a teacher, to have one: an encoder on labels, or a language model on running text."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from transformers import PreTrainedModel, TrainerCallback

from limbeck.core.card import Paper
from limbeck.core.errors import DataError, KnobError
from limbeck.core.objective import Objective
from limbeck.core.progress import Silent, Stage, Watcher
from limbeck.core.record import Arm, Citation, DataCard, Record
from limbeck.core.task import LANGUAGE_KINDS, SEQ2SEQ_KINDS, LanguageKind, TaskInfo
from limbeck.data.language_corpus import load_language
from limbeck.data.parallel import read_parallel
from limbeck.data.sequences import encode_sequences
from limbeck.measure.machine import machine
from limbeck.measure.size import size_of
from limbeck.measure.written import sacrebleu_metrics
from limbeck.objectives.labels import DEVLIN_2019, Labels
from limbeck.objectives.language import LanguageModeling
from limbeck.objectives.next_sentence import NextSentence
from limbeck.recipes.cell import Cell, Outcome, train_cell
from limbeck.recipes.folder import RECORD_FILE, agree, claimed, put
from limbeck.recipes.forms import form_of
from limbeck.recipes.ground import pairs_fingerprint
from limbeck.recipes.job import MEASURING, Result, passed, timing_cost
from limbeck.recipes.phases import single
from limbeck.recipes.prepare import data_prints
from limbeck.recipes.run import TrainRun
from limbeck.recipes.sequence_exam import SequenceExam
from limbeck.recipes.tagged import beginning, tagged
from limbeck.recipes.tell import describe, now, speeds_of
from limbeck.recipes.word_exam import TokenExam
from limbeck.recipes.words import ask_words, check_length, mask_fingerprint, sample_of, text_fingerprint
from limbeck.recipes.written import gold_targets
from limbeck.report import Report
from limbeck.students.open import fingerprint, open_language_model, shape_of, tokenizer_fingerprint
from limbeck.students.open_translator import decoder_start, new_translator, open_translator
from limbeck.students.vocabulary import own_words, rows_of
from limbeck.teachers.translate_settings import TranslateSettings
from limbeck.training.trainer import check_loggers

VASWANI_2017 = Paper(
    "Attention Is All You Need",
    "Ashish Vaswani and Noam Shazeer and Niki Parmar and Jakob Uszkoreit and Llion Jones and Aidan N. Gomez and "
    "Łukasz Kaiser and Illia Polosukhin",
    2017,
    "NeurIPS 2017, arXiv:1706.03762",
    "vaswani2017attention",
    "https://arxiv.org/abs/1706.03762",
)

FITTING = "training"
FROM_NOTHING = {"epochs": 20.0}  # a translator without pre-trained weights has everything to learn


@dataclass(frozen=True)
class Job:
    """What is to be trained, and how its result is opened, timed and told of."""

    run: TrainRun
    cell: Cell
    network: PreTrainedModel  # of the model's shape
    card: DataCard
    fingerprints: Mapping[str, str]
    reopen: Callable[[Path], tuple[PreTrainedModel, Any]]
    texts: Sequence[tuple[str, str]]  # to time it on
    longest: int  # tokens of a text


def fit(
    run: TrainRun,
    *,
    data: object = None,
    resume: bool = False,
    callbacks: Sequence[TrainerCallback] = (),
    watcher: Watcher | None = None,
    command: str = "",
) -> Result:
    """Trains `run.model` on `run.data`; the model folder is `out/model`."""
    if not run.model and run.data.task not in SEQ2SEQ_KINDS:
        raise KnobError("no model was given", "name one with --model: a folder or a hub id")
    if not run.out:
        raise KnobError("no place for the result was given", "name a folder with --out")
    with claimed(run.out, resume=resume) as folder:
        return _fit(run, folder, data, callbacks, watcher or Silent(), command or " ".join(sys.argv))


def _fit(
    run: TrainRun, folder: Path, data: object, callbacks: Sequence[TrainerCallback], watcher: Watcher, command: str
) -> Result:
    if run.train.threads:
        torch.set_num_threads(run.train.threads)
    check_loggers(run.train)
    jobs: dict[str, Callable[..., Job]] = {
        **dict.fromkeys(LANGUAGE_KINDS, _words_job),
        **dict.fromkeys(SEQ2SEQ_KINDS, _pairs_job),
    }
    job = jobs.get(run.data.task, _rows_job)(run, data, watcher)
    agree(folder, job.run, job.fingerprints)
    passes = 3 * job.run.train.epochs * len(job.cell.train) * passed(job.network)
    watcher.plan([Stage(FITTING, passes), Stage(MEASURING, timing_cost(run.measure, models=1))])
    outcome = train_cell(job.cell, folder / "arms", watcher, callbacks)
    place = folder / "model"
    put(outcome.model, place)
    network, tokenizer = job.reopen(place)
    arm, troubles = _arm(job, network, place, outcome, watcher)
    paper = VASWANI_2017 if job.cell.task.is_seq2seq else DEVLIN_2019
    record = Record(
        kind="train",
        name=folder.name,
        created=now(),
        command=command,
        machine=machine(),
        seeds=[run.seed],
        knobs=job.run.model_dump(),
        fingerprints={"model": fingerprint(network), **job.fingerprints},
        task=job.cell.task,
        metric=job.cell.task.metric,
        data=job.card,
        arms=[arm],
        seconds={FITTING: outcome.result.seconds},
        citations=[Citation(text=str(paper), bibtex=paper.bibtex())],
        notes=troubles,
    )
    record.save(folder / RECORD_FILE)
    report = Report((record,))
    report.save(folder / "report.html")
    if run.measure.speed:
        watcher.at(MEASURING, 1.0)
    return Result(network, tokenizer, record, report, folder)


def _rows_job(run: TrainRun, data: object, watcher: Watcher) -> Job:
    form = form_of(run.data.task)
    found = form.read(run, data, watcher)
    task = found.task
    network, tokenizer = form.headed(run.model, task, run.trust_remote_code)
    run = run.but(train=run.train.at_width(shape_of(network).hidden, task))
    matter = form.matter(found, tokenizer, run, watcher)
    if not matter.has_label:
        raise DataError(f"{matter.card.source} has no labels to learn from", "give labelled rows")
    cell = Cell(
        arm="model",
        title=FITTING,
        seed=run.seed,
        build=lambda: form.headed(run.model, task, run.trust_remote_code)[0],
        tokenizer=tokenizer,
        task=task,
        plan=single(1.0 * Labels(), run.train),
        train=matter.rows["train"],
        exam=matter.exam,
    )
    prints = {"tokenizer": tokenizer_fingerprint(tokenizer), **data_prints(matter.corpus, run)}
    return Job(run, cell, network, matter.card, prints, form.opened, matter.texts, run.data.max_length)


def _words_job(run: TrainRun, data: object, watcher: Watcher) -> Job:
    kind: LanguageKind = run.data.task  # type: ignore[assignment]
    pairs = run.blocks.pairs

    def opened() -> tuple[PreTrainedModel, Any]:
        return open_language_model(run.model, kind, fresh=True, pairs=pairs, trust_remote_code=run.trust_remote_code)

    network, tokenizer = opened()
    own_words(network, tokenizer)  # or refuses; rows that pad are trained too, so that they become improbable
    corpus = load_language(run.data, run.blocks, kind, tokenizer, data, watcher)
    check_length(corpus, network)
    words = ask_words(kind, corpus, tokenizer, run.mask.settled(), rows_of(network))
    run = run.but(train=run.train.at_width(shape_of(network).hidden, words.task), mask=run.mask.settled())
    objective: Objective = 1.0 * LanguageModeling()
    cell = Cell(
        arm="model",
        title=FITTING,
        seed=run.seed,
        build=lambda: opened()[0],
        tokenizer=tokenizer,
        task=words.task,
        plan=single(objective + NextSentence() if pairs else objective, run.train),
        train=words.splits["train"],
        exam=TokenExam(words),
    )
    prints = {
        "tokenizer": tokenizer_fingerprint(tokenizer),
        "data": text_fingerprint(corpus),
        "mask": mask_fingerprint(kind, run.mask),
    }

    def reopen(place: Path) -> tuple[PreTrainedModel, Any]:
        return open_language_model(place, kind, pairs=pairs)

    texts = sample_of(corpus.test, tokenizer)
    return Job(run, cell, network, corpus.card, prints, reopen, texts, corpus.length)


def _pairs_job(run: TrainRun, data: object, watcher: Watcher) -> Job:
    sacrebleu_metrics()  # or refuses: it is needed after the first epoch
    run = run if run.model else patient(run)
    corpus = read_parallel(run.data, tagged(run), data, watcher)
    if not corpus.train.targeted.any():
        raise DataError(f"{corpus.card.source} has no targets to learn from", "give texts with their translations")
    begin, notes = beginning(run, corpus)
    network, tokenizer = begin.network, begin.tokenizer
    for note in notes:
        watcher.say(note)

    def build() -> PreTrainedModel:
        if run.model:
            return open_translator(run.model, trust_remote_code=run.trust_remote_code)[0]
        return new_translator(run.new, tokenizer)

    task = TaskInfo(kind="translate", vocab_size=own_words(network, tokenizer))
    run = run.but(train=run.train.at_width(shape_of(network).hidden, task))
    start, longest = decoder_start(network), run.data.max_length
    rows, targets, note = gold_targets(corpus.train)
    sources = [corpus.train.sources[row] for row in rows]
    train = encode_sequences(sources, targets, tokenizer, start, longest)
    if note:
        watcher.say(note)
    cell = Cell(
        arm="model",
        title=FITTING,
        seed=run.seed,
        build=build,
        tokenizer=tokenizer,
        task=task,
        plan=single(1.0 * LanguageModeling(smoothing=run.smoothing), run.train),
        train=train,
        exam=SequenceExam(task, tokenizer, start, corpus.dev, corpus.test, TranslateSettings(), longest),
    )
    prints = {"tokenizer": tokenizer_fingerprint(tokenizer), "data": pairs_fingerprint(corpus)}
    texts = [(source, "") for source in corpus.test.sources]
    card = corpus.card.but(truncated=train.truncated)
    return Job(run, cell, network, card, prints, open_translator, texts, longest)


def patient(run: TrainRun) -> TrainRun:
    """With the schedule of a model that starts from nothing, as far as nobody set it."""
    return run.but(train={**FROM_NOTHING, **run.train.model_dump(exclude_unset=True)})


def _arm(job: Job, network: PreTrainedModel, place: Path, outcome: Outcome, watcher: Watcher) -> tuple[Arm, list[str]]:
    """The trained model with its size and, if asked for, its speed; and what hindered to time it."""
    beam = TranslateSettings().test_beam if job.cell.task.is_seq2seq else 0
    speeds, troubles = speeds_of({"model": place}, job.texts, job.run.measure, job.longest, watcher, MEASURING, beam)
    arm = Arm(
        name="model",
        title=f"{describe(network)}, trained on {'text' if job.cell.task.over_vocabulary else 'labels'}",
        role="model",
        objective=str(job.cell.plan.objective),
        shape=shape_of(network),
        runs=[outcome.result],
        size=size_of(network, place),
        speed=speeds.get("model"),
    )
    return arm, troubles
