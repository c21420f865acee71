"""Token classification and extractive QA evaluated: windows put together again, after a few steps of training."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from limbeck.core.forward import forward
from limbeck.data.batches import Collator, to_batch
from limbeck.data.settings import DataSettings, WindowSettings
from limbeck.data.span.questions import read_questions
from limbeck.data.span.windows import encode_questions
from limbeck.data.token.sentences import read_sentences
from limbeck.data.token.windows import encode_sentences
from limbeck.measure.spans import each_answer
from limbeck.measure.window_evaluator import SpanEvaluator, TokenEvaluator
from limbeck.objectives import Labels, SoftTargets
from limbeck.objectives.weighted_sum import weighted_sum
from limbeck.teachers.live import LiveTeacher
from tiny import make_tokenizer
from tiny_places import TAGS, make_questions, make_reader, make_sentences, make_tagger

WINDOWS = WindowSettings()
EVALUATORS = {"tag": TokenEvaluator, "answer": SpanEvaluator}


def corpus(kind, rows, max_length=128, windows=WINDOWS):
    splits = {"train": rows, "dev": rows, "test": rows}
    settings = DataSettings(max_length=max_length), windows
    if kind == "tag":
        return encode_sentences(read_sentences(*settings, splits, TAGS), make_tokenizer(), *settings)
    return encode_questions(read_questions(*settings, splits), make_tokenizer(), *settings)


def evaluator_of(kind, rows, windows=WINDOWS, **how):
    return EVALUATORS[kind](corpus(kind, rows, windows=windows, **how), make_tokenizer(), windows)


def train(model, found, objective, teacher=None, steps=6):
    """A few passes of the plainest loop."""
    collator = Collator.of(make_tokenizer(), found.task)
    optimiser = torch.optim.Adam(model.parameters(), 3e-3)
    draw = torch.Generator().manual_seed(0)
    for _ in range(steps):
        for chosen in torch.randperm(len(found.train), generator=draw).split(8):
            batch = to_batch(collator([found.train[row] for row in chosen.tolist()]), found.task)
            shown = forward(model, batch)
            total, _ = weighted_sum(objective, shown, teacher.answer(batch) if teacher else shown, batch)
            optimiser.zero_grad()
            total.backward()
            optimiser.step()
    return model.eval()


def test_a_tagger_learns_and_its_figures_are_those_of_its_tags():
    evaluator = evaluator_of("tag", make_sentences(80))
    model = make_tagger()
    before = evaluator.dev_metrics(model)
    train(model, evaluator.corpus, 1.0 * Labels(), steps=8)
    after = evaluator.dev_metrics(model)
    assert after["f1"] > 0.7 > before["f1"]
    assert after["loss"] < before["loss"]
    answers = evaluator.test(model)
    assert answers.scores["f1"] == pytest.approx(after["f1"])
    assert answers.statistics.shape == (80, 5)
    assert answers.statistics[:, 4].sum() == sum(len(row["tokens"]) for row in make_sentences(80))
    assert {score.label for score in answers.per_class} == {"GOOD", "BAD"}
    assert sum(score.rows for score in answers.per_class) == answers.statistics[:, 2].sum()
    assert answers.uids.tolist() == evaluator.corpus.test.row_uids.tolist()


def test_a_reader_learns_from_a_teacher_and_beside_it():
    evaluator = evaluator_of("answer", make_questions(80))
    teacher = train(make_reader(), evaluator.corpus, 1.0 * Labels(), steps=8)
    assert evaluator.test(teacher).scores["f1"] > 0.9
    student = make_reader(seed=1, layers=1)
    train(student, evaluator.corpus, 1.0 * SoftTargets(), LiveTeacher(teacher), steps=10)
    beside = evaluator.with_teacher(LiveTeacher(teacher)).test(student)
    assert beside.scores["exact_match"] > 0.8
    assert beside.fidelity.agreement > 0.8
    assert beside.fidelity.teacher_right_rows + beside.fidelity.teacher_wrong_rows == 160
    itself = evaluator.with_teacher(LiveTeacher(teacher)).test(teacher)
    assert itself.fidelity.agreement == 1.0
    assert itself.fidelity.divergence == pytest.approx(0.0, abs=1e-6)


def test_questions_without_an_answer():
    evaluator = evaluator_of("answer", make_questions(80, unanswerable=0.4))
    model = train(make_reader(), evaluator.corpus, 1.0 * Labels(), steps=10)
    found = evaluator.test(model)
    assert found.scores["exact_match"] > 0.8
    never = replace(evaluator, settings=WINDOWS.but(null_threshold=1e6)).test(model)
    always = replace(evaluator, settings=WINDOWS.but(null_threshold=-1e6)).test(model)
    impossible = np.array([item.impossible for item in evaluator.corpus.items("test")])
    assert always.statistics[:, 0].tolist() == impossible.astype(float).tolist()
    assert never.statistics[impossible, 0].mean() < 0.5  # an article alone is nothing to the official script


def test_windows_of_a_question_are_put_together():
    """A model that knows where the answer is finds it in whichever window holds it."""
    rows = [
        {
            "question": "good",
            "context": " ".join(["the"] * place + ["warm"] + ["film"] * (60 - place)),
            "answer": "warm",
        }
        for place in (3, 30, 57)
    ]
    windows = WindowSettings(stride=6, longest_question=4)
    evaluator = evaluator_of("answer", rows, windows, max_length=32)
    assert len(evaluator.corpus.test) > 6
    warm = make_tokenizer().convert_tokens_to_ids("warm")
    model = make_reader()
    forward = model.forward

    def knows(input_ids, **inputs):
        outputs = forward(input_ids, **inputs)
        outputs.start_logits = outputs.end_logits = (input_ids == warm).float() * 5
        return outputs

    model.forward = knows
    found = evaluator.test(model)
    assert found.scores == {"f1": 1.0, "exact_match": 1.0}


def test_unlabelled_questions_are_not_scored():
    rows = make_questions(20)
    rows[3]["answers"] = None
    found = evaluator_of("answer", rows).test(make_reader())
    assert found.statistics.shape == (19, 2)
    assert len(found.uids) == 19


def test_long_sentences_are_put_together():
    draw = make_sentences(40, seed=3)
    rows = [
        {"tokens": [w for row in part for w in row["tokens"]], "tags": [t for row in part for t in row["tags"]]}
        for part in (draw[:10], draw[10:25], draw[25:])
    ]
    short, long = evaluator_of("tag", rows, max_length=24), evaluator_of("tag", rows, max_length=64)
    assert len(short.corpus.test) > len(long.corpus.test)
    model = train(make_tagger(), corpus("tag", make_sentences(80)), 1.0 * Labels())
    assert short.test(model).statistics[:, 4].tolist() == [len(row["tokens"]) for row in rows]
    assert short.test(model).scores["accuracy"] > 0.9


def test_the_model_is_left_as_it_was():
    evaluator = evaluator_of("tag", make_sentences(20))
    model = make_tagger().train()
    weights = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    evaluator.test(model)
    assert model.training
    assert all(torch.equal(tensor, weights[name]) for name, tensor in model.state_dict().items())


def test_figures_of_answers_are_means_over_questions():
    evaluator = evaluator_of("answer", make_questions(20))
    found = evaluator.test(make_reader())
    assert found.scores["f1"] == pytest.approx(found.statistics[:, 1].mean())
    assert each_answer(["x"], [["x"]])[1][0] == 1.0
