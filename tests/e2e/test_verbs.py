"""`train`, `eval` and `bench`, each with real files."""

import pytest
from transformers import AutoModelForSequenceClassification

from limbeck.core.record import Record
from limbeck.recipes.run import TrainRun, read_run
from running import QUICK, files, limbeck
from tiny import make_rows, write_csv


def test_train_makes_a_teacher_that_knows_its_labels(fitted):
    folder, said = fitted
    model = AutoModelForSequenceClassification.from_pretrained(folder / "model")
    assert model.config.id2label == {0: "negative", 1: "positive"}
    assert model.config.problem_type == "single_label_classification"
    record = Record.load(folder)
    assert record.kind == "train"
    assert record.arms[0].mean("accuracy") > 0.7
    assert str(folder / "report.html") in said.out
    assert str(folder / "model") in said.out
    assert TrainRun(**read_run(folder / "run.toml")).train.epochs == 4
    assert not [name for name in files(folder) if "checkpoint" in name or ".part" in name]


def test_train_reproduces_and_is_not_repeated(fitted, tmp_path):
    folder, _ = fitted
    again = tmp_path / "again"
    assert limbeck("train", folder / "run.toml", "--out", again).code == 0
    assert (folder / "model/model.safetensors").read_bytes() == (again / "model/model.safetensors").read_bytes()
    said = limbeck("train", folder / "run.toml")
    assert said.code == 2
    assert "already holds a finished run" in said.err


@pytest.mark.parametrize(("missing", "flag"), [("--model", "--model"), ("--out", "--out"), ("--data", "--data")])
def test_train_asks_for_what_is_missing(missing, flag, teacher_folder, reviews, tmp_path):
    given = {"--model": teacher_folder, "--data": reviews, "--out": tmp_path / "x"}
    del given[missing]
    said = limbeck("train", *(word for pair in given.items() for word in pair))
    assert said.code == 2
    assert flag in said.err.split("→")[1]
    assert list(tmp_path.iterdir()) == []


@pytest.fixture(scope="module")
def held_out(tmp_path_factory):
    rows = make_rows(120, seed=7)
    return write_csv(tmp_path_factory.mktemp("held") / "test.csv", rows)


def test_eval_gives_every_figure(taught, held_out, tmp_path):
    said = limbeck("eval", taught, "--data", held_out, "--out", tmp_path / "eval")
    assert said.code == 0, said.err
    record = Record.load(tmp_path / "eval")
    quality = record.arms[0].runs[0].quality
    assert quality["accuracy"] > 0.7
    for name, value in quality.items():
        assert name in said.out
        assert f"{value:.4f}" in said.out
    assert "F1 of positive" in said.out
    assert record.data.splits["test"].rows == 120
    assert str(tmp_path / "eval" / "report.html") in said.out
    assert (tmp_path / "eval" / "report.html").exists()


def test_eval_with_a_teacher_says_how_close_it_stays(taught, teacher_folder, held_out, tmp_path):
    said = limbeck("eval", teacher_folder, "--teacher", taught, "--data", held_out, "--out", tmp_path / "eval")
    assert said.code == 0, said.err
    record = Record.load(tmp_path / "eval")
    assert [arm.role for arm in record.arms] == ["teacher", "student"]
    near = record.arms[1].runs[0].fidelity
    assert near.teacher_right_rows + near.teacher_wrong_rows == 120
    assert 0 < len(record.disagreements) <= 40
    itself = limbeck("eval", taught, "--teacher", taught, "--data", held_out)
    assert itself.code == 0
    assert "100.0 %" in itself.out


def test_eval_writes_nothing_unasked(taught, held_out, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert limbeck("eval", taught, "--data", held_out).code == 0
    assert list(tmp_path.iterdir()) == []


def test_eval_without_labels_is_refused(taught, tmp_path):
    file = tmp_path / "bare.csv"
    file.write_text("text\na lovely film\na dull film\n")
    said = limbeck("eval", taught, "--data", file)
    assert said.code == 2
    assert "no labels" in said.err
    assert "→" in said.err


def test_bench_measures_each_model(taught, teacher_folder, reviews, tmp_path):
    few = ("--measure.repeats", 1, "--measure.rounds", 5, "--measure.batch-size", 16, "--measure.threads", 1)
    said = limbeck("bench", taught, "--data", reviews, *few, "--out", tmp_path / "bench")
    assert said.code == 0, said.err
    record = Record.load(tmp_path / "bench")
    speed = record.arms[0].speed
    assert 0 < speed.p50_ms <= speed.p95_ms
    assert speed.sentences_per_second > 0
    assert speed.peak_bytes > 10_000_000
    assert speed.threads == 1
    assert record.arms[0].size.bytes_on_disk > 0
    assert (tmp_path / "bench" / "report.html").exists()


def test_bench_of_what_is_not_a_model_is_refused(tmp_path):
    said = limbeck("bench", tmp_path)
    assert said.code == 2
    assert "no config.json" in said.err
    assert "→" in said.err


def test_a_gone_teacher_is_named_when_a_run_is_resumed(teacher_folder, reviews, tmp_path):
    said = limbeck("distill", "--resume", "--out", tmp_path / "nothing", *QUICK)
    assert said.code == 2
    assert "→" in said.err
    assert not (tmp_path / "nothing").exists()
