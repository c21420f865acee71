"""One arm with one seed: built, taken through its steps, evaluated and saved. What is finished is never done again.

Each step leaves a folder when it is done: weights, mask, after a pass that changed them shapes and tokenizer, and
`done.json`, which is written last. A run that is killed goes on behind the last finished step, inside a training from
its last complete checkpoint. Only the main process writes.

The model before the first pass, and behind every pass and every training after it, is tested and saved in `chain`: an
Artifact each.
"""

from __future__ import annotations

import copy
import shutil
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import reduce
from operator import or_
from pathlib import Path
from typing import Any, cast

import numpy as np
from pydantic import BaseModel, Field
from safetensors import SafetensorError
from safetensors.numpy import load_file, save_file
from safetensors.torch import load_file as load_tensors
from safetensors.torch import load_model, save_model
from torch import Tensor
from transformers import PreTrainedModel, TrainerCallback, set_seed

from limbeck.core.checksum import FILES, DamagedError, check_files, checksums, read_sealed, write_sealed
from limbeck.core.compress import Calibration, Change, Mask, Pass, prunable
from limbeck.core.device import find_device
from limbeck.core.errors import MismatchError
from limbeck.core.files import atomic, explained
from limbeck.core.fingerprint import tokenizers_equal
from limbeck.core.process import barrier, is_main
from limbeck.core.progress import Watcher
from limbeck.core.record import Artifact, CurvePoint, Disagreement, Level, SeedResult, Stopped
from limbeck.core.tap import install, uninstall
from limbeck.core.ticket import Ticket
from limbeck.core.trace import ATTENTION_PARTS, PER_TEXT, Batch, Teacher, Want
from limbeck.data.batches import Split, to_batch
from limbeck.data.renumbered import PieceRows, ids_before
from limbeck.jobs.chain import START, label_of, make_artifact, read_shape, save_shape
from limbeck.jobs.plan import ArmPlan, PlannedStep, Training, Trial
from limbeck.jobs.retokenize import check_segmentation, resegmented, with_old_rows
from limbeck.measure.evaluator import Evaluation, Evaluator
from limbeck.measure.size import size_of
from limbeck.passes.magnitude import Magnitude
from limbeck.recipes.recipe import Apply, Rewind, Snapshot
from limbeck.students.load import name_outputs
from limbeck.students.model_folder import quiet, save_folder
from limbeck.students.seq2seq import hold_pad
from limbeck.tasks.base import ALL, EncodedData, Model
from limbeck.teachers.remapped import RemappedTeacher
from limbeck.training.arguments import DevMetric
from limbeck.training.bridges import add_bridges, drop_bridges
from limbeck.training.callbacks import HoldMask, HoldNorm, Watch, check_checkpoint, switching
from limbeck.training.lowest import AtLowestLoss
from limbeck.training.standardise import Scale, final_linear, start_at_mean
from limbeck.training.trainer import Distiller

CALIBRATION_BATCH, CALIBRATION_ROWS = 32, 256  # rows
SPARSE_FROM = 0.01  # the share of zeros from which a model was pruned: no training leaves so many
RESULT, TEST, DONE, FAILED = "result.json", "test.safetensors", "done.json", "failed.txt"
WEIGHTS, MASK, SHAPE = "weights.safetensors", "mask.safetensors", "shape"
ARMS, CHAIN, TICKETS = "arms", "chain", "tickets"  # folders: of the run, and of a trial
_TESTED = ("uids", "statistics", "labels", "has_label")  # what the next model of a chain is compared with


class TrialResult(BaseModel, frozen=True, arbitrary_types_allowed=True):
    """What is kept of a finished trial."""

    result: SeedResult
    dev_score: float  # by which the best seed is chosen, so that the test set stays unseen; higher is better
    disagreements: Sequence[Disagreement] = ()
    notes: Sequence[str] = ()
    artifacts: Sequence[Artifact] = ()  # of a chain of passes: what each made, the finished model last
    statistics: np.ndarray = Field(exclude=True)  # as in Evaluation; in a file of their own
    model: Path = Field(exclude=True)

    @classmethod
    def load(cls, home: Path) -> TrialResult:
        kept = read_sealed(home / RESULT)
        check_files(home, kept.pop(FILES, {}))
        return cls(**kept, statistics=load_file(home / TEST)["statistics"], model=home / "model")


