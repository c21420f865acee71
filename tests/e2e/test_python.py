"""The same job from Python."""

import datasets
import pytest
import torch
from transformers import AutoModelForSequenceClassification, BertTokenizerFast, TrainerCallback

import limbeck
from limbeck import Labels, LogitRegression, Model, Shrink, SoftTargets
from limbeck.core.errors import KnobError, MismatchError
from limbeck.core.record import Record
from limbeck.report.warnings import warnings
from tiny import VOCABULARY, make_classifier, make_rows, make_tokenizer

FAST = {"train": {"epochs": 1, "learning_rate": 1e-3}, "measure": {"speed": False, "bootstrap": 200}}


def test_five_lines(taught, reviews, tmp_path, capfd):
    result = limbeck.distill(
        teacher=taught,
        data=reviews,
        student=limbeck.Shrink(layers=3),
        objective=0.5 * Labels() + 0.5 * SoftTargets(temperature=4),
        **FAST,
    )
    assert capfd.readouterr() == ("", "")
    result.student.save_pretrained(tmp_path / "small")
    result.report.save(tmp_path / "report.html")
    student = AutoModelForSequenceClassification.from_pretrained(tmp_path / "small")
    assert student.config.num_hidden_layers == 3
    assert (tmp_path / "report.html").stat().st_size > 5000
    assert Record.load(result.folder) == result.record
    assert result.record.knobs["recipe"] == "custom"
    assert result.tokenizer("a lovely film")["input_ids"]


@pytest.mark.usefixtures("forked_probes")
def test_a_live_teacher_rows_from_python_a_callback_and_speed(tmp_path):
    seen = []

    class Note(TrainerCallback):
        def on_step_end(self, args, state, control, **_):
            seen.append(state.global_step)

        def on_log(self, args, state, control, logs=None, **_):
            seen.append(sorted(logs))

    teacher = make_classifier()
    before = {name: tensor.clone() for name, tensor in teacher.state_dict().items()}
    result = limbeck.distill(
        teacher=teacher,
        tokenizer=make_tokenizer(),
        data=make_rows(),
        out=tmp_path / "x",
        callbacks=[Note()],
        baseline=False,
        train={"epochs": 1},
        measure={"speed": True, "repeats": 1, "rounds": 5, "threads": 1},
    )
    assert all(torch.equal(before[name], tensor) for name, tensor in teacher.state_dict().items())
    assert 1 in seen
    assert any("term_soft" in entry for entry in seen if isinstance(entry, list))
    assert result.folder == tmp_path / "x"
    assert result.record.data.source == "the given rows"
    assert all(arm.speed.p50_ms > 0 for arm in result.record.arms)


def test_a_datasets_object_with_splits(taught):
    rows = make_rows(200)
    names = datasets.ClassLabel(names=["positive", "negative"])  # not the teacher's order
    data = datasets.Dataset.from_list([{**row, "label": names.str2int(row["label"])} for row in rows]).cast_column(
        "label", names
    )
    splits = datasets.DatasetDict(train=data.select(range(140)), validation=data.select(range(140, 170)))
    splits["test"] = data.select([0, 1, *range(170, 200)])
    result = limbeck.distill(taught, splits, baseline=False, **FAST)
    assert result.record.task.labels == ("negative", "positive")
    assert {name: split.rows for name, split in result.record.data.splits.items()} == {
        "train": 140,
        "dev": 30,
        "test": 32,
    }
    assert result.record.data.overlap == 2
    for arm in result.record.arms:
        assert arm.runs[0].unseen["accuracy"] != arm.runs[0].quality["accuracy"]
    assert any("2 of 32 test rows stand in train too" in one.text for one in warnings(result.record))
    assert result.record.arm("teacher").mean("accuracy") > 0.7


def other_tokenizer() -> BertTokenizerFast:
    """The same words under other numbers."""
    words = [*VOCABULARY[:5], *reversed(VOCABULARY[5:])]
    return BertTokenizerFast(vocab={word: index for index, word in enumerate(words)}, model_max_length=64)


@pytest.fixture(scope="module")
def foreign(tmp_path_factory):
    folder = tmp_path_factory.mktemp("foreign") / "student"
    make_classifier(layers=1, hidden=16, seed=9, labels=("a", "b", "c")).save_pretrained(folder)
    other_tokenizer().save_pretrained(folder)
    return folder


def test_a_student_with_another_tokenizer_learns_from_the_cache(taught, reviews, foreign, tmp_path):
    result = limbeck.distill(taught, reviews, student=foreign, out=tmp_path / "a", **FAST)
    assert result.student.config.hidden_size == 16
    assert result.student.config.id2label == {0: "negative", 1: "positive"}
    assert result.tokenizer.get_vocab() == other_tokenizer().get_vocab()
    assert any("different tokenizers" in note for note in result.record.notes)
    again = limbeck.distill(taught, reviews, student=str(foreign), out=tmp_path / "b", **FAST)
    pairs = zip(result.student.state_dict().values(), again.student.state_dict().values(), strict=True)
    assert all(torch.equal(a, b) for a, b in pairs), "a fresh head comes from the seed"


