"""Train a model without a teacher, to have one."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TypeVar

from transformers import PreTrainedModel, TrainerCallback

from limbeck.core.errors import DataError, KnobError
from limbeck.core.files import portable
from limbeck.core.fingerprint import fingerprint, tokenizer_fingerprint
from limbeck.core.progress import Silent, Watcher
from limbeck.core.task import LANGUAGE_KINDS
from limbeck.core.ticket import Ticket
from limbeck.jobs import pipeline
from limbeck.jobs.arguments import documented, in_folder, settings_of
from limbeck.jobs.exporting import record_with_exports
from limbeck.jobs.folder import locked, publish
from limbeck.jobs.plan import ArmPlan, PlannedStep, Training, check_best_by, on_labels
from limbeck.jobs.preflight import no_model
from limbeck.jobs.result import Result, make_result
from limbeck.jobs.settings import Options, TrainRun, with_masking
from limbeck.jobs.start import FRESH, Start
from limbeck.jobs.ticket_settings import TicketRun
from limbeck.measure.speed import MEASURING
from limbeck.objectives.labels import Labels
from limbeck.passes.ticket import UseTicket
from limbeck.recipes.lottery import EARLY, HEAD, one_shot_steps, ticket_steps
from limbeck.recipes.recipe import MAIN, Apply, Train, flat
from limbeck.students.sizes import shape_of
from limbeck.tasks.base import GOLD, LABELS, EncodedData, Setup, Task, task_of, with_class_weights

T = TypeVar("T", bound=TrainRun)
FROM_SCRATCH = {"epochs": 20.0}  # a model without pre-trained weights has everything to learn


@documented(TrainRun)
def train(
    model: str | Path = "",
    data: object = None,
    *,
    out: str | Path = "",
    epochs: float | None = None,
    learning_rate: float | None = None,
    batch_size: int | None = None,
    max_steps: int | None = None,
    seed: int | None = None,
    task: str | None = None,
    metric: str | None = None,
    text_column: str | None = None,
    pair_column: str | None = None,
    label_column: str | None = None,
    max_length: int | None = None,
    limit: int | None = None,
    class_weights: str | None = None,
    label_smoothing: float | None = None,
    device: str | None = None,
    reading: Options | None = None,
    run: TrainRun | None = None,
    resume: bool = False,
    callbacks: Sequence[TrainerCallback] = (),
    watcher: Watcher | None = None,
    command: str = "",
    **knobs: object,
) -> Result:
    """Trains `model`, a folder or a hub id, on `data`; the trained model lies in `out`/model.

    Without `out` everything goes to a temporary folder, which is there as long as the result.
    An encoder gets a head for the labels; a language model learns running text; a seq2seq model, or one of images, may
    start from scratch.
    `train("bert-base-uncased", "reviews.csv", out="runs/teacher", epochs=3)`
    """
    run, data = settings_of(TrainRun, locals())
    run, temporary = in_folder(run.but(model=str(model)) if model else run, out)
    watcher = watcher or Silent()
    with locked(run.out, resume=resume) as folder:
        run, arm, setup = plan_training(run, data, watcher)
        finished = pipeline.run_without_teacher(run, arm, setup, folder, watcher, callbacks)
        publish(finished.best()[1].model, folder / "model")
        trained = setup.task.load(str(folder / "model"))
        record = record_with_exports(finished, command, watcher)
        record = record.but(fingerprints={"model": fingerprint(trained.network), **record.fingerprints})
        result = make_result(finished, record, folder / "model", temporary)
        watcher.at(MEASURING, 1.0)
        return result


def plan_training(run: T, data: object, watcher: Watcher) -> tuple[T, ArmPlan, Setup]:
    """A model that learns from labels alone: in one training, from a ticket, or round after round to find one."""
    pipeline.start(run)
    Labels.of(run.objective.get(LABELS, {}), within="objective.labels")  # or refuses, before a model is loaded
    task = task_of(run, run.model)
    if run.data.task == "auto" and task.info.kind in LANGUAGE_KINDS:
        task = task_of(run, None)  # encoders are published with such a head, to be fine-tuned on labels
    if not run.model and not task.from_scratch:
        raise no_model()
    if not run.model:  # as far as nobody set the schedule
        run = run.but(train={**FROM_SCRATCH, **run.train.model_dump(exclude_unset=True)})
    task = replace(task, knobs=run)
    splits = task.read(data, None, watcher)
    task = task.settled(splits)
    model, notes = task.model_to_train(run.model, splits)
    for note in notes:
        watcher.say(note)
    build: Callable[[], PreTrainedModel] = partial(_network, task, run.model)  # for every seed
    if not run.model:
        build = partial(task.new_network, model.processor)
    encoded = task.encode_for_training(splits, model, watcher)
    if not encoded.has_gold:
        raise DataError(f"{encoded.card.source} has no labels to learn from", "give labelled rows")
    if foreign := [term for term in run.objective if term != LABELS or encoded.info.kind not in Labels.serves]:
        raise KnobError(
            f"the objective '{foreign[0]}' does not serve `limbeck train` with --task {encoded.info.kind}",
            "it takes 'labels' alone, of texts, images, tags and answers; of a translator --seq2seq.smoothing smooths",
        )
    check_best_by(run.train.best_by, encoded.info, encoded.evaluator, teacher=False)
    run = run.but(objective=with_class_weights(run.objective, encoded))
    task = replace(task, info=encoded.info, knobs=run)
    run = with_masking(run.spelled_out(task.info.kind), task.info.kind)
    run = run.but(train=run.train.at_width(shape_of(model.network).hidden, task.info))
    prints = {"tokenizer": tokenizer_fingerprint(model.processor), **encoded.fingerprints}
    if run.ticket:
        ticket = Ticket.load(run.ticket)
        ticket.check_shapes(model.network)  # or refuses, before anything is trained
        prints["ticket"] = ticket.mask.checksum
    origin = f"The model starts from {run.model or 'random weights'}."
    start = Start(model.network, origin, portable(run.model) if run.model else FRESH, build)
    arm = ArmPlan("model", run, start, _steps(run, task, encoded), encoded, title="training", processor=model.processor)
    arm = replace(arm, facts={"task": task.info.kind, "data": portable(encoded.card.source)}, tested="end")
    if isinstance(run, TicketRun):
        arm = replace(arm, tested="trainings", notes=run.notes)
    return run, arm, Setup(task, None, splits, encoded, prints)


def _steps(run: TrainRun, task: Task, encoded: EncodedData) -> tuple[PlannedStep, ...]:
    main = on_labels(Training(MAIN, task.supervised(), run.train, GOLD).over(encoded), encoded)
    if not isinstance(run, TicketRun):
        return (*([Apply(UseTicket(file=run.ticket, control=run.control))] if run.ticket else []), main)
    if run.one_shot:
        planned = one_shot_steps(task.info, run.one_shot_rounds, run.magnitude)
        return tuple(main if isinstance(step, Train) else step for step in flat(planned))
    before = {HEAD: run.head_epochs, EARLY: run.rewind_to}
    turns = {"rewind": run.rewind == "weights", "by_start": run.prune == "start"}
    planned = ticket_steps(task.info, run.rounds, run.magnitude, before=before, **turns)

    def training(step: Train) -> Training:
        if step.name == MAIN:
            return main
        schedule = main.schedule.but(epochs=step.settings.epochs, max_steps=0)
        return replace(main, name=step.name, schedule=schedule, only_head=step.name == HEAD, final=False)

    return tuple(training(step) if isinstance(step, Train) else step for step in flat(planned))


def _network(task: Task, source: str) -> PreTrainedModel:
    return task.load(source, new_head=True).network
