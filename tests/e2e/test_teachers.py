"""Teachers that are no one model: a column of answers, and several models averaged."""

import random
import signal

import numpy as np
import pytest
import torch
from safetensors.torch import load_file
from transformers import BertTokenizerFast

import limbeck
from limbeck.core.record import Record
from limbeck.data.settings import DataSettings
from limbeck.data.text.examples import read_texts
from limbeck.jobs.settings import Run, read_run
from running import QUICK, files, start, stop
from running import limbeck as command
from tiny import GOOD, VOCABULARY, make_classifier, make_rows, make_tokenizer, write_csv
from tiny_language import save

LEARN = (*QUICK, "--learning-rate", "1e-3", "--train.threads", 1)
FAST = {"train": {"epochs": 1, "learning_rate": 1e-3, "threads": 1}, "measure": {"speed": False, "bootstrap": 200}}
WEIGHTS = "student/model.safetensors"


def run(*words):
    said = command(*words)
    assert said.code == 0, said.err
    return said


# A column of answers


def answered(count=240, empty=0.0, blank=0.0):
    """Rows with what a language model says of each, right nine times of ten, and its probabilities."""
    draw, rows = random.Random(3), make_rows(count)
    for row in rows:
        good = any(word in GOOD for word in row["text"].split()) != (draw.random() < 0.1)
        row["gpt"] = "" if draw.random() < empty else "Positive" if good else "negative"
        row["p_positive"], row["p_negative"] = ("0.9", "0.1") if good else ("0.2", "0.8")
        row["label"] = "" if draw.random() < blank else row["label"]
    return rows


@pytest.fixture(scope="module")
def partly(tmp_path_factory):
    """Some rows without a label, some without an answer, a few with neither."""
    return write_csv(tmp_path_factory.mktemp("answers") / "reviews.csv", answered(empty=0.2, blank=0.3))


@pytest.fixture(scope="module")
def column_job(partly, bare, tmp_path_factory):
    out = tmp_path_factory.mktemp("column") / "run"
    job = ("distill", "--teacher-column", "gpt", "--student-from", bare, "--data", partly, *LEARN)
    return job, out, run(*job, "--out", out)


def test_a_pre_trained_encoder_learns_from_a_column(column_job, bare):
    _, out, said = column_job
    record = Record.load(out)
    assert [(arm.name, arm.role) for arm in record.arms] == [
        ("teacher", "teacher"),
        ("plain", "baseline"),
        ("distilled", "student"),
    ]
    teacher = record.arm("teacher")
    assert teacher.title == "teacher, column 'gpt'"
    assert (teacher.size, teacher.speed, teacher.shape) == (None, None, None)
    assert record.arm("distilled").runs[0].fidelity.agreement > 0
    assert record.arm("distilled").start == str(bare) or "encoder" in record.arm("distilled").start
    assert record.comparisons[0].sentence
    assert "teacher, column 'gpt'" in said.out
    assert "teacher, column" in (out / "report.html").read_text(encoding="utf-8")
    assert not (out / "teacher-cache").exists()
    run("predict", out, "a lovely film")


def test_the_teacher_is_scored_where_it_has_an_answer_and_rows_are_counted(column_job, partly):
    record = Record.load(column_job[1])
    corpus = read_texts(DataSettings(train=str(partly), teacher_column="gpt"))
    logits = dict(zip(corpus.answers.uids.tolist(), corpus.answers.logits, strict=True))
    test = corpus.test
    both = np.flatnonzero(test.answered & test.has_label)
    assert 0 < len(both) < test.has_label.sum() == len(test), "test is cut from labelled rows"
    right = [logits[test.uids[row]].argmax() == test.labels[row] for row in both]
    found = record.arm("teacher").runs[0]
    assert found.quality["accuracy"] == pytest.approx(np.mean(right))
    assert sum(map(sum, found.confusion)) == len(both)
    fidelity = record.arm("distilled").runs[0].fidelity
    assert fidelity.teacher_right_rows + fidelity.teacher_wrong_rows == len(both)
    assert record.data.dropped["neither a label nor a teacher's answer"] > 0
    assert sum(split.rows for split in record.data.splits.values()) + sum(record.data.dropped.values()) == 240
    lacking = len(corpus.train) - int(corpus.train.answered.sum())
    assert any(
        f"{lacking} training rows without one are learnt from their labels alone" in n for n in record.data.notes
    )


