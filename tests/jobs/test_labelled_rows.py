"""A student that learns from labels alone: batches of labelled rows, and as many steps as it needs."""

import math
from dataclasses import replace

import pytest
import torch
from transformers import TrainerCallback

import limbeck
from limbeck.core.progress import Silent
from limbeck.jobs.plan import Training, on_labels, plan_arm, with_baselines
from limbeck.jobs.settings import Run
from limbeck.objectives.labels import Labels
from limbeck.tasks.base import ALL, GOLD, Model, task_of
from limbeck.training.schedule import Schedule
from limbeck.training.trainer import ObjectiveTrainer
from tiny import make_classifier, make_rows, make_tokenizer
from tiny_places import make_questions, make_reader, make_sentences, make_tagger

BARE = {"classify": "label", "tag": "tags", "answer": "answers"}
MADE = {
    "classify": (make_classifier, make_rows),
    "tag": (make_tagger, make_sentences),
    "answer": (make_reader, make_questions),
}


def some_labelled(kind, count=320, every=10, dev=24):
    """One labelled row in so many; dev and test have all of theirs."""
    make = MADE[kind][1]
    train = make(count)
    for number, row in enumerate(train):
        if every and number % every:
            row[BARE[kind]] = None
    return {"train": train, "dev": make(dev, seed=1), "test": make(dev, seed=2)}


def prepared(kind, **how):
    teacher = Model(MADE[kind][0](), make_tokenizer())
    run = Run(data={"task": kind})
    return task_of(run, teacher).prepare(some_labelled(kind, **how), teacher, Silent())


def planned(setup, **knobs):
    run = Run(**knobs)
    return with_baselines({"distilled": plan_arm("distilled", run, setup, Silent())}, setup.task, several=False)


@pytest.mark.parametrize("kind", MADE)
def test_every_row_of_the_baseline_has_a_label(kind):
    setup = prepared(kind)
    plain, taught = planned(setup)
    rows = plain.data.train(plain.main.targets)
    assert 0 < len(rows) < len(taught.data.train(taught.main.targets)) / 9
    assert all(any(torch.tensor(row["has_label"]).reshape(-1)) for row in rows)
    steps = {arm.name: math.ceil(arm.rows / 32) * arm.epochs for arm in (plain, taught)}
    assert steps["plain"] <= steps["distilled"]
    assert plain.epochs > 9 * taught.epochs * 0.9
    assert plain.main.evals == 20


@pytest.mark.parametrize("kind", MADE)
def test_where_every_row_has_a_label_nothing_changes(kind):
    setup = prepared(kind, every=0)
    plain, taught = planned(setup)
    assert plain.data.train(GOLD) is plain.data.train(ALL)
    assert (plain.main.schedule, plain.main.evals, plain.rows) == (taught.main.schedule, 0, taught.rows)


def test_windows_without_the_answer_are_not_rows_without_a_label():
    rows = make_questions(40)
    for row in rows:
        row["context"] = " ".join([row["context"], *["the"] * 60])
    teacher = Model(make_reader(), make_tokenizer())
    run = Run(data={"task": "answer", "max_length": 40}, windows={"stride": 8})
    data = task_of(run, teacher).prepare({"train": rows, "dev": rows, "test": rows}, teacher, Silent()).data
    assert not data.rows[ALL].has_label.all()
    assert data.rows[GOLD] is data.rows[ALL]


@pytest.mark.parametrize(
    ("labelled", "rows", "steps"),
    [
        (32, 320, 30),  # as many as over all rows
        (32, 320_000, 1000),  # few rows need steps rather than passes
        (6400, 3_200_000, 4000),  # and many 20 passes
        (300, 320, 30),
    ],
)
def test_how_long_it_may_train(labelled, rows, steps):
    data = prepared("classify", count=40).data
    some, all_rows = (data.rows[ALL].take([0] * count) for count in (labelled, 10))
    data = replace(data, rows={ALL: all_rows, GOLD: some}, size=rows)
    found = on_labels(Training("main", 1.0 * Labels(), Schedule(), GOLD), data)
    assert math.ceil(found.schedule.epochs * math.ceil(labelled / 32)) == steps
    assert (found.evals, found.schedule.patience) == (20, 14)  # 4 of 6 measurements, as the other waits
    assert found.schedule.but(epochs=3.0, patience=4) == Schedule()


