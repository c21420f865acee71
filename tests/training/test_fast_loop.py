"""The loop for small models: the weights, losses and checkpoints of the ordinary one, to the bit."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import load_file
from torch import nn
from transformers import PretrainedConfig, PreTrainedModel, TrainerCallback
from transformers.modeling_outputs import SequenceClassifierOutput

from limbeck.core.compress import Mask
from limbeck.core.task import TaskInfo
from limbeck.core.trace import NoTeacher
from limbeck.data.batches import batches
from limbeck.objectives import Labels, SoftTargets
from limbeck.passes.magnitude import Magnitude
from limbeck.teachers.live import LiveTeacher
from limbeck.teachers.logits import LogitsCache
from limbeck.training import fast_loop
from limbeck.training.callbacks import HoldMask, Watch
from limbeck.training.schedule import Schedule
from limbeck.training.trainer import Distiller

pytestmark = pytest.mark.slow

TASK = TaskInfo(kind="classify", labels=("no", "yes", "maybe"))
PIXELS = 12
STEPS = 20  # of an epoch
OWN = ("runtime", "per_second", "train_loss")  # what a log says of one run or one part of it
EVENTS = [name for name in vars(TrainerCallback) if name.startswith("on_")]


class Perceptron(PreTrainedModel):
    config_class = PretrainedConfig
    main_input_name = "pixel_values"

    def __init__(self, config):
        super().__init__(config)
        self.hidden, self.dropout = nn.Linear(PIXELS, 16), nn.Dropout(0.2)
        self.classifier = nn.Linear(16, 3)
        self.post_init()

    def _init_weights(self, module):
        if isinstance(module, nn.Linear):
            module.reset_parameters()

    def forward(self, pixel_values):
        return SequenceClassifierOutput(logits=self.classifier(self.dropout(self.hidden(pixel_values).relu())))


class Vectors:
    """Rows of a fixed length in two versions, of which every epoch takes one; the tenth row has no label."""

    rounds = 2

    def __init__(self, count, seed, broken=-1):
        self.vectors = torch.randn(2 * count, PIXELS, generator=torch.Generator().manual_seed(seed))
        self.labels = self.vectors[:, :3].argmax(1)
        if broken >= 0:
            self.vectors[broken] = torch.nan
        self.lengths, self.asked = [1] * count, 0
        self.has_label = torch.arange(2 * count) % 10 != 0

    def __len__(self):
        return len(self.lengths)

    def __getitem__(self, index):
        return {
            "pixel_values": self.vectors[index],
            "labels": self.labels[index],
            "uids": torch.tensor(index),
            "has_label": self.has_label[index],
        }

    def batch(self, indices):
        self.asked += 1
        rows = torch.from_numpy(indices)
        return {
            "pixel_values": self.vectors[rows],
            "labels": self.labels[rows],
            "uids": rows,
            "has_label": self.has_label[rows],
        }


def collate(rows):
    return {name: torch.stack([row[name] for row in rows]) for name in rows[0]}


collate.task = TASK


def perceptron(seed=0):
    torch.manual_seed(seed)
    return Perceptron(PretrainedConfig(num_labels=3))


def cached_teacher(folder):
    cache, data = LogitsCache(folder, {}), Vectors(310, seed=1)
    every = np.arange(2 * len(data))
    cache.fill(LiveTeacher(perceptron(seed=5)), batches(data, collate, 64, every))
    dev = Vectors(100, seed=2)
    cache.fill(LiveTeacher(perceptron(seed=5)), batches(dev, collate, 64))
    return cache.teacher()


def accuracy(prediction):
    labels = prediction.label_ids[0] if isinstance(prediction.label_ids, tuple) else prediction.label_ids
    return {"accuracy": float((prediction.predictions.argmax(1) == labels).mean())}


def distiller(folder, *, callbacks=(), taught=False, masked=False, broken=-1, cls=Distiller, best=True, **schedule):
    model = perceptron()
    held = [HoldMask(Magnitude(fraction=0.5).apply(model, Mask()).mask)] if masked else []
    return cls(
        model,
        objective=0.3 * Labels() + 0.7 * SoftTargets(temperature=3.0) if taught else 1.0 * Labels(),
        teacher=cached_teacher(folder.parent / "cache") if taught else NoTeacher(),
        task=TASK,
        schedule=Schedule(**{"epochs": 3, "batch_size": 16, "learning_rate": 1e-2, "patience": 0} | schedule),
        train=Vectors(310, seed=1, broken=broken),
        dev=Vectors(100, seed=2),
        collate=collate,
        folder=folder,
        seed=3,
        best=best,
        compute_metrics=accuracy,
        callbacks=[*held, Watch(), *callbacks],
    )


def train(trainer, fast, resume=None):
    """By one of the loops; `batch` is what only the fast one asks."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(fast_loop, "MOST_PRODUCTS", 1e9 if fast else 0.0)
        asked = trainer.train_dataset.asked
        result = trainer.train(resume_from_checkpoint=resume)
    assert (trainer.train_dataset.asked > asked) == fast
    return result