def test_a_column_run_is_resumed_and_another_column_is_refused(column_job, partly, tmp_path):
    job, whole, _ = column_job
    out = tmp_path / "run"
    ready = lambda: any((out / "arms" / "plain-seed0").glob("*/model.safetensors"))  # noqa: E731
    stop(start(*job, "--out", out), ready, signal.SIGKILL)
    assert not (out / "record.json").exists()
    run("distill", "--resume", "--out", out)
    assert (out / WEIGHTS).read_bytes() == (whole / WEIGHTS).read_bytes()
    other = ["p_negative,p_positive" if word == "gpt" else word for word in job]
    said = command(*other, "--out", out, "--resume")
    assert said.code == 2
    assert "teacher_column" in said.err
    table = read_run(out / "run.toml")
    assert Run(**table).data.teacher_column == "gpt"


def test_probabilities_and_no_labels_at_all(bare, tmp_path):
    rows = [{name: value for name, value in row.items() if name.startswith(("text", "p_"))} for row in answered()]
    out, data = tmp_path / "run", write_csv(tmp_path / "reviews.csv", rows)
    job = ("distill", "--teacher-column", "p_negative,p_positive", "--student-from", bare, "--data", data, *LEARN)
    run(*job, "--out", out)
    record = Record.load(out)
    assert record.task.labels == ("negative", "positive")
    assert [arm.name for arm in record.arms] == ["teacher", "distilled"]
    assert record.arm("distilled").runs[0].fidelity.agreement > 0
    assert record.data.splits["train"].labelled == 0


def test_from_python_with_pairs_and_lists(taught, tmp_path):
    rows = [
        {
            "text1": row["text"],
            "text2": "a film",
            "label": row["label"],
            "p": [float(row["p_negative"]), float(row["p_positive"])],
        }
        for row in answered()
    ]
    result = limbeck.distill(
        teacher=None,
        data=rows,
        student_from=taught,
        teacher_column="p",
        out=tmp_path / "run",
        reading={"classes": "negative,positive"},
        **FAST,
    )
    assert result.record.arm("teacher").mean("accuracy") > 0.7
    assert result.record.data.columns["pair"] == "text2"


@pytest.mark.parametrize(
    ("label", "answer", "kind"),
    [
        (
            lambda row, n: "war|love" if n % 2 else "food|war",
            lambda row, n: "war" if n % 3 else "food|love",
            "multilabel",
        ),
        (lambda row, n: n % 10 + 0.5, lambda row, n: "" if n % 5 == 0 else n % 10 + 0.25, "regress"),
    ],
)
def test_several_labels_and_numbers(label, answer, kind, bare, tmp_path):
    rows = [{"text": row["text"], "label": label(row, n), "llm": answer(row, n)} for n, row in enumerate(make_rows())]
    result = limbeck.distill(None, rows, student_from=bare, teacher_column="llm", out=tmp_path / "run", **FAST)
    assert result.record.task.kind == kind
    assert result.record.arm("distilled").runs[0].quality


def test_recipes_side_by_side_and_the_one_that_needs_a_network_is_left_out(partly, bare, tmp_path):
    job = ("compare", "--teacher-column", "gpt", "--student-from", bare, "--data", partly, *LEARN)
    run(*job, "--out", tmp_path / "run", "--recipes", "finetune,hinton,logits,pkd-skip")
    record = Record.load(tmp_path / "run")
    assert {arm.name for arm in record.arms} == {"teacher", "finetune", "hinton", "logits"}
    (failure,) = record.failed
    assert failure.arm == "pkd-skip"
    assert "a column with the teacher's answers has only answers" in failure.reason


@pytest.fixture
def refused(tmp_path):
    def check(*words):
        out = tmp_path / "refused"
        said = command(*words, "--out", out, *QUICK)
        assert said.code == 2, said
        assert "Traceback" not in said.err
        assert not out.exists()
        problem, remedy = said.err.split("limbeck: ", 1)[1].split("\n  → ")
        assert remedy.strip()
        return problem, remedy

    return check


