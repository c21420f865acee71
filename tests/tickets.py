"""A tiny lottery: two rounds of training, pruning and rewinding, then a last training; and a run that kills itself."""

import os
import signal
import sys
from pathlib import Path

from transformers import TrainerCallback

from limbeck.core.progress import Silent
from limbeck.jobs.plan import plan_arm, trials
from limbeck.jobs.settings import Run
from limbeck.jobs.trial import run_trial
from limbeck.objectives.supervised import supervised
from limbeck.passes.magnitude import Magnitude
from limbeck.recipes import RECIPES
from limbeck.recipes.recipe import Apply, Recipe, Repeat, Rewind, Snapshot, Train
from limbeck.tasks.base import Model, task_of
from tiny import make_classifier, make_rows, make_tokenizer

TRAIN = {"epochs": 1, "batch_size": 16, "learning_rate": 1e-3, "weight_decay": 0.1, "evals_per_epoch": 2}
SHORT = Recipe(
    "short-lottery",
    "for a test",
    RECIPES["lottery"].paper,
    lambda task: (
        Snapshot("start"),
        Repeat(2, (Train(supervised(task)), Apply(Magnitude(fraction=0.2)), Rewind("start"))),
        Train(supervised(task)),
    ),
    defaults=RECIPES["lottery"].defaults,
)


def make_arm():
    teacher = Model(make_classifier(layers=2, seed=5), make_tokenizer())
    RECIPES[SHORT.name] = SHORT
    try:
        run = Run(recipe=SHORT.name, student={"layers": 1}, train=TRAIN)
        setup = task_of(run, teacher).prepare(make_rows(120), teacher, Silent())
        return plan_arm("ticket", run, setup, Silent())
    finally:
        del RECIPES[SHORT.name]


def run(arm, folder, callbacks=()):
    (trial,) = trials([arm])
    return run_trial(trial, Path(folder), Silent(), callbacks)


class Kill(TrainerCallback):
    """As the system does it, in the middle of a training."""

    def __init__(self, number, step):
        self.where, self.step = f"checkpoints-{number:02d}", step

    def on_step_end(self, args, state, control, **_):
        if args.output_dir.endswith(self.where) and state.global_step == self.step:
            os.kill(os.getpid(), signal.SIGKILL)


if __name__ == "__main__":
    run(make_arm(), sys.argv[1], [Kill(number=4, step=5)])