def lasting(entry):
    return {name: value for name, value in entry.items() if not any(own in name for own in OWN)}


def assert_equal(one, other):
    """Nested containers with tensors and arrays."""
    assert type(one) is type(other)
    if isinstance(one, dict):
        assert one.keys() == other.keys()
        for key in one:
            assert_equal(one[key], other[key])
    elif isinstance(one, list | tuple):
        assert len(one) == len(other)
        for a, b in zip(one, other, strict=True):
            assert_equal(a, b)
    elif isinstance(one, torch.Tensor | np.ndarray):
        np.testing.assert_array_equal(np.asarray(one), np.asarray(other))
    else:
        assert one == other or (one != one and other != other)


def assert_same(fast, ordinary):
    """Weights, logs, and what the last checkpoint holds: optimiser, schedule and random numbers."""
    assert_equal(dict(fast.model.state_dict()), dict(ordinary.model.state_dict()))
    assert_equal(*([lasting(entry) for entry in trainer.state.log_history] for trainer in (fast, ordinary)))
    for field in ("global_step", "epoch", "total_flos", "best_metric", "best_global_step"):
        assert getattr(fast.state, field) == getattr(ordinary.state, field), field
    folders = [Path(trainer.args.output_dir) for trainer in (fast, ordinary)]
    names = [sorted(str(path.relative_to(folder)) for path in folder.rglob("*")) for folder in folders]
    assert names[0] == names[1]
    checkpoint = fast.last_complete_checkpoint().rsplit("/", 1)[1]
    for name in ("optimizer.pt", "scheduler.pt", "rng_state.pth"):
        assert_equal(*(torch.load(folder / checkpoint / name, weights_only=False) for folder in folders))


CASES = {
    "labels": {},
    "a cached teacher": {"taught": True},
    "a mask": {"masked": True, "weight_decay": 0.1},
    "a mask and a teacher": {"masked": True, "taught": True},
    "early stopping": {"learning_rate": 1e-12, "patience": 2, "epochs": 9},
    "the last weights": {"keep": "last"},
    "steps that end inside an epoch": {"max_steps": 2 * STEPS + 7},
    "nothing measured": {"best": False},
    "no clipping": {"max_grad_norm": 0.0, "decay": "constant", "warmup": 0.0, "weight_decay": 0.0},
    "clipping at every step": {"max_grad_norm": 1e-3, "decay": "cosine"},
    "no buckets": {"bucket": False},
    "a loss that is not a number": {"broken": 7, "max_grad_norm": 0.0},
}


@pytest.mark.parametrize("case", CASES)
def test_it_trains_as_the_ordinary_loop_does(tmp_path, case):
    fast, ordinary = (distiller(tmp_path / name, **CASES[case]) for name in ("fast", "ordinary"))
    assert train(fast, True).training_loss == train(ordinary, False).training_loss
    assert_same(fast, ordinary)
    assert fast.state.global_step > STEPS
    if "masked" in CASES[case]:
        assert (fast.model.hidden.weight == 0).sum() >= 60


class Interrupt(TrainerCallback):
    def __init__(self, step):
        self.step = step

    def on_step_end(self, args, state, control, **_):
        if state.global_step == self.step:
            raise KeyboardInterrupt


@pytest.mark.parametrize("first", [True, False], ids=["fast first", "ordinary first"])
@pytest.mark.parametrize("second", [True, False], ids=["then fast", "then ordinary"])
@pytest.mark.parametrize("step", [13, STEPS, STEPS + 1, 2 * STEPS + 3])
def test_either_loop_resumes_what_the_other_began(tmp_path, step, first, second):
    whole = distiller(tmp_path / "whole", masked=True)
    train(whole, False)
    broken = distiller(tmp_path / "broken", masked=True, callbacks=[Interrupt(step)])
    with pytest.raises(KeyboardInterrupt):
        train(broken, first)
    resumed = distiller(tmp_path / "broken", masked=True)
    train(resumed, second, resumed.last_complete_checkpoint())
    assert_same(resumed, whole)