def test_bad_columns(refused, partly, bare, taught, tmp_path):
    job = ("distill", "--data", partly, "--student-from", bare, "--teacher-column")
    assert "has no column 'gtp'; its columns: 'text', 'label', 'gpt'" in refused(*job, "gtp")[0]
    assert "both --teacher and --teacher-column are given" in refused(*job, "gpt", "--teacher", taught)[0]
    problem, remedy = refused(*job[:3], "--teacher-column", "gpt")
    assert "has no model to cut the student from" in problem
    assert "--student-from" in remedy
    assert "cannot teach --task tag" in refused(*job, "gpt", "--task", "tag")[0]
    assert "the objective compares pooled" in refused(*job, "gpt", "--recipe", "pkd-skip")[0]
    assert "no answer to augmented texts" in refused(*job, "gpt", "--augment.kind", "joins")[0]
    problem, _ = refused("train", "--model", bare, "--data", partly, "--teacher-column", "gpt")
    assert "is for `limbeck distill` and `limbeck compare`" in problem


def test_bad_answers(refused, bare, tmp_path):
    job = ("distill", "--student-from", bare, "--data")
    rows = answered()
    rows[4]["p_negative"] = "0.3"
    rows[5]["gpt"] = "postive"
    data = write_csv(tmp_path / "bad.csv", rows)
    total = float(rows[4]["p_positive"]) + 0.3
    problem, _ = refused(*job, data, "--teacher-column", "p_negative,p_positive")
    assert f"{data}, line 6: the teacher's probabilities in columns" in problem
    assert f"sum to {total:g}, not to 1" in problem
    problem, _ = refused(*job, data, "--teacher-column", "gpt")
    assert "line 7" in problem
    assert "'postive' (1 row, nearest 'positive')" in problem


# Several teachers


@pytest.fixture(scope="module")
def teachers(tmp_path_factory, taught):
    """One that learnt; another, which names its classes in another order and splits texts into other tokens."""
    place = tmp_path_factory.mktemp("teachers")
    words = [*VOCABULARY[:5], *reversed(VOCABULARY[5:])]
    other = BertTokenizerFast(vocab={word: index for index, word in enumerate(words)}, model_max_length=64)
    second = make_classifier(labels=("positive", "negative"), layers=2, seed=7)
    return taught, save(second, other, place / "second")


@pytest.fixture(scope="module")
def average_job(teachers, reviews, tmp_path_factory):
    first, second = teachers
    job = ("distill", "--teacher", first, "--teacher", second, "--data", reviews, "--teacher-weights", "3,1", *LEARN)
    job = (*job, "--student.layers", 2, "--teacher-cache.batch-size", 2, "--no-baseline")
    out = tmp_path_factory.mktemp("average") / "run"
    return job, out, run(*job, "--out", out)


def test_two_teachers_and_their_mean_are_in_the_table(average_job, teachers, reviews, tmp_path):
    _, out, said = average_job
    record = Record.load(out)
    assert [arm.name for arm in record.arms] == ["teacher", "teacher-1", "teacher-2", "distilled"]
    assert [arm.title for arm in record.arms][:3] == [
        "teacher, mean of 2",
        "teacher 1, 4 layers × 32",
        "teacher 2, 2 layers × 32",
    ]
    test = read_texts(DataSettings(train=str(reviews))).test
    rows = [
        {"text": text, "label": ("negative", "positive")[label]}
        for text, label in zip(test.texts, test.labels, strict=True)
    ]
    for arm, folder in zip(record.arms[1:3], teachers, strict=True):
        alone = limbeck.evaluate(folder, write_csv(tmp_path / "test.csv", rows))
        assert arm.mean("accuracy") == alone.arms[0].mean("accuracy")
        assert arm.mean("nll") == pytest.approx(alone.arms[0].mean("nll"), rel=1e-5)
    both = record.arm("teacher").size.parameters
    assert both == sum(arm.size.parameters for arm in record.arms[1:3])
    assert "teacher, mean of 2" in said.out
    assert any("weight 0.75" in note and "weight 0.25" in note for note in record.notes)
    assert "layers 0, 3 of the teacher" in record.arm("distilled").start
    caches = [folder for folder in (out / "teacher-cache").iterdir() if folder.is_dir()]
    assert len(caches) == 2
    assert Run(**read_run(out / "run.toml")).teachers == [str(folder) for folder in teachers]


