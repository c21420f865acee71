"""Taggers and readers examined: windows put together again, and a few steps of real training."""

import numpy as np
import pytest
import torch

from limbeck.core.forward import forward
from limbeck.data.encode import to_batch
from limbeck.data.place_corpus import load_places
from limbeck.data.places import PlaceCollator
from limbeck.data.settings import DataSettings
from limbeck.data.window_settings import WindowSettings
from limbeck.measure.spans import each_answer
from limbeck.objectives import Labels, SoftTargets
from limbeck.objectives.weighted_sum import weighted_sum
from limbeck.recipes.place_exam import PlaceExam
from limbeck.teachers.live import LiveTeacher
from tiny import make_tokenizer
from tiny_places import TAGS, make_questions, make_reader, make_sentences, make_tagger

PLACES = WindowSettings()


def corpus(kind, rows, max_length=128, places=PLACES):
    splits = {"train": rows, "dev": rows, "test": rows}
    known = TAGS if kind == "tag" else ()
    return load_places(DataSettings(max_length=max_length), places, kind, make_tokenizer(), splits, known_labels=known)


def exam(kind, rows, places=PLACES, **how):
    return PlaceExam(corpus(kind, rows, places=places, **how), make_tokenizer(), places)


def train(model, found, objective, teacher=None, steps=6):
    """A few passes of the plainest loop."""
    collator = PlaceCollator(make_tokenizer(), found.task)
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
    examined = exam("tag", make_sentences(80))
    model = make_tagger()
    before = examined.watched()["gauge"](model)
    train(model, examined.corpus, 1.0 * Labels(), steps=8)
    after = examined.watched()["gauge"](model)
    assert after["f1"] > 0.7 > before["f1"]
    assert after["loss"] < before["loss"]
    answers = examined.test(model)
    assert answers.quality["f1"] == pytest.approx(after["f1"])
    assert answers.logits.shape == (80, 5)
    assert answers.logits[:, 4].sum() == sum(len(row["tokens"]) for row in make_sentences(80))
    assert {score.label for score in answers.per_class} == {"GOOD", "BAD"}
    assert sum(score.rows for score in answers.per_class) == answers.logits[:, 2].sum()
    assert answers.uids.tolist() == examined.corpus.test.names.tolist()


def test_a_reader_learns_from_a_teacher_and_beside_it():
    examined = exam("answer", make_questions(80))
    teacher = train(make_reader(), examined.corpus, 1.0 * Labels(), steps=8)
    assert examined.test(teacher).quality["f1"] > 0.9
    student = make_reader(seed=1, layers=1)
    train(student, examined.corpus, 1.0 * SoftTargets(), LiveTeacher(teacher), steps=10)
    beside = PlaceExam(examined.corpus, make_tokenizer(), PLACES, LiveTeacher(teacher)).test(student)
    assert beside.quality["exact_match"] > 0.8
    assert beside.fidelity.agreement > 0.8
    assert beside.fidelity.teacher_right_rows + beside.fidelity.teacher_wrong_rows == 160
    itself = PlaceExam(examined.corpus, make_tokenizer(), PLACES, LiveTeacher(teacher)).test(teacher)
    assert itself.fidelity.agreement == 1.0
    assert itself.fidelity.divergence == pytest.approx(0.0, abs=1e-6)


def test_questions_without_an_answer():
    examined = exam("answer", make_questions(80, unanswerable=0.4))
    model = train(make_reader(), examined.corpus, 1.0 * Labels(), steps=10)
    found = examined.test(model)
    assert found.quality["exact_match"] > 0.8
    never = PlaceExam(examined.corpus, make_tokenizer(), PLACES.but(null_threshold=1e6)).test(model)
    always = PlaceExam(examined.corpus, make_tokenizer(), PLACES.but(null_threshold=-1e6)).test(model)
    impossible = np.array([item.impossible for item in examined.corpus.items("test")])
    assert always.logits[:, 0].tolist() == impossible.astype(float).tolist()
    assert never.logits[impossible, 0].mean() < 0.5  # an article alone is nothing to the official script


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
    places = WindowSettings(stride=6, longest_question=4)
    examined = exam("answer", rows, places, max_length=32)
    assert len(examined.corpus.test) > 6
    warm = make_tokenizer().convert_tokens_to_ids("warm")
    model = make_reader()
    forward = model.forward

    def knows(input_ids, **inputs):
        outputs = forward(input_ids, **inputs)
        outputs.start_logits = outputs.end_logits = (input_ids == warm).float() * 5
        return outputs

    model.forward = knows
    found = examined.test(model)
    assert found.quality == {"f1": 1.0, "exact_match": 1.0}


def test_unlabelled_questions_are_not_scored():
    rows = make_questions(20)
    rows[3]["answers"] = None
    found = exam("answer", rows).test(make_reader())
    assert found.logits.shape == (19, 2)
    assert len(found.uids) == 19


def test_long_sentences_are_put_together():
    draw = make_sentences(40, seed=3)
    rows = [
        {"tokens": [w for row in part for w in row["tokens"]], "tags": [t for row in part for t in row["tags"]]}
        for part in (draw[:10], draw[10:25], draw[25:])
    ]
    short, long = exam("tag", rows, max_length=24), exam("tag", rows, max_length=64)
    assert len(short.corpus.test) > len(long.corpus.test)
    model = train(make_tagger(), corpus("tag", make_sentences(80)), 1.0 * Labels())
    assert short.test(model).logits[:, 4].tolist() == [len(row["tokens"]) for row in rows]
    assert short.test(model).quality["accuracy"] > 0.9


def test_the_model_is_left_as_it_was():
    examined = exam("tag", make_sentences(20))
    model = make_tagger().train()
    weights = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    examined.test(model)
    assert model.training
    assert all(torch.equal(tensor, weights[name]) for name, tensor in model.state_dict().items())


def test_figures_of_answers_are_means_over_questions():
    examined = exam("answer", make_questions(20))
    found = examined.test(make_reader())
    assert found.quality["f1"] == pytest.approx(found.logits[:, 1].mean())
    assert each_answer(["x"], [["x"]])[1][0] == 1.0