class Kill(TrainerCallback):
    def on_step_end(self, args, state, control, **_):
        if state.global_step == 2 * STEPS + 3:
            os.kill(os.getpid(), signal.SIGKILL)


def test_a_killed_run_resumes_to_the_weights_of_an_unbroken_one(tmp_path):
    script = (
        "from pathlib import Path; import test_fast_loop as t; "
        f"t.train(t.distiller(Path({str(tmp_path / 'killed')!r}), masked=True, callbacks=[t.Kill()]), True)"
    )
    ended = subprocess.run(
        [sys.executable, "-c", script],
        env={**os.environ, "PYTHONPATH": os.pathsep.join([str(Path(__file__).parent), *sys.path])},
    )
    assert ended.returncode == -signal.SIGKILL
    resumed, whole = distiller(tmp_path / "killed", masked=True), distiller(tmp_path / "whole", masked=True)
    checkpoint = resumed.last_complete_checkpoint()
    assert checkpoint.endswith(f"-{2 * STEPS}")
    train(resumed, True, checkpoint), train(whole, True)
    assert_same(resumed, whole)


class Diary(TrainerCallback):
    """Every event, with what its callback sees and does."""

    def __init__(self):
        self.pages = []


def _noting(event):
    def note(self, args, state, control, model=None, optimizer=None, **_):
        rate = optimizer.param_groups[0]["lr"] if optimizer else None
        gradient = model.hidden.weight.grad
        self.pages.append(
            (event, state.global_step, state.epoch, rate, None if gradient is None else gradient.sum().item())
        )
        if event == "on_step_end" and state.global_step % 11 == 0:
            control.should_log = True
        if event == "on_epoch_end" and state.global_step == 2 * STEPS:
            control.should_log = control.should_evaluate = True
        if event == "on_step_end" and state.global_step == 2 * STEPS + 9:
            control.should_training_stop = True
        return control

    return note


for _event in EVENTS:
    setattr(Diary, _event, _noting(_event))


@pytest.mark.parametrize("clip", [0.0, 1.0])
def test_callbacks_see_the_same_and_steer_alike(tmp_path, clip):
    diaries = [Diary(), Diary()]
    fast, ordinary = (
        distiller(tmp_path / name, callbacks=[diary], max_grad_norm=clip)
        for name, diary in zip(("fast", "ordinary"), diaries, strict=True)
    )
    train(fast, True), train(ordinary, False)
    assert diaries[0].pages == diaries[1].pages
    assert {"on_step_begin", "on_pre_optimizer_step", "on_optimizer_step"} <= {page[0] for page in diaries[0].pages}
    assert fast.state.global_step == 2 * STEPS + 9
    assert any(entry["step"] == 11 and "grad_norm" in entry for entry in fast.state.log_history)
    assert_same(fast, ordinary)


class OtherStep(Distiller):
    def training_step(self, *args, **kwargs):
        return super().training_step(*args, **kwargs)


def test_what_does_not_fit_takes_the_ordinary_loop(tmp_path, monkeypatch):
    assert fast_loop.fits(distiller(tmp_path))
    assert not fast_loop.fits(distiller(tmp_path, accumulate=2))
    assert not fast_loop.fits(distiller(tmp_path, cls=OtherStep)), "a step of one's own is taken"
    small = fast_loop.products(distiller(tmp_path))
    assert small == 16 * sum(weight.numel() for weight in perceptron().parameters())
    monkeypatch.setattr(fast_loop, "MOST_PRODUCTS", small - 1)
    assert not fast_loop.fits(distiller(tmp_path))


def test_a_mask_is_held_in_every_checkpoint(tmp_path):
    trainer = distiller(tmp_path, masked=True, keep="last")
    train(trainer, True)
    dead = ~trainer.callback_handler.callbacks[2].mask.live["hidden.weight"]
    saved = [load_file(path) for path in tmp_path.glob("checkpoint-*/model.safetensors")]
    assert saved
    assert all((weights["hidden.weight"][dead] == 0).all() for weights in saved)
