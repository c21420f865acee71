"""By what the best weights are known on dev: labels, agreement with the teacher, or both."""

import pytest

from limbeck.core.errors import KnobError
from limbeck.core.progress import Silent
from limbeck.jobs.compare_settings import CompareRun, check_columns, columns_of
from limbeck.jobs.plan import check_best_by
from limbeck.jobs.settings import Run
from limbeck.tasks.base import Model, task_of
from limbeck.teachers.live import LiveTeacher, MemoryTeacher
from tiny import make_classifier, make_rows, make_tokenizer
from tiny_places import make_questions, make_reader, make_sentences, make_tagger

MADE = {
    "classify": (make_classifier, make_rows),
    "tag": (make_tagger, make_sentences),
    "answer": (make_reader, make_questions),
}


def evaluated(kind):
    """The evaluator beside a teacher, and the teacher."""
    make_model, make = MADE[kind]
    splits = {"train": make(24), "dev": make(24, seed=1), "test": make(24, seed=2)}
    teacher = Model(make_model(), make_tokenizer())
    data = task_of(Run(data={"task": kind}), teacher).prepare(splits, teacher, Silent()).data
    return data.evaluator.with_teacher(MemoryTeacher(LiveTeacher(teacher.network))), teacher.network


@pytest.mark.parametrize("kind", MADE)
def test_a_teacher_agrees_with_itself_and_both_is_the_mean(kind):
    evaluator, network = evaluated(kind)
    metric = evaluator.info.metric
    plain = evaluator.choosing("auto")
    assert (plain.best_metric, plain.best_is_higher) == (metric, True)
    labels = plain.dev_metrics(network)
    assert "agreement" not in labels
    for way, name in (("agreement", "agreement"), ("both", "labels_and_agreement")):
        chosen = evaluator.choosing(way)
        found = chosen.dev_metrics(network)
        assert chosen.best_metric == name
        assert found["agreement"] == pytest.approx(1.0)
        assert found[metric] == labels[metric]
        assert found[name] == pytest.approx(1.0 if way == "agreement" else (labels[metric] + 1.0) / 2)


@pytest.mark.parametrize("kind", MADE)
def test_another_model_agrees_less(kind):
    evaluator, _ = evaluated(kind)
    other = MADE[kind][0](seed=7)
    found = evaluator.choosing("agreement").dev_metrics(other)
    assert 0.0 <= found["agreement"] < 1.0


def test_without_a_teacher_labels_tell():
    evaluator, _ = evaluated("classify")
    alone = evaluator.with_teacher(type(evaluator)(evaluator.info, evaluator.processor, evaluator.splits).teacher)
    assert alone.choosing("both").best_metric == "accuracy"


@pytest.mark.parametrize(("way", "said"), [("agreement", "needs a teacher"), ("both", "needs a teacher")])
def test_what_cannot_be_told_is_refused(way, said):
    evaluator, _ = evaluated("classify")
    with pytest.raises(KnobError, match=said):
        check_best_by(way, evaluator.info, evaluator, teacher=False)
    check_best_by(way, evaluator.info, evaluator, teacher=True)


def test_labels_are_needed_on_dev_for_labels_and_both():
    evaluator, _ = evaluated("classify")
    evaluator.dev_labelled = False
    for way in ("labels", "both"):
        with pytest.raises(KnobError, match="needs labels on dev"):
            check_best_by(way, evaluator.info, evaluator, teacher=True)
    check_best_by("auto", evaluator.info, evaluator, teacher=True)


def test_all_columns_choose_by_the_same():
    knobs = {"columns": {"hinton": {"train": {"best_by": "agreement"}}}, "data": {"task": "classify"}}
    with pytest.raises(KnobError, match=r"columns differ in train\.best_by"):
        check_columns(columns_of(CompareRun(recipes="hinton,logits", **knobs)))