def test_a_student_with_another_tokenizer_cannot_be_taught_live(taught, reviews, foreign, tmp_path):
    with pytest.raises(MismatchError, match=r"different tokenizers.*\n.*--teacher-cache.live off"):
        limbeck.distill(taught, reviews, student=foreign, out=tmp_path / "x", teacher_cache={"live": True}, **FAST)
    assert not (tmp_path / "x").exists()


def test_a_model_in_hand_as_student_takes_the_labels_of_the_teacher(taught, reviews):
    start = make_classifier(layers=1, hidden=16, seed=9, labels=("positive", "negative"))
    before = {name: tensor.clone() for name, tensor in start.state_dict().items()}
    result = limbeck.distill(taught, reviews, student=Model(start, other_tokenizer()), baseline=False, **FAST)
    assert result.student.config.id2label == {0: "negative", 1: "positive"}
    assert start.config.id2label == {0: "positive", 1: "negative"}
    assert all(torch.equal(before[name], tensor) for name, tensor in start.state_dict().items())
    assert result.record.arm("distilled").runs[0].quality["accuracy"] > 0.4


def test_live_and_cached_teaching_end_alike(taught, reviews):
    live, cached = (
        limbeck.distill(taught, reviews, Shrink(layers=1), baseline=False, teacher_cache={"live": live}, **FAST)
        for live in (True, False)
    )
    for a, b in zip(live.student.state_dict().values(), cached.student.state_dict().values(), strict=True):
        assert torch.allclose(a, b, atol=1e-4)


def test_objectives_add_up(taught, reviews):
    result = limbeck.distill(
        taught, reviews, Shrink(heads=2), objective=2 * (0.5 * LogitRegression() + 0.25 * Labels()), **FAST
    )
    assert result.record.knobs["objective"] == {
        "logits": {"weight": 1.0},
        "labels": {"weight": 0.5, "class_weights": "", "label_smoothing": 0.0},
    }
    assert result.student.config.num_attention_heads == 2


def test_one_cache_serves_several_runs(taught, reviews, tmp_path):
    shared = {"teacher_cache": {"cache": str(tmp_path / "answers")}, "baseline": False, **FAST}
    first = limbeck.distill(taught, reviews, Shrink(layers=1), **shared)
    written = {path: path.stat().st_mtime_ns for path in (tmp_path / "answers").iterdir()}
    second = limbeck.distill(taught, reviews, Shrink(layers=1), **shared)
    assert {path: path.stat().st_mtime_ns for path in (tmp_path / "answers").iterdir()} == written
    assert first.record.arm("distilled").runs[0].quality == second.record.arm("distilled").runs[0].quality


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"teacher": ""}, "no teacher was given"),
        ({"teacher": "", "student": make_classifier()}, "no teacher was given"),
        ({"epoch": 3}, "there is no knob 'epoch'"),
        ({"tokenizer": None}, "tokenizer"),
        ({"objective": Labels() + Labels()}, "'labels' twice"),
    ],
)
def test_slips_are_refused_before_anything_is_written(change, message, tmp_path):
    given = {"teacher": make_classifier(), "tokenizer": make_tokenizer(), "data": make_rows(), **change}
    with pytest.raises(KnobError, match=message):
        limbeck.distill(**given, out=tmp_path / "x")
    assert not (tmp_path / "x").exists()


def test_a_resumed_run_refuses_other_data(tmp_path):
    rows, taught = make_rows(150), make_classifier()
    given = {
        "tokenizer": make_tokenizer(),
        "out": tmp_path / "x",
        "student": Shrink(layers=1),
        "baseline": False,
        **FAST,
    }
    limbeck.distill(taught, rows, **given)
    relabelled = [dict(row) for row in rows]
    relabelled[0]["label"] = {"positive": "negative", "negative": "positive"}[rows[0]["label"]]
    with pytest.raises(MismatchError, match="labels changed"):
        limbeck.distill(taught, relabelled, resume=True, **given)
    with pytest.raises(MismatchError, match="data and labels changed"):
        limbeck.distill(taught, make_rows(150, seed=1), resume=True, **given)
    with pytest.raises(MismatchError, match="teacher changed"):
        limbeck.distill(make_classifier(seed=3), rows, resume=True, **given)


def test_bf16_trains_without_a_gpu_too(taught, reviews):
    result = limbeck.distill(taught, reviews, baseline=False, **{**FAST, "train": {"epochs": 1, "precision": "bf16"}})
    assert {tensor.dtype for tensor in result.student.state_dict().values()} == {torch.float32}


def test_a_short_run_is_not_timed_unasked(taught, reviews, tmp_path):
    quick = {"epochs": 1, "baseline": False, "measure": {"bootstrap": 200}}
    record = limbeck.distill(taught, reviews, out=tmp_path / "x", **quick).record
    assert [arm.speed for arm in record.arms] == [None, None]
    assert any("so short a run" in note and "limbeck bench" in note for note in record.notes)
