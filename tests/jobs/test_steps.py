"""The steps of a recipe: Train, Apply, Snapshot, Rewind, Repeat. Broken off anywhere, they end as an unbroken run."""

import re
import signal
import sys
from contextlib import contextmanager
from dataclasses import replace
from unittest import mock

import pytest
import torch
from safetensors.torch import load_file
from transformers import TrainerCallback

import forked
import tickets
from limbeck.core.checksum import read_sealed, write_sealed
from limbeck.core.compress import Mask, prunable
from limbeck.jobs import trial as module
from limbeck.jobs.plan import Training
from limbeck.passes.magnitude import Magnitude
from limbeck.recipes.recipe import Apply, Rewind, Snapshot

pytestmark = pytest.mark.slow

HALF = Apply(Magnitude(fraction=0.5))


class Cut(BaseException):
    """The run ends here."""


class CutInside(TrainerCallback):
    def __init__(self, number, step=5):
        self.where, self.step = f"checkpoints-{number:02d}", step

    def on_step_end(self, args, state, control, **_):
        if args.output_dir.endswith(self.where) and state.global_step == self.step:
            raise Cut


@contextmanager
def cut_at(file, after=False):
    """The run ends where a file is written: right before it, or right after."""

    def write_or_end(path, content):
        there = re.search(file, str(path))
        if there and not after:
            raise Cut
        write_sealed(path, content)
        if there:
            raise Cut

    with mock.patch.object(module, "write_sealed", write_or_end), pytest.raises(Cut):
        yield


@pytest.fixture(scope="module")
def arm():
    return tickets.make_arm()


@pytest.fixture(scope="module")
def whole(arm, tmp_path_factory):
    folder = tmp_path_factory.mktemp("whole")
    return folder / "ticket-seed0", tickets.run(arm, folder)


def weights(home):
    return load_file(home / "model" / "model.safetensors")


def same(one, other):
    a, b = weights(one), weights(other)
    return a.keys() == b.keys() and all(torch.equal(a[name], b[name]) for name in a)


def untimed(home):
    """The result but for the clock."""
    kept = read_sealed(home / "result.json")
    for name in ("seconds", "sentences_per_second"):
        kept["result"].pop(name)
    for artifact in kept["artifacts"]:
        artifact.pop("seconds")
    return {**kept, "files": kept["files"].keys()}


def test_a_repeat_is_spelled_out_step_by_step(arm):
    kinds = [type(step).__name__ for step in arm.steps]
    once = ["Training", "Apply", "Rewind"]
    assert kinds == ["Snapshot", *once, *once, "Training"]
    assert all(step.evaluated for step in arm.trainings)
    assert arm.epochs == 3


def test_pruned_weights_are_exactly_0_and_counted(arm, whole):
    """After three trainings with weight decay and the momentum of AdamW."""
    home, found = whole
    mask, kept = Mask.load(home / "mask.safetensors"), weights(home)
    assert mask.live.keys() == prunable(arm.start.network).keys()
    for name, live in mask.live.items():
        left = live.numel()
        for _ in range(2):
            left -= round(0.2 * left)
        assert int(live.sum()) == left, name
        assert (kept[name][~live] == 0).all()
        assert (kept[name][live] != 0).all()
    total, remaining = mask.total, mask.remaining
    assert found.notes[-1] == f"{remaining:,} of {total:,} weights remain ({100 * remaining / total:.1f} %)."
    assert len(found.notes) == 2
    whole_ones = {name for name in kept if name not in mask.live}
    assert any("embeddings" in name for name in whole_ones)
    assert any("bias" in name for name in whole_ones)


def test_what_lives_is_trained_from_the_start_it_had(arm, whole, tmp_path):
    """The last training sees the start under the mask, whatever came between."""
    home, _ = whole
    mask, start = Mask.load(home / "mask.safetensors"), arm.start.build

    def pruned():
        model = start()
        mask.hold(model)
        return model

    # As a step of its own, with the mask applied once more: nothing is left to prune of what is 0.
    alone = replace(arm, start=replace(arm.start, build=pruned), steps=(Apply(Held(mask)), arm.steps[-1]))
    tickets.run(alone, tmp_path)
    assert same(tmp_path / "ticket-seed0", home)


class Held(Magnitude):
    """A mask that is known."""

    def __init__(self, mask):
        super().__init__(fraction=0.0)
        object.__setattr__(self, "_mask", mask)

    def apply(self, model, mask, batches=()):
        return super().apply(model, self._mask)


def test_the_curve_counts_on_over_the_steps(whole):
    _, found = whole
    steps = [point.step for point in found.result.curve]
    assert steps == sorted(set(steps))
    last = max(steps)
    per_training = last // 3
    assert last == 3 * per_training
    assert 2 * per_training < found.result.best_step <= last
    best = next(point for point in found.result.curve if point.step == found.result.best_step)
    assert best.dev["accuracy"] == found.dev_score


