"""Training on places: the loss of a step is over its rows, however it is split and whatever is padded."""

import pytest
import torch

from limbeck.core.forward import forward
from limbeck.data.batches import to_batch
from limbeck.data.settings import DataSettings, WindowSettings
from limbeck.data.span.questions import read_questions
from limbeck.data.span.windows import encode_questions
from limbeck.data.token.sentences import read_sentences
from limbeck.data.token.windows import encode_sentences
from limbeck.measure.window_evaluator import SpanEvaluator, TokenEvaluator
from limbeck.objectives import Labels, SoftTargets
from limbeck.objectives.weighted_sum import weighted_sum
from limbeck.teachers.live import LiveTeacher
from limbeck.training.schedule import Schedule
from limbeck.training.trainer import Distiller
from tiny import make_tokenizer
from tiny_places import TAGS, make_questions, make_reader, make_sentences, make_tagger

pytestmark = pytest.mark.slow

MAKE = {
    "tag": (make_tagger, make_sentences, TokenEvaluator),
    "answer": (make_reader, make_questions, SpanEvaluator),
}


def trained(kind, folder, batch_size, accumulate):
    """The weights after one step over 12 rows of very different length, some without a label."""
    make, rows = MAKE[kind][0], MAKE[kind][1](12, seed=3)
    for row in rows[:5]:
        row["tags" if kind == "tag" else "answers"] = None
    splits = {"train": rows, "dev": rows, "test": rows}
    settings = DataSettings(), WindowSettings()
    if kind == "tag":
        corpus = encode_sentences(read_sentences(*settings, splits, TAGS), make_tokenizer(), *settings)
    else:
        corpus = encode_questions(read_questions(*settings, splits), make_tokenizer(), *settings)
    evaluator = MAKE[kind][2](corpus, make_tokenizer(), WindowSettings())
    how = {"batch_size": batch_size, "accumulate": accumulate, "epochs": 1.0, "warmup": 0.0, "evals_per_epoch": 1}
    model = make(hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0)
    trainer = Distiller(
        model,
        objective=0.3 * Labels() + 0.7 * SoftTargets(),
        teacher=LiveTeacher(make(seed=7)),
        task=corpus.task,
        # plain descent: an optimiser that divides by the gradient's size would hide a wrong one
        schedule=Schedule(learning_rate=1e-2, max_grad_norm=0.0, weight_decay=0.0, bucket=False, **how),
        train=corpus.train,
        dev=evaluator.dev,
        collate=evaluator.collate,
        folder=folder,
        seed=0,
        **evaluator.while_training(),
    )
    trainer.optimizer = torch.optim.SGD(model.parameters(), 1e-2)
    trainer.train()
    return {name: tensor.clone() for name, tensor in model.state_dict().items()}, trainer


@pytest.mark.parametrize("kind", ["tag", "answer"])
@pytest.mark.parametrize(("batch_size", "accumulate"), [(4, 3), (1, 12)])
def test_micro_batches_make_the_step_of_one_large_batch(kind, batch_size, accumulate, tmp_path):
    whole, _ = trained(kind, tmp_path / "whole", 12, 1)
    parts, trainer = trained(kind, tmp_path / "parts", batch_size, accumulate)
    assert trainer.state.global_step == 1
    start = MAKE[kind][0](hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0).state_dict()
    moved = {name: whole[name] - start[name] for name in whole}
    assert max(change.abs().max() for change in moved.values()) > 1e-4
    for name, change in moved.items():
        assert torch.allclose(parts[name] - start[name], change, atol=2e-7, rtol=1e-3), name


@pytest.mark.parametrize("kind", ["tag", "answer"])
def test_the_loss_is_the_mean_over_the_rows(kind, tmp_path):
    _, trainer = trained(kind, tmp_path, 12, 1)
    rows, make = trainer.train_dataset, MAKE[kind][0]
    batch = to_batch(trainer.data_collator([rows[row] for row in range(len(rows))]), trainer.task)
    shown = forward(make(hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0), batch)
    expected, _ = weighted_sum(trainer.objective, shown, trainer.teacher.answer(batch), batch)
    assert trainer.curve()[0].loss == pytest.approx(expected.item(), abs=1e-4)
    assert len(batch.in_loss) == len(batch.labels) == (24 if kind == "answer" else int(batch.predicted.sum()))


def test_dev_metrics_come_from_the_evaluator(tmp_path):
    _, trainer = trained("answer", tmp_path, 4, 1)
    assert {"f1", "exact_match", "loss"} <= trainer.curve()[-1].dev.keys()