def test_a_run_of_two_teachers_killed_while_they_answer_ends_like_an_unbroken_one(average_job, tmp_path):
    job, whole, _ = average_job
    out = tmp_path / "run"
    stop(start(*job, "--out", out), lambda: len(list((out / "teacher-cache").glob("*/index.json"))) > 1, signal.SIGKILL)
    assert not (out / "record.json").exists()
    said = command(*["1,3" if word == "3,1" else word for word in job], "--out", out, "--resume")
    assert said.code == 2
    run("distill", "--resume", "--out", out)
    assert (out / WEIGHTS).read_bytes() == (whole / WEIGHTS).read_bytes()
    assert Record.load(out).arm("teacher").runs == Record.load(whole).arm("teacher").runs


def losses(result):
    return [point.terms["soft"] for point in result.record.arm("distilled").runs[0].curve if point.terms]


def distil(teacher, reviews, **knobs):
    return limbeck.distill(teacher, reviews, layers=2, baseline=False, **FAST, **knobs)


def test_live_cached_twice_and_in_any_order(taught, reviews, tmp_path):
    second = save(make_classifier(labels=("positive", "negative"), seed=7), make_tokenizer(), tmp_path / "second")
    cached = distil([taught, second], reviews)
    live = distil([taught, second], reviews, teacher_cache={"live": True})
    assert losses(cached) == pytest.approx(losses(live), rel=1e-5)
    assert cached.record.arm("teacher").runs[0].quality == pytest.approx(
        live.record.arm("teacher").runs[0].quality, rel=1e-5
    )
    one = distil(taught, reviews)
    for several, weights in (([taught, taught], None), ([taught, second], "1,0"), ([taught, second], [2, 0])):
        same = distil(several, reviews, teacher_weights=weights)
        assert losses(same) == pytest.approx(losses(one), rel=1e-5)
        assert same.record.arm("teacher").runs[0].quality == pytest.approx(
            one.record.arm("teacher").runs[0].quality, rel=1e-5
        )
    assert losses(cached) != pytest.approx(losses(one), rel=1e-3)


def test_models_in_hand(reviews, tmp_path):
    models = [make_classifier(seed=seed) for seed in (1, 2)]
    result = distil(models, reviews, tokenizer=make_tokenizer(), out=tmp_path / "run")
    assert [arm.name for arm in result.record.arms] == ["teacher", "teacher-1", "teacher-2", "distilled"]
    assert not any(parameter.requires_grad for model in models for parameter in model.parameters())
    assert {"teacher/model.safetensors", "teacher-2/model.safetensors"} <= files(tmp_path / "run")
    saved = load_file(tmp_path / "run" / "teacher-2" / "model.safetensors")
    assert torch.equal(saved["classifier.weight"], models[1].classifier.weight)


def test_bad_teachers(refused, taught, reviews, tmp_path):
    other = save(make_classifier(labels=("bad", "good")), make_tokenizer(), tmp_path / "other")
    job = ("distill", "--data", reviews, "--teacher", taught, "--teacher")
    problem, _ = refused(*job, other)
    assert "the labels of the first teacher are negative, positive" in problem
    assert "bad, good" in problem
    problem, remedy = refused(*job, taught, "--recipe", "pkd-skip")
    assert "the objective compares pooled, and the average of several teachers has only answers" in problem
    assert "give one --teacher" in remedy
    for weights, says in (
        ("1", "--teacher-weights has 1 number (1), and there are 2 teachers"),
        ("1,x", "--teacher-weights cannot be '1,x'"),
        ("0,0", "teacher weights cannot be 0,0"),
        ("-1,2", "teacher weights cannot be -1,2"),
    ):
        assert says in refused(*job, taught, f"--teacher-weights={weights}")[0]
    assert "teacher temperatures cannot be 0,1" in refused(*job, taught, "--teacher-temperatures", "0,1")[0]
    assert "and there is one teacher" in refused(*job[:5], "--teacher-weights", "1,2")[0]
    missing = tmp_path / "missing"
    assert str(missing) in refused(*job, missing)[0]
    assert "cannot teach --task generate" in refused(*job, taught, "--task", "generate")[0]
    with pytest.raises(limbeck.core.errors.KnobError, match="some teachers are models in hand"):
        limbeck.distill([make_classifier(), str(taught)], reviews, tokenizer=make_tokenizer())