def test_broken_off_at_every_point_it_ends_like_an_unbroken_run(arm, whole, tmp_path):
    """One run, ended before and after every step is marked as done, inside every training, and before its result."""
    home = tmp_path / "ticket-seed0"
    for number, step in enumerate(arm.steps):
        if isinstance(step, Training):
            with pytest.raises(Cut):
                tickets.run(arm, tmp_path, [CutInside(number)])
            assert list((home / f"checkpoints-{number:02d}").glob("checkpoint-*/complete"))
        if number == len(arm.steps) - 1:
            continue
        for after in (False, True):
            with cut_at(f"step-{number:02d}-.*/done.json", after):
                tickets.run(arm, tmp_path)
            assert bool(list(home.glob(f"step-{number:02d}-*/done.json"))) == after
    with cut_at("result.json"):
        tickets.run(arm, tmp_path)
    tickets.run(arm, tmp_path)
    assert same(home, whole[0])
    assert untimed(home) == untimed(whole[0])
    assert (home / "mask.safetensors").read_bytes() == (whole[0] / "mask.safetensors").read_bytes()
    assert {path.name for path in home.iterdir()} == {
        *("model", "chain", "mask.safetensors", "test.safetensors", "result.json")
    }


def test_killed_in_the_second_round_it_ends_like_an_unbroken_run(arm, whole, tmp_path):
    child = forked.run([sys.executable, tickets.__file__, tmp_path])
    assert child.returncode == -signal.SIGKILL, child.stderr.decode()
    home = tmp_path / "ticket-seed0"
    assert (home / "step-03-rewind" / "done.json").exists()
    assert not (home / "step-04-main").exists()
    tickets.run(arm, tmp_path)
    assert same(home, whole[0])
    assert untimed(home) == untimed(whole[0])


def test_a_rewind_takes_the_last_snapshot_before_it(arm, tmp_path):
    """Of two of one name; the mask stays."""
    main = arm.main
    steps = (Snapshot("mark"), main, Snapshot("mark"), HALF, main, Rewind("mark"), Snapshot("mark"))
    tickets.run(replace(arm, steps=steps), tmp_path / "long")
    tickets.run(replace(arm, steps=(main, HALF)), tmp_path / "short")
    assert same(tmp_path / "long" / "ticket-seed0", tmp_path / "short" / "ticket-seed0")


def test_steps_are_told_in_plain_words(arm):
    assert [str(step) for step in arm.steps[:4]] == [
        "take the snapshot 'start'",
        "train 'main' for 1 epochs: 1 * Labels()",
        "apply Magnitude(fraction=0.2)",
        "rewind to the snapshot 'start'",
    ]


def test_a_training_that_is_never_evaluated_has_no_dev_score_of_its_own(arm, tmp_path):
    """The best seed is chosen by what the finished model does on dev, not by a score that nobody measured."""
    unseen = replace(arm.main, final=False)
    assert not unseen.evaluated
    found = tickets.run(replace(arm, steps=(unseen,)), tmp_path)
    assert not any(point.dev for point in found.result.curve)
    model = type(arm.start.network).from_pretrained(found.model)
    assert found.dev_score == arm.data.evaluator.dev_metrics(model)["accuracy"]


def test_only_the_main_process_writes(arm, tmp_path, monkeypatch):
    short = replace(arm, steps=(Snapshot("start"), HALF))
    main = tickets.run(short, tmp_path / "main")
    monkeypatch.setenv("RANK", "1")
    other = tickets.run(short, tmp_path / "other")
    assert not (tmp_path / "other").exists()
    assert other.result.quality == main.result.quality
    assert other.dev_score == main.dev_score


@pytest.mark.parametrize("last", [Snapshot("end"), HALF], ids=["snapshot", "apply"])
def test_what_a_training_found_is_known_after_a_break(arm, tmp_path, last):
    """The best step and its dev score, where the training is not the last step."""
    short = replace(arm, steps=(arm.main, last))
    found = tickets.run(short, tmp_path / "whole")
    with cut_at("step-00-main/done.json", after=True):
        tickets.run(short, tmp_path / "cut")
    tickets.run(short, tmp_path / "cut")
    assert untimed(tmp_path / "cut" / "ticket-seed0") == untimed(tmp_path / "whole" / "ticket-seed0")
    assert found.result.best_step > 0
    best = next(point for point in found.result.curve if point.step == found.result.best_step)
    if isinstance(last, Snapshot):
        assert found.dev_score == best.dev["accuracy"]
    else:  # pruned since: dev is measured anew
        model = type(arm.start.network).from_pretrained(found.model)
        assert found.dev_score == arm.data.evaluator.dev_metrics(model)["accuracy"]
