"""The loop: same order, same loss and same weights, however it is cut."""

import pytest
import torch
from transformers import TrainerCallback, set_seed

from limbeck.core.errors import KnobError
from limbeck.core.objective import requests
from limbeck.core.progress import Silent
from limbeck.core.tap import install
from limbeck.core.trace import NoTeacher
from limbeck.data.batches import Collator, batches
from limbeck.data.settings import DataSettings
from limbeck.data.text.examples import encode, read_texts
from limbeck.measure.evaluator import TextEvaluator
from limbeck.objectives import Labels, SoftTargets
from limbeck.objectives.tinybert import TinyBERT
from limbeck.students.sizes import shape_of
from limbeck.teachers.live import LiveTeacher
from limbeck.teachers.logits import LogitsCache
from limbeck.training import fast_loop
from limbeck.training.callbacks import COMPLETE, Watch
from limbeck.training.schedule import Schedule
from limbeck.training.trainer import Distiller
from tiny import make_classifier, make_rows, make_tokenizer

pytestmark = pytest.mark.slow

NO_DROPOUT = {"hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0}


@pytest.fixture(scope="module")
def corpus():
    rows = make_rows(200)
    for row in rows[::9]:
        row["label"] = ""
    return read_texts(DataSettings(), rows)


@pytest.fixture(scope="module")
def teacher():
    return LiveTeacher(make_classifier(seed=5))


def distiller(folder, corpus, teacher, *, callbacks=(), seed=3, objective=None, dropout=0.1, **schedule):
    tokenizer = make_tokenizer()
    set_seed(seed)
    model = make_classifier(layers=2, hidden_dropout_prob=dropout, attention_probs_dropout_prob=dropout)
    splits = {name: encode(getattr(corpus, name), tokenizer, 32) for name in ("train", "dev")}
    evaluator = TextEvaluator(corpus.task, tokenizer, splits)
    return Distiller(
        model,
        objective=objective or 0.5 * Labels() + 0.5 * SoftTargets(temperature=3.0),
        teacher=teacher,
        task=corpus.task,
        schedule=Schedule(**{"epochs": 3, "batch_size": 16, "learning_rate": 1e-3} | schedule),
        train=splits["train"],
        dev=evaluator.dev,
        collate=evaluator.collate,
        folder=folder,
        seed=seed,
        **evaluator.while_training(),
        callbacks=list(callbacks),
    )


def weights(trainer):
    return {name: tensor.clone() for name, tensor in trainer.model.state_dict().items()}


def same(a, b, tolerance=0.0):
    return all(torch.allclose(a[name], b[name], rtol=0, atol=tolerance) for name in a)


def losses(trainer):
    return [entry["loss"] for entry in trainer.state.log_history if "loss" in entry]


class Interrupt(TrainerCallback):
    """Ctrl-C after a number of steps."""

    def __init__(self, step):
        self.step = step

    def on_step_end(self, args, state, control, **_):
        if state.global_step == self.step:
            raise KeyboardInterrupt


def test_a_seed_reproduces(tmp_path, corpus, teacher):
    a, b = (distiller(tmp_path / name, corpus, teacher) for name in "ab")
    a.train(), b.train()
    assert same(weights(a), weights(b))
    c = distiller(tmp_path / "c", corpus, teacher, seed=4)
    c.train()
    assert not same(weights(a), weights(c))


@pytest.mark.parametrize("step", [7, 13, 25])
def test_a_run_resumed_in_the_middle_of_an_epoch_ends_like_an_unbroken_one(tmp_path, corpus, teacher, step):
    whole = distiller(tmp_path / "whole", corpus, teacher)
    whole.train()
    broken = distiller(tmp_path / "broken", corpus, teacher, callbacks=[Interrupt(step)])
    with pytest.raises(KeyboardInterrupt):
        broken.train()
    resumed = distiller(tmp_path / "broken", corpus, teacher)
    checkpoint = resumed.last_complete_checkpoint()
    assert checkpoint is not None
    resumed.train(resume_from_checkpoint=checkpoint)
    assert same(weights(whole), weights(resumed))
    assert whole.curve()[-1].dev == resumed.curve()[-1].dev


@pytest.mark.parametrize("objective", [1.0 * Labels(), 0.5 * Labels() + 0.5 * SoftTargets()], ids=["labels", "both"])
def test_the_loop_for_small_models_trains_the_same_weights(tmp_path, corpus, teacher, monkeypatch, objective):
    """Rows of unequal length, some without a label, and dropout."""
    fast, ordinary = (distiller(tmp_path / name, corpus, teacher, objective=objective) for name in "ab")
    assert fast_loop.fits(fast)
    fast.train()
    monkeypatch.setattr(fast_loop, "MOST_PRODUCTS", 0.0)
    assert not fast_loop.fits(ordinary)
    ordinary.train()
    assert same(weights(fast), weights(ordinary))
    assert fast.curve() == ordinary.curve()
    assert fast.state.total_flos == ordinary.state.total_flos


def test_a_half_written_checkpoint_is_passed_over(tmp_path, corpus, teacher):
    trainer = distiller(tmp_path, corpus, teacher, callbacks=[Interrupt(13)])
    with pytest.raises(KeyboardInterrupt):
        trainer.train()
    newest = trainer.last_complete_checkpoint()
    half = tmp_path / "checkpoint-999"
    half.mkdir()
    (half / "model.safetensors").write_bytes(b"half")
    assert trainer.last_complete_checkpoint() == newest
    assert not half.exists()
    assert (tmp_path / newest.rsplit("/", 1)[1] / COMPLETE).exists()


def test_live_and_cached_teachers_give_the_same_losses(tmp_path, corpus, teacher):
    cache = LogitsCache(tmp_path / "cache", {})
    tokenizer = make_tokenizer()
    for split in (corpus.train, corpus.dev):
        cache.fill(teacher, batches(encode(split, tokenizer, 32), Collator.of(tokenizer, corpus.task), 32))
    live, cached = (
        distiller(tmp_path / name, corpus, asked) for name, asked in (("live", teacher), ("cached", cache.teacher()))
    )
    live.train(), cached.train()
    assert losses(live) == pytest.approx(losses(cached), abs=1e-5)
    assert same(weights(live), weights(cached), 1e-4)


def test_micro_batches_give_the_gradient_of_one_batch(tmp_path, corpus, teacher):
    """Unequal labelled counts included: every ninth row has no label."""
    one = distiller(tmp_path / "one", corpus, teacher, batch_size=12, dropout=0.0, max_grad_norm=0, epochs=1)
    many = distiller(
        tmp_path / "many", corpus, teacher, batch_size=4, accumulate=3, dropout=0.0, max_grad_norm=0, epochs=1
    )
    one.train(), many.train()
    assert losses(one) == pytest.approx(losses(many), abs=1e-5)
    assert same(weights(one), weights(many), 2e-5)


def test_the_teacher_is_bitwise_unchanged_by_training(tmp_path, corpus):
    model = make_classifier(seed=5)
    before = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    distiller(tmp_path, corpus, LiveTeacher(model), epochs=1).train()
    assert all(torch.equal(before[name], tensor) for name, tensor in model.state_dict().items())
    assert not model.training


def test_padding_changes_no_loss(tmp_path, corpus, teacher):
    """The same rows in other company are padded to other lengths."""
    bucketed = distiller(tmp_path / "a", corpus, teacher, dropout=0.0)
    collate, rows = bucketed.data_collator, [bucketed.train_dataset[i] for i in range(8)]
    short = min(rows, key=lambda row: len(row["input_ids"]))
    alone = bucketed.compute_loss(bucketed.model.eval(), collate([short]))
    longest = max(
        (bucketed.train_dataset[i] for i in range(len(bucketed.train_dataset))), key=lambda r: len(r["input_ids"])
    )
    both = collate([short, longest])
    padded = bucketed.compute_loss(bucketed.model.eval(), {name: tensor[:1] for name, tensor in both.items()})
    assert both["input_ids"].shape[1] > len(short["input_ids"])
    assert alone.item() == pytest.approx(padded.item(), abs=1e-6)


def test_the_curve_holds_terms_and_dev_metrics(tmp_path, corpus, teacher):
    trainer = distiller(tmp_path, corpus, teacher, epochs=1)
    trainer.train()
    curve = trainer.curve()
    terms = next(point.terms for point in curve if point.terms)
    assert terms.keys() == {"labels", "soft"}
    point = next(point for point in curve if point.loss is not None)
    assert point.loss == pytest.approx(0.5 * point.terms["labels"] + 0.5 * point.terms["soft"], abs=1e-4)
    assert "accuracy" in curve[-1].dev


def test_early_stopping_ends_a_run_that_does_not_improve(tmp_path, corpus):
    trainer = distiller(
        tmp_path, corpus, NoTeacher(), objective=1.0 * Labels(), learning_rate=1e-12, epochs=20, patience=2
    )
    trainer.train()
    assert trainer.state.epoch < 3


def test_callbacks_of_transformers_work(tmp_path, corpus, teacher):
    seen = []

    class Note(TrainerCallback):
        def on_log(self, args, state, control, logs=None, **_):
            seen.append(logs)

    distiller(tmp_path, corpus, teacher, epochs=1, callbacks=[Note()]).train()
    assert any("term_soft" in logs for logs in seen)
    assert any("eval_accuracy" in logs for logs in seen)


def test_a_logger_that_is_not_there_is_explained(tmp_path, corpus, teacher):
    with pytest.raises(KnobError, match=r"train.report_to.*\n.*install"):
        distiller(tmp_path, corpus, teacher, report_to="no-such-logger")


def stepped(folder, corpus, objective, **how):
    """The weights after one step of plain descent, and the loss told of it; Adam would hide a wrong size."""
    teacher, model = make_classifier(seed=5), make_classifier(layers=2, **NO_DROPOUT)
    of_student, of_teacher = requests(objective, shape_of(model), shape_of(teacher))
    tokenizer = make_tokenizer()
    trainer = Distiller(
        install(model),
        objective=objective,
        teacher=LiveTeacher(install(teacher), of_teacher),
        task=corpus.task,
        schedule=Schedule(epochs=1, warmup=0.0, max_grad_norm=0.0, evals_per_epoch=1, bucket=False, **how),
        train=encode(corpus.train, tokenizer, 32),
        dev=encode(corpus.dev, tokenizer, 32),
        collate=Collator.of(tokenizer, corpus.task),
        folder=folder,
        seed=0,
        request=of_student,
        best=False,
    )
    trainer.optimizer = torch.optim.SGD(model.parameters(), 1e-2)
    trainer.train()
    assert trainer.state.global_step == 1
    return weights(trainer), losses(trainer)


def test_micro_batches_of_unequal_padding_give_the_gradient_of_one_batch(tmp_path):
    """A mean over the tokens that are there: padding, of which every batch has its own amount, counts nowhere."""
    rows = [{"text": " ".join(["good"] * length), "label": "positive"} for length in (1, 20, 2, 3, 12, 2, 1, 28, 5)]
    rows[0]["label"] = "negative"
    corpus = read_texts(DataSettings(), {"train": rows, "dev": rows[:2], "test": rows[:2]})
    objective = 1.0 * TinyBERT()
    start = make_classifier(layers=2, **NO_DROPOUT).state_dict()
    whole, told = stepped(tmp_path / "whole", corpus, objective, batch_size=9)
    moved = {name: whole[name] - start[name] for name in whole}
    assert max(change.abs().max() for change in moved.values()) > 1e-3
    for size, accumulate in ((3, 3), (1, 9)):
        parts, told_of_parts = stepped(tmp_path / str(size), corpus, objective, batch_size=size, accumulate=accumulate)
        assert told_of_parts == pytest.approx(told, rel=1e-4)
        for name, change in moved.items():
            assert torch.allclose(parts[name] - start[name], change, atol=1e-6, rtol=1e-3), name


class Reports(Silent):
    """What a person would see."""

    def __init__(self):
        self.seen = []

    def at(self, stage, done, note=""):
        self.seen.append((done, note))


def test_a_person_sees_the_loss_and_evaluations_count_as_work(corpus, teacher, tmp_path):
    reports = Reports()
    watch = Watch(reports, "student", "accuracy", part=(0.2, 0.6), eval_steps=5.0)
    trainer = distiller(tmp_path, corpus, teacher, callbacks=[watch], epochs=1, evals_per_epoch=2)
    trainer.train()
    steps, every = trainer.state.max_steps, trainer.args.eval_steps
    evals = steps // every
    whole = steps + 5 * evals
    shares = [share for share, _ in reports.seen]
    assert shares == sorted(shares)
    assert shares[0] == pytest.approx(0.2 + 0.6 / whole)
    assert shares[every - 1 : every + 1] == pytest.approx([0.2 + 0.6 * every / whole, 0.2 + 0.6 * (every + 5) / whole])
    assert shares[-1] == pytest.approx(0.8 if steps % every == 0 else 0.2 + 0.6 * (steps + 5 * evals) / whole)
    last = reports.seen[-1][1]
    logged = [entry["loss"] for entry in trainer.state.log_history if "loss" in entry]
    assert last.startswith(f"loss {logged[-1]:.3g}, dev accuracy 0.")