class Progress(BaseModel, frozen=True):
    """What the steps so far took, and what they logged."""

    seconds: float = 0.0
    epochs: float = 0.0
    steps: int = 0
    curve: list[CurvePoint] = []
    notes: list[str] = []
    best_step: int = 0  # whose weights the model has, of all steps so far
    dev_score: float | None = None  # of these weights; None where dev was not measured since they changed
    artifacts: list[Artifact] = []
    levels: list[Level] = []
    stopped: Stopped | None = None  # the last training at its lowest loss on dev

    def after(self, trainer: Distiller, sign: int) -> Progress:
        """With a finished training. `sign` is -1 where a lower metric is better."""
        state = trainer.state
        best = state.best_global_step if trainer.schedule.keep == "best" else 0
        later = [
            point.model_copy(update={"step": point.step + self.steps, "epoch": point.epoch + self.epochs})
            for point in trainer.curve()
        ]
        changes = {
            "seconds": self.seconds + trainer.seconds,
            "epochs": self.epochs + state.epoch,
            "steps": self.steps + state.global_step,
            "curve": [*self.curve, *later],
            "best_step": self.steps + (best or state.global_step),
            "dev_score": None if state.best_metric is None or not best else sign * state.best_metric,
        }
        return self.model_copy(update=changes)


def run_trial(trial: Trial, folder: Path, watcher: Watcher, callbacks: Sequence[TrainerCallback] = ()) -> TrialResult:
    home = folder / trial.name
    if is_main():
        (home / FAILED).unlink(missing_ok=True)  # what failed before is tried again
    found = None
    if (home / RESULT).exists():
        with _mended(home, f"{trial.title} is trained again", watcher):
            found = TrialResult.load(home)
    if found is None:
        found = _train(trial, home, watcher, callbacks)
    for leftover in (*home.glob("checkpoints*"), *home.glob("step-*")):  # also of one killed right before this
        remove(leftover)
    watcher.at(trial.title, 1.0)
    return found


def _train(trial: Trial, home: Path, watcher: Watcher, callbacks: Sequence[TrainerCallback]) -> TrialResult:
    arm = trial.arm
    set_seed(trial.seed)
    model = arm.start.build()
    if not arm.data.info.over_vocabulary:
        name_outputs(model.config, arm.data.info)
    _equip(model, arm)
    scale, notes = _start_in_units(model, arm.data)
    before = _before(model, arm)
    mask, zeros = held_zeros(model, arm)
    given = arm.data, arm.processor or arm.data.processor, scale, before, mask
    work = _TrialRunner(
        trial, home, watcher, callbacks, model, *given, progress=Progress(notes=[*arm.notes, *notes, *zeros])
    )
    if arm.tested == "trainings":
        work.start = {name: weight.detach().cpu().clone() for name, weight in prunable(model).items()}
    with explained(home), quiet():
        for number, step in enumerate(arm.steps):
            work.step(number, step)
        return work.finish()


def held_zeros(model: PreTrainedModel, arm: ArmPlan) -> tuple[Mask, list[str]]:
    """The mask of a model that was pruned before: its zeros stay, and that is said."""
    mask = Mask.of(model)
    gone = mask.total - mask.remaining
    if not (arm.run.train.hold_zeros and gone) or gone < SPARSE_FROM * mask.total:
        return Mask(), []
    share = 100 * gone / mask.total
    return mask, [f"{gone:,} of {mask.total:,} weights are 0 and stay 0 ({share:.1f} %; --train.no-hold-zeros)."]


def _equip(model: PreTrainedModel, arm: ArmPlan) -> None:
    """With what the arm's objectives need while it trains."""
    add_bridges(model, arm.bridges)
    if any(step.student_request.want & ATTENTION_PARTS for step in arm.trainings):
        install(model)


def _start_in_units(model: PreTrainedModel, data: EncodedData) -> tuple[Scale | None, list[str]]:
    """Of a regression: the scale of its labels, at whose mean a new head starts; and a note where it has no use."""
    if data.info.kind != "regress":
        return None, []
    rows = cast(Split, data.train(""))
    if not rows.has_label.any():
        rows = cast(Split, data.evaluator.dev)  # where the teacher's answers stand for labels
    scale = Scale.of(rows.labels[rows.has_label])
    if start_at_mean(model, scale):
        return scale, []
    why = f"a {type(model).__name__} has no final linear layer with a bias"
    return None, [f"The labels are not standardised while training: {why}."]


