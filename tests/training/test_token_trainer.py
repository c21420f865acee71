"""The loop on running text: however it is cut into steps and sittings, and what decides which checkpoint is best."""

import math

import pytest
import torch
from transformers import TrainerCallback, set_seed

from limbeck.core.objective import requests
from limbeck.core.trace import NoTeacher, Request, Want
from limbeck.objectives import Cosine, LanguageModeling, Truncated, WordKD
from limbeck.students.sizes import shape_of
from limbeck.teachers.live import LiveTeacher
from limbeck.training.schedule import Schedule
from limbeck.training.trainer import Distiller
from tiny import VOCABULARY, make_tokenizer
from tiny_language import make_causal, make_masked, make_words

pytestmark = pytest.mark.slow

WORDS = len(VOCABULARY)
TRIPLE = 2.0 * LanguageModeling() + 5.0 * WordKD(temperature=2.0) + 1.0 * Cosine()


@pytest.fixture(scope="module")
def teacher():
    model = make_masked(seed=5)
    with torch.no_grad():
        model.get_output_embeddings().weight.mul_(20)
    last = model.config.num_hidden_layers
    return LiveTeacher(model, Request(Want.LOGITS | Want.HIDDEN, hidden=(last,)), WORDS)


@pytest.fixture(scope="module")
def words():
    return make_words(make_tokenizer(), documents=50, rounds=0, ask="all")


def distiller(
    folder, words, teacher, *, model=None, callbacks=(), seed=3, objective=TRIPLE, dropout=0.1, dev_metrics=None, **how
):
    set_seed(seed)
    drop = {"hidden_dropout_prob": dropout, "attention_probs_dropout_prob": dropout}
    model = model or make_masked(layers=1, **drop)
    return Distiller(
        model,
        objective=objective,
        teacher=teacher,
        task=words.info,
        schedule=Schedule(**{"epochs": 2, "batch_size": 12, "learning_rate": 1e-3} | how),
        train=words.splits["train"],
        dev=words.dev,
        collate=words.collate,
        folder=folder,
        seed=seed,
        request=requests(objective, shape_of(model), shape_of(model))[0],
        dev_metrics=dev_metrics or words.dev_metrics,
        callbacks=list(callbacks),
    )


def weights(trainer):
    return {name: tensor.clone() for name, tensor in trainer.model.state_dict().items()}


def same(a, b, tolerance=0.0):
    return all(torch.allclose(a[name], b[name], rtol=0, atol=tolerance) for name in a)


def losses(trainer):
    return [entry["loss"] for entry in trainer.state.log_history if "loss" in entry]


class Note(TrainerCallback):
    """What was read at every step, and Ctrl-C after some."""

    def __init__(self, stop=0):
        self.stop, self.logs = stop, []

    def on_log(self, args, state, control, logs=None, **_):
        self.logs.append(dict(logs))

    def on_step_end(self, args, state, control, **_):
        if state.global_step == self.stop:
            raise KeyboardInterrupt


@pytest.mark.parametrize("kind", ["mask-fill", "generate"])
def test_micro_batches_of_unequal_token_counts_give_the_gradient_of_one_batch(tmp_path, teacher, kind):
    tokenizer, objective = make_tokenizer(), TRIPLE
    if kind == "generate":
        tokenizer.eos_token = "[SEP]"
        teacher, objective = LiveTeacher(make_causal(tokenizer, seed=5)), LanguageModeling() + Truncated(k=5)
    words = make_words(tokenizer, kind, documents=50, pack=False, ask="all")
    assert len({sum(words.splits["train"][row]["predicted"]) for row in range(20)}) > 2

    def run(name, **how):
        model = make_causal(tokenizer, layers=1, dropout=0.0) if kind == "generate" else None
        how |= {"dropout": 0.0, "max_grad_norm": 0, "epochs": 1, "bucket": False, "objective": objective}
        trainer = distiller(tmp_path / name, words, teacher, model=model, **how)
        trainer.train()
        return trainer

    one, many = run("one", batch_size=12), run("many", batch_size=4, accumulate=3)
    assert len(losses(one)) > 2
    assert losses(one) == pytest.approx(losses(many), abs=1e-5)
    assert same(weights(one), weights(many), 2e-5)


def test_bf16_trains_as_far_as_float32(tmp_path, teacher, words):
    """With layers, whole answers and dev measured between epochs."""
    full, half = (
        distiller(tmp_path / "32", words, teacher),
        distiller(tmp_path / "16", words, teacher, precision="bf16"),
    )
    for trainer in (full, half):
        trainer.train()
    assert losses(half) == pytest.approx(losses(full), rel=0.02)
    assert losses(half) != losses(full)