def test_augmented_rows_are_the_teachers(tmp_path):
    """The baseline stays on people's rows, and does not train longer for them; nor does a column of labels alone."""
    setup = prepared("classify", every=0, count=60)
    how = {"out": str(tmp_path), "augment": {"kind": "bilstm", "copies": 3}}
    plain, taught = planned(setup, recipe="hinton", **how)
    (finetuned,) = planned(setup, recipe="finetune", **how)
    assert taught.rows > 60
    for arm in (plain, finetuned):
        assert (arm.rows, arm.epochs, arm.main.evals, arm.supervised) == (60, 3.0, 0, True)


class Seen(TrainerCallback):
    """The last step of every training."""

    def __init__(self):
        self.steps = {}

    def on_train_end(self, args, state, control, **_):
        self.steps["plain" if "plain-" in args.output_dir else "distilled"] = state.max_steps


class Cut(TrainerCallback):
    def on_step_end(self, args, state, control, **_):
        if "plain-" in args.output_dir and state.global_step == 7:
            raise KeyboardInterrupt


@pytest.mark.slow
def test_batches_of_the_baseline_are_labelled_and_a_resumed_one_ends_the_same(tmp_path, monkeypatch):
    shares, compute = {}, ObjectiveTrainer.compute_loss

    def looking(self, model, inputs, *args, **kwargs):
        if model.training:
            arm = "plain" if "plain-" in self.args.output_dir else "distilled"
            shares.setdefault(arm, []).append(inputs["has_label"].float().mean().item())
        return compute(self, model, inputs, *args, **kwargs)

    monkeypatch.setattr(ObjectiveTrainer, "compute_loss", looking)
    how = {"tokenizer": make_tokenizer(), "epochs": 2, "measure": {"speed": False, "bootstrap": 100}}
    seen = Seen()
    given = make_classifier(), some_labelled("classify", count=160)
    whole = limbeck.distill(*given, out=tmp_path / "whole", callbacks=[seen], **how)
    assert set(shares["plain"]) == {1.0}
    assert max(shares["distilled"]) < 0.5
    assert seen.steps["plain"] <= seen.steps["distilled"]
    assert any("trained on the 16 labelled rows alone, for at most 10 epochs" in note for note in whole.record.notes)
    with pytest.raises(KeyboardInterrupt):
        limbeck.distill(*given, out=tmp_path / "cut", callbacks=[Cut()], **how)
    limbeck.distill(*given, out=tmp_path / "cut", resume=True, **how)
    weights = "arms/plain-seed0/model/model.safetensors"
    assert (tmp_path / "whole" / weights).read_bytes() == (tmp_path / "cut" / weights).read_bytes()


def test_how_much_is_made_follows_from_how_fast_the_teacher_answers(tmp_path, monkeypatch):
    setup = prepared("classify", every=0, count=60)
    rows = len(setup.splits.train)
    how = {"out": str(tmp_path), "augment": {"kind": "joins", "copies": "auto", "minutes": 0.5}}
    monkeypatch.setattr("limbeck.tasks.text.answers_per_second", lambda teacher, batches: 1.0)
    _, taught = planned(setup, recipe="hinton", **how)
    assert 0 < taught.data.augmented <= 30, "half a minute of a text a second"
    monkeypatch.setattr("limbeck.tasks.text.answers_per_second", lambda teacher, batches: 1000.0)
    _, again = planned(setup, recipe="hinton", **how)
    assert again.data.augmented == taught.data.augmented, "a resumed run takes what was made"
    _, other = planned(setup, recipe="hinton", **{**how, "out": str(tmp_path / "other")})
    assert 30 < other.data.augmented <= 10 * rows, "never more than ten joins of a row"


def test_several_teachers_answer_one_after_the_other(tmp_path, monkeypatch):
    setup = prepared("classify", every=0, count=200)
    asked = []
    monkeypatch.setattr("limbeck.tasks.text.answers_per_second", lambda teacher, batches: asked.append(teacher) or 2.0)
    how = {"out": str(tmp_path), "augment": {"kind": "joins", "copies": "auto", "minutes": 0.5}}
    others = [Model(make_classifier(seed=1), make_tokenizer())]
    several = setup.task.averaged(setup, others, [(1.0, 1.0), (1.0, 1.0)])
    _, taught = planned(several, recipe="hinton", **how)
    assert len(asked) == 2
    assert 0 < taught.data.augmented <= 30, "two teachers, half a second each for a text"