def _before(model: PreTrainedModel, arm: ArmPlan) -> dict[str, float]:
    """Dev before the first step, where it is measured later too. A new translator would write nonsense, at length."""
    if arm.data.info.is_seq2seq or not any(step.evaluated for step in arm.trainings):
        return {}
    model.to(find_device(arm.run.train.device))
    evaluator = arm.data.evaluator.choosing("auto")
    return {name: value for name, value in evaluator.dev_metrics(model).items() if name != "loss"}


@contextmanager
def _mended(folder: Path, remedy: str, watcher: Watcher) -> Iterator[None]:
    """Deletes what a step or a trial left behind if it turns out damaged, and says so: it is computed again."""
    try:
        yield
    except (DamagedError, OSError, ValueError, KeyError, SafetensorError, MismatchError) as error:
        watcher.say(f"{folder} is damaged, so {remedy}: {error}")
        remove(folder)


def remove(folder: Path) -> None:
    if is_main():
        shutil.rmtree(folder, ignore_errors=True)


@dataclass
class _TrialRunner:
    """Takes a model and its mask through the steps of a trial, each resumable by itself."""

    trial: Trial
    home: Path
    watcher: Watcher
    callbacks: Sequence[TrainerCallback]
    model: PreTrainedModel
    data: EncodedData
    processor: Any
    scale: Scale | None = None  # of a regression's labels
    before: Mapping[str, float] = field(default_factory=dict)  # dev before the first step
    mask: Mask = field(default_factory=Mask)
    progress: Progress = field(default_factory=Progress)
    tested: Evaluation | None = None  # the last model of the chain
    reshaped: bool = False  # a pass gave the model other shapes or another tokenizer
    start: Mapping[str, Tensor] = field(default_factory=dict)  # what may be pruned, at θ₀; of a search for a ticket

    def step(self, number: int, step: PlannedStep) -> None:
        """Takes the model through a step, or takes what the step left behind."""
        folder, done = self._folder(number), False
        if (folder / DONE).exists():
            with _mended(folder, "this step is run again", self.watcher):
                self._load_step(number, folder)
                done = True
        if not done:
            arm, took = self.trial.arm, self.progress.seconds
            if number == arm.first_pass and arm.tested == "passes":
                self._keep(number, START, Change(self.mask, "The model before the first pass."), 0.0)
            change, seconds = self._run_step(number, step)
            if arm.is_measured(number):
                self._keep(number, label_of(step, arm), change, seconds + self.progress.seconds - took)
            if number + 1 < len(arm.steps):  # the last step needs no folder: result.json marks it done
                self._save_step(folder)
                remove(self._checkpoints(number))
        barrier()  # a later step of another process may need what this one left

    def _run_step(self, number: int, step: PlannedStep) -> tuple[Change, float]:
        """What a pass says of its change, and the seconds it took; of other steps nothing."""
        if isinstance(step, Training):
            lowest = AtLowestLoss(self._test_scores, self._checkpoints(number) / "lowest.json")
            trainer = self._trainer(number, step, [lowest] if self.trial.arm.run.measure.at_lowest_loss else [])
            newest = trainer.last_complete_checkpoint()
            if newest:
                with _mended(self._checkpoints(number), "this training begins anew", self.watcher):
                    check_checkpoint(Path(newest))
                trainer.accelerator.wait_for_everyone()
            trainer.train(resume_from_checkpoint=newest if newest and Path(newest).exists() else None)
            after = self.progress.after(trainer, self._sign(self._evaluator(step)))
            self.progress = after.model_copy(update={"stopped": lowest.found})
            if self.trial.arm.is_level(number):
                self._add_level(number, trainer)
        elif isinstance(step, Apply):
            return self._apply(number, step.compress, step.calibrate)
        elif isinstance(step, Rewind):
            # The last snapshot of that name: in a Repeat there are several.
            taken = [n for n, other in enumerate(self.trial.arm.steps[:number]) if other == Snapshot(step.to)]
            load_model(self.model, self._folder(taken[-1]) / WEIGHTS)
            self.mask.hold(self.model)
            self._changed(self.progress.notes)
        return Change(self.mask, ""), 0.0

    def _apply(self, number: int, compress: Pass, rows: int) -> tuple[Change, float]:
        self._at(number, f"applying {compress.name}")
        self.model.cpu().eval()  # where the batches are
        began = time.monotonic()
        change = compress.apply(self.model, self.mask, self._calibration(number, compress, rows))
        seconds = time.monotonic() - began
        self.mask = change.mask
        self.reshaped = self.reshaped or compress.reshapes or change.processor is not None
        if change.processor is not None:
            self._retokenize(number, change.processor)
        self._changed([*self.progress.notes, change.note])
        if self.trial.arm.tested == "trainings":
            self._save_ticket()
        return change, seconds

    def _save_ticket(self) -> None:
        """Of this round, before the weights are taken back to where it starts."""
        arm, file = self.trial.arm, self._ticket_file(len(self.progress.levels))
        taken = [number for number, step in enumerate(arm.steps) if isinstance(step, Snapshot)]
        rewound = load_tensors(self._folder(taken[0]) / WEIGHTS)
        facts = {"round": len(self.progress.levels), "model": arm.start.words, "seed": self.trial.seed}
        if is_main():
            Ticket.of(self.mask, self.start, rewound, {**facts, **arm.facts}).save(file)

    def _ticket_file(self, level: int) -> Path:
        return self.home / TICKETS / f"round-{level:02d}.safetensors"

    def _add_level(self, number: int, trainer: Distiller) -> None:
        """Tests the model of one sparsity."""
        self._at(number, "testing")
        found = self.data.evaluator.test(self.model.eval())
        arm, levels, state = self.trial.arm, self.progress.levels, trainer.state
        if number + 1 == len(arm.steps):
            self.tested = found
        first = arm.steps[arm.first_pass]
        assert isinstance(first, Apply)
        assert isinstance(first.compress, Magnitude)
        mask = self.mask if self.mask.live else first.compress.scope_of(self.model)
        best = state.best_global_step or state.global_step
        level = Level(
            remaining=mask.remaining,
            total=mask.total,
            quality=found.scores,
            best_step=best,
            steps=state.global_step,
            dev=next((point.dev for point in trainer.curve() if point.step == best), {}),
            ticket=f"{ARMS}/{self.trial.name}/{TICKETS}/{self._ticket_file(len(levels)).name}" if levels else "",
            stopped=self.progress.stopped,
        )
        self.progress = self.progress.model_copy(update={"levels": [*levels, level]})

    def _retokenize(self, number: int, processor: Any) -> None:
        """The same rows in the new tokens. A teacher's outputs still fit by uid; those per token are checked."""
        arm, before = self.trial.arm, self.data
        self._encode(number, processor, before)
        if self.data.info.over_vocabulary:  # whose rows are the same, renumbered
            return
        later = (step.teacher_request.want for step in arm.steps[number:] if isinstance(step, Training))
        learnt = reduce(or_, later, Want.NOTHING)
        if by_token := self._by_token(learnt):
            check_segmentation(before, self.data, by_token)

    def _encode(self, number: int, processor: Any, before: EncodedData) -> None:
        arm = self.trial.arm
        assert arm.source is not None
        self.processor, self.data = processor, arm.source.encode(Model(self.model, processor), before)
        if self.data.info.over_vocabulary and arm.is_taught_from(number):
            self.data = with_old_rows(arm.data, self.data)

    def _by_token(self, want: Want) -> Want:
        """What of a teacher's outputs fits a row only if it is the same pieces of text."""
        return want if self.data.info.in_windows else want & ~PER_TEXT

    def _keep(self, number: int, step: str, change: Change, seconds: float) -> None:
        """Tests the model as it is now and saves it; that of the last step is the trial's own."""
        trial, artifacts = self.trial, self.progress.artifacts
        self._at(number, "testing")
        bare = drop_bridges(copy.deepcopy(self.model).cpu().eval())
        if hasattr(bare.config, "use_cache"):  # a trainer turns it off, which a resumed run would not know
            bare.config.use_cache = getattr(trial.arm.start.network.config, "use_cache", False)
        last = step != START and number + 1 == len(trial.arm.steps)
        name = f"{len(artifacts):02d}-{step}"
        place = "model" if last else f"{CHAIN}/{name}"
        if is_main():
            save_folder(uninstall(bare), self.processor, self.home / place)
        barrier()
        size = size_of(bare, self.home / place) if (self.home / place).exists() else None
        found = self.data.evaluator.test(bare.to(find_device(trial.arm.run.train.device)))
        before = (artifacts[-1].name, self.tested) if artifacts and self.tested else None
        made = make_artifact(trial, number, name, change, found, before).model_copy(
            update={"step": step, "seconds": seconds, "size": size, "path": f"{ARMS}/{trial.name}/{place}"}
        )
        self.tested = found
        self.progress = self.progress.model_copy(update={"artifacts": [*artifacts, made]})

    def _at(self, number: int, note: str) -> None:
        arm = self.trial.arm
        done = self.progress.epochs / arm.epochs if arm.epochs else number / len(arm.steps)
        self.watcher.at(self.trial.title, 0.99 * done, note)

    def _changed(self, notes: list[str]) -> None:
        """The weights are no longer those that dev was measured with."""
        self.progress = self.progress.model_copy(update={"notes": notes, "dev_score": None})

    def _test_scores(self, model: PreTrainedModel) -> dict[str, float]:
        return self.data.evaluator.test(model).scores

    def _trainer(self, number: int, step: Training, more: Sequence[TrainerCallback] = ()) -> Distiller:
        arm, data = self.trial.arm, self.data
        (dev, test), batch = data.evaluator.passes, step.schedule.batch_size * step.schedule.accumulate
        learnt = 3 * arm.rows * arm.epochs  # a training step is three passes
        share = learnt / (learnt + test * data.evaluator.test_rows) / arm.epochs  # of an epoch, beside the test
        part = (share * self.progress.epochs, share * step.schedule.epochs)
        eval_steps = dev * len(data.evaluator.dev) / (3 * batch)
        evaluator = self._evaluator(step)
        watch = Watch(self.watcher, self.trial.title, evaluator.best_metric, part, eval_steps)
        held: list[TrainerCallback] = [HoldMask(self.mask)] if self.mask.live else []
        held += [HoldNorm(most)] if (most := getattr(self.model.config, "max_norm", 0.0)) else []
        over = data.info.over_vocabulary  # then dev has other uids now
        by_token = step.teacher_request.want if over else self._by_token(step.teacher_request.want)
        return Distiller(
            self.model,
            objective=step.objective,
            teacher=self._teacher(step),
            task=data.info,
            schedule=step.schedule,
            train=data.train(step.targets),
            dev=data.evaluator.dev,
            collate=data.evaluator.collate,
            folder=self._checkpoints(number),
            seed=self.trial.seed,
            request=step.student_request,
            focus=step.focus,
            only_head=step.only_head,
            best=step.evaluated,
            best_by=DevMetric(evaluator.best_metric, evaluator.best_is_higher),
            evals=step.evals,
            scale=self.scale if final_linear(self.model) else None,
            dev_loss=data is arm.data or not (by_token and (over or resegmented(arm.data, data, "dev"))),
            **(evaluator.while_training() if step.evaluated else {}),
            callbacks=[*held, watch, *more, *switching(step.teacher), *self.callbacks],
        )

    def _teacher(self, step: Training) -> Teacher:
        """Of tokens under the numbers that they have now."""
        before = self.trial.arm.data
        if self.data is before or not (self.data.info.over_vocabulary and step.teacher_request.want):
            return step.teacher
        return RemappedTeacher(step.teacher, ids_before(before.processor, self.processor))

    def _calibration(self, number: int, compress: Pass, rows: int) -> Calibration:
        """Training rows as batches, as many as the recipe says or a pass that looks at them needs; and all texts."""
        data, arm = self.data, self.trial.arm
        rows = rows or (CALIBRATION_ROWS if compress.calibrates else 0)
        train, batches = data.rows.get(ALL, next(iter(data.rows.values()))), list[Batch]()
        for first in range(0, min(rows, len(train)), CALIBRATION_BATCH):
            chosen = range(first, min(first + CALIBRATION_BATCH, rows, len(train)))
            batches.append(to_batch(data.evaluator.collate([train[row] for row in chosen]), data.info))
        texts = {split: arm.source.texts(split) if arm.source else [] for split in ("train", "dev")}
        taught = data.info.over_vocabulary and arm.is_taught_from(number)
        rows_taught = cast(Mapping[str, PieceRows], data.rows).values() if taught else ()
        pieces = {int(piece) for one in rows_taught for piece in one.pieces}
        return Calibration(batches, texts["train"], self.processor, texts["dev"], pieces)

    def finish(self) -> TrialResult:
        """Saves the model, measures it on the test split, and saves what came of it."""
        arm, past, data = self.trial.arm, self.progress, self.data
        last = len(arm.steps) - 1
        model = self.model.cpu().eval()
        drop_bridges(model)
        uninstall(model)
        measured = self.tested if arm.is_measured(last) or arm.is_level(last) else None
        if is_main() and not arm.is_measured(last):
            save_folder(model, self.processor, self.home / "model")
        if self.mask.live:
            self.mask.save(self.home / MASK)
        model = model.to(find_device(arm.run.train.device))
        found = measured or data.evaluator.test(model)
        pace = past.epochs * arm.rows / past.seconds if past.seconds else 0.0
        took = {"seconds": past.seconds, "best_step": past.best_step, "sentences_per_second": pace}
        result = found.result(self.trial.seed).model_copy(
            update={
                "before": dict(self.before),
                "curve": past.curve,
                "levels": past.levels,
                "stopped": past.stopped,
                **took,
            }
        )
        dev_score = past.dev_score
        if dev_score is None:
            evaluator = self._evaluator(arm.trainings[-1] if arm.trainings else None)
            dev_score = self._sign(evaluator) * evaluator.dev_metrics(model)[evaluator.best_metric]
        whole = TrialResult(
            result=result,
            dev_score=dev_score,
            disagreements=found.disagreements,
            notes=past.notes,
            artifacts=past.artifacts,
            statistics=found.statistics,
            model=self.home / "model",
        )
        with atomic(self.home / TEST) as part:
            save_file({"uids": found.uids, "statistics": found.statistics}, part)
        if is_main():  # last, so that what has one is whole
            files = checksums(self.home, "model", CHAIN, TEST, MASK, TICKETS)
            write_sealed(self.home / RESULT, {**whole.model_dump(), FILES: files})
        barrier()
        return whole

    def _evaluator(self, step: Training | None) -> Evaluator:
        """Whose dev metrics have what the best weights of a step are known by."""
        return self.data.evaluator.choosing(step.best_by if step else "auto")

    def _sign(self, evaluator: Evaluator) -> int:
        return 1 if evaluator.best_is_higher else -1

    def _save_step(self, folder: Path) -> None:
        """The step's last file tells that all is there."""
        with atomic(folder / WEIGHTS) as part:
            save_model(self.model, str(part))
        if self.mask.live:
            self.mask.save(folder / MASK)
        if self.tested is not None:
            with atomic(folder / TEST) as part:
                save_file({name: np.ascontiguousarray(getattr(self.tested, name)) for name in _TESTED}, part)
        if is_main() and self.reshaped:
            save_shape(self.model, self.processor, folder / SHAPE)
        if is_main():
            write_sealed(folder / DONE, {**self.progress.model_dump(), FILES: checksums(folder, leave=DONE)})

    def _load_step(self, number: int, folder: Path) -> None:
        """What the step left behind."""
        progress = read_sealed(folder / DONE)
        check_files(folder, progress.pop(FILES, {}))
        if (folder / SHAPE).exists():
            self._take_shape(number, folder / SHAPE)
        load_model(self.model, folder / WEIGHTS)
        if self.reshaped and self.data.info.is_seq2seq:
            hold_pad(self.model)  # as whatever opens a translator does
        self.mask = Mask.load(folder / MASK) if (folder / MASK).exists() else Mask()
        self.progress = Progress(**progress)
        if (folder / TEST).exists():
            self.tested = Evaluation(**load_file(folder / TEST), scores=self.progress.artifacts[-1].quality)

    def _take_shape(self, number: int, folder: Path) -> None:
        """A model with the shapes that passes left, its weights still to come, and the rows in its tokens."""
        model, processor = read_shape(self.model, folder, self.trial.arm.run.trust_remote_code)
        _equip(model, self.trial.arm)
        self.model, self.reshaped = model, True
        if not tokenizers_equal(processor, self.processor):
            self._encode(number, processor, self.trial.arm.data)

    def _folder(self, number: int) -> Path:
        step = self.trial.arm.steps[number]
        name = step.name if isinstance(step, Training | Snapshot) else type(step).__name__.lower()
        return self.home / f"step-{number:02d}-{name}"

    def _checkpoints(self, number: int) -> Path:
        return self.home / f"checkpoints-{number:02d}"