@pytest.mark.parametrize("rounds", [0, 1, 2])
def test_a_run_resumed_inside_an_epoch_ends_like_an_unbroken_one(tmp_path, teacher, rounds):
    words = make_words(make_tokenizer(), documents=50, rounds=rounds)
    objective = LanguageModeling() + Truncated(k=5)
    whole = distiller(tmp_path / "whole", words, teacher, objective=objective, epochs=3)
    whole.train()
    per_epoch = math.ceil(len(words.splits["train"]) / 12)
    stop = 2 * per_epoch - 1  # inside the second epoch, beyond its first checkpoint
    broken = distiller(tmp_path / "broken", words, teacher, objective=objective, epochs=3, callbacks=[Note(stop)])
    with pytest.raises(KeyboardInterrupt):
        broken.train()
    resumed = distiller(tmp_path / "broken", words, teacher, objective=objective, epochs=3)
    checkpoint = resumed.last_complete_checkpoint()
    assert per_epoch < int(checkpoint.rsplit("-", 1)[1]) < stop
    resumed.train(resume_from_checkpoint=checkpoint)
    assert same(weights(whole), weights(resumed))
    assert [(p.step, p.dev) for p in whole.curve()] == [(p.step, p.dev) for p in resumed.curve()]
    assert losses(whole) == losses(resumed)


def test_new_masks_every_epoch_or_by_turns(tmp_path, teacher):
    """By the uids that the loop reads, which name a block and its mask."""

    def seen(rounds, epochs=3):
        words = make_words(make_tokenizer(), documents=30, rounds=rounds)
        read = []
        trainer = distiller(tmp_path / str(rounds), words, teacher, objective=1.0 * LanguageModeling(), epochs=epochs)
        before = trainer.compute_loss

        def compute_loss(model, inputs, **how):
            read.extend(inputs["uids"].tolist())
            return before(model, inputs, **how)

        trainer.compute_loss = compute_loss
        trainer.train()
        size = len(words.splits["train"])
        return [set(read[epoch * size : (epoch + 1) * size]) for epoch in range(epochs)]

    new, one, two = seen(0), seen(1), seen(2)
    assert not new[0] & new[1]
    assert not new[1] & new[2]
    assert one[0] == one[1] == one[2]
    assert not two[0] & two[1]
    assert two[0] == two[2]
    assert new[0] == one[0]


def test_the_lowest_dev_perplexity_decides(tmp_path, words, teacher):
    said = iter([9.0, 4.0, 7.0, 5.0])
    kept = []

    def dev_metrics(model):
        kept.append({name: tensor.clone() for name, tensor in model.state_dict().items()})
        return {"loss": 1.0, "perplexity": next(said)}

    trainer = distiller(tmp_path, words, teacher, dev_metrics=dev_metrics)
    trainer.train()
    assert trainer.state.best_metric == 4.0
    assert len(kept) == 4
    assert same(weights(trainer), kept[1])
    assert not same(kept[1], kept[3])


def test_early_stopping_watches_perplexity(tmp_path, words, teacher):
    said = iter([5.0, 6.0, 7.0, 8.0, 9.0, 10.0])
    trainer = distiller(
        tmp_path, words, teacher, dev_metrics=lambda model: {"perplexity": next(said)}, epochs=3, patience=2
    )
    trainer.train()
    assert next(said) == 8.0


def test_dev_metrics_are_logged_and_on_the_curve(tmp_path, words, teacher):
    note = Note()
    trainer = distiller(tmp_path, words, teacher, callbacks=[note], epochs=1)
    trainer.train()
    logged = [logs for logs in note.logs if "eval_perplexity" in logs]
    assert len(logged) == 2
    curve = trainer.curve()
    measured = [point for point in curve if point.dev]
    assert [point.dev["perplexity"] for point in measured] == [logs["eval_perplexity"] for logs in logged]
    assert {"perplexity", "token_nll", "token_accuracy", "token_ece", "loss"} == measured[-1].dev.keys()
    assert measured[-1].dev["perplexity"] == pytest.approx(math.exp(measured[-1].dev["token_nll"]))
    assert words.dev_metrics(trainer.model)["perplexity"] == min(p.dev["perplexity"] for p in measured)
    point = next(point for point in curve if point.loss is not None)
    assert point.terms.keys() == {"language", "word", "cosine"}
    weighted = 2 * point.terms["language"] + 5 * point.terms["word"] + point.terms["cosine"]
    assert point.loss == pytest.approx(weighted, abs=1e-3)


def test_it_learns(tmp_path):
    words = make_words(make_tokenizer(), documents=50, rounds=0)
    trainer = distiller(
        tmp_path, words, NoTeacher(), objective=1.0 * LanguageModeling(), epochs=4, learning_rate=1e-2, dropout=0.0
    )
    before = words.dev_metrics(trainer.model)["perplexity"]
    trainer.train()
    assert before == pytest.approx(WORDS, rel=0.2)
    assert trainer.state.best_metric < before / 2


def test_the_teacher_is_bitwise_unchanged_by_training(tmp_path, words, teacher):
    before = {name: tensor.clone() for name, tensor in teacher.model.state_dict().items()}
    distiller(tmp_path, words, teacher, epochs=1).train()
    assert all(torch.equal(before[name], tensor) for name, tensor in teacher.model.state_dict().items())
    assert all(parameter.grad is None for parameter in teacher.model.parameters())


def test_a_tied_head_stays_tied(tmp_path, words, teacher):
    trainer = distiller(tmp_path, words, teacher, epochs=1)
    trainer.train()
    assert trainer.model.get_output_embeddings().weight is trainer.model.get_input_embeddings().weight
