"""`train`, `eval` and `bench`, each with real files."""

import pytest
import torch
from transformers import AutoModelForSequenceClassification

from limbeck.core.record import Record
from limbeck.jobs.bench import kind_timed
from limbeck.jobs.settings import BenchRun, TrainRun, read_run
from running import QUICK, files, limbeck
from tiny import make_classifier, make_rows, make_tokenizer, write_csv
from tiny_places import make_tagger


def test_train_makes_a_teacher_that_knows_its_labels(fitted):
    folder, said = fitted
    model = AutoModelForSequenceClassification.from_pretrained(folder / "model")
    assert model.config.id2label == {0: "negative", 1: "positive"}
    assert model.config.problem_type == "single_label_classification"
    record = Record.load(folder)
    assert record.kind == "train"
    assert record.arms[0].mean("accuracy") > 0.7
    assert record.floor.title.startswith("most frequent class (")
    assert record.floor.quality.keys() == record.arms[0].runs[0].quality.keys()
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
    assert record.floor.title.startswith("most frequent class of test (")
    assert f"{record.floor.quality['accuracy']:.4f}" in said.out
    run = record.arms[0].runs[0]
    assert sum(map(sum, run.confusion)) == sum(one.rows for one in run.reliability) == 120
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


@pytest.fixture(scope="module")
def variant(taught, tmp_path_factory):
    """The taught classifier with its outputs in another order, or under other names."""

    def make(names, order=(0, 1), **config):
        folder = tmp_path_factory.mktemp("variant") / "model"
        model = AutoModelForSequenceClassification.from_pretrained(taught)
        with torch.no_grad():
            for tensor in (model.classifier.weight, model.classifier.bias):
                tensor.copy_(tensor[list(order)].clone())
        model.config.id2label = dict(enumerate(names))
        model.config.update(config)
        model.save_pretrained(folder)
        make_tokenizer().save_pretrained(folder)
        return folder

    return make


def beside(model, teacher, file, out, *more):
    said = limbeck("eval", model, "--teacher", teacher, "--data", file, "--out", out, *more)
    assert said.code == 0, said.err
    return Record.load(out)


@pytest.mark.parametrize("names", [("positive", "negative"), (" Positive", "NEGATIVE")])
def test_eval_compares_outputs_of_the_same_name(taught, variant, held_out, tmp_path, names):
    turned = variant(names, order=(1, 0))  # the same function
    itself = beside(taught, taught, held_out, tmp_path / "itself")
    for model, teacher in ((taught, turned), (turned, taught)):
        record = beside(model, teacher, held_out, tmp_path / f"{model.parent.name}")
        near = record.arm("student").runs[0].fidelity
        assert near.agreement == 1.0
        assert near.divergence == pytest.approx(0.0, abs=1e-6)
        assert record.disagreements == []
        for role in ("teacher", "student"):
            assert record.arm(role).mean("accuracy") == itself.arm("teacher").mean("accuracy")
        scores = {score.label.strip().casefold(): score.f1 for score in record.arm("teacher").runs[0].per_class}
        assert scores == pytest.approx({score.label: score.f1 for score in itself.arm("teacher").runs[0].per_class})


def test_eval_takes_the_names_of_a_teacher_without_any_from_a_person(taught, variant, held_out, tmp_path):
    unnamed = variant(("LABEL_0", "LABEL_1"), order=(1, 0))
    said = limbeck("eval", taught, "--teacher", unnamed, "--data", held_out)
    assert said.code == 2
    assert "the model's labels are negative, positive (classify); the teacher's LABEL_0, LABEL_1 (cl" in said.err
    assert "in the teacher's order with --data.classes" in said.err
    record = beside(taught, unnamed, held_out, tmp_path / "a", "--data.classes", "positive,negative")
    assert record.arm("student").runs[0].fidelity.agreement == 1.0
    alike = ("LABEL_0", "LABEL_1")
    numbered = tmp_path / "numbers.csv"
    numbered.write_text(held_out.read_text().replace(",negative", ",0").replace(",positive", ",1"))
    record = beside(variant(alike), variant(alike), numbered, tmp_path / "b")
    assert record.arm("student").runs[0].fidelity.agreement == 1.0


@pytest.mark.parametrize(
    ("names", "config", "told"),
    [
        (("negative", "neutral"), {}, "negative, neutral (classify)"),
        (("negative", "positive"), {"problem_type": "multi_label_classification"}, "negative, positive (multilabel)"),
    ],
)
def test_eval_beside_a_teacher_of_other_labels_is_refused(taught, variant, held_out, names, config, told):
    said = limbeck("eval", taught, "--teacher", variant(names, **config), "--data", held_out)
    assert said.code == 2
    assert f"the model's labels are negative, positive (classify); the teacher's {told}" in said.err
    assert "→ compare models of the same labels" in said.err


def test_eval_beside_a_teacher_of_another_number_of_labels_is_refused(taught, held_out, tmp_path):
    make_classifier(("negative", "neutral", "positive")).save_pretrained(tmp_path / "three")
    make_tokenizer().save_pretrained(tmp_path / "three")
    said = limbeck("eval", taught, "--teacher", tmp_path / "three", "--data", held_out)
    assert said.code == 2
    assert "the teacher's negative, neutral, positive (classify)" in said.err


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


@pytest.mark.usefixtures("forked_probes")
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


@pytest.fixture(scope="module")
def tagger(tmp_path_factory):
    folder = tmp_path_factory.mktemp("tagger") / "model"
    make_tagger(layers=1).save_pretrained(folder)
    make_tokenizer().save_pretrained(folder)
    return folder


def test_bench_looks_at_what_the_models_are(tagger, taught, masked):
    def kind(*models, task="auto"):
        return kind_timed([str(model) for model in models], BenchRun(data={"task": task}))

    assert kind(tagger) == "tag"
    assert kind(tagger, tagger) == "tag"
    assert kind(tagger, taught) == "classify"
    assert kind(taught) == "classify"
    assert kind(masked) == kind(tagger, task="mask-fill") == "mask-fill"
    assert kind(taught, task="answer") == "answer"


@pytest.mark.usefixtures("forked_probes")
def test_bench_times_a_tagger_on_any_text(tagger, reviews):
    """On tagged words too: test_places.py."""
    few = ("--measure.repeats", 1, "--measure.rounds", 5, "--measure.threads", 1)
    said = limbeck("bench", tagger, "--data", reviews, *few)
    assert said.code == 0, said.err
    said = limbeck("bench", tagger, "--task", "tag", "--data", reviews, *few)
    assert said.code == 2
    assert "not a list" in said.err


def test_bench_of_a_file_that_holds_neither_words_nor_texts_says_what_it_looks_for(tagger, tmp_path):
    (tmp_path / "numbers.csv").write_text("a,b\n1,2\n3,4\n")
    said = limbeck("bench", tagger, "--data", tmp_path / "numbers.csv")
    assert said.code == 2
    assert "no column is known to hold words" in said.err


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
