"""Exported folders in the verbs: they answer and are measured as the folders they come from, and cannot learn."""

import csv
import shlex
import shutil
import subprocess
import sys

import pytest
from transformers import FunnelConfig, FunnelForSequenceClassification

import limbeck
from exported import KINDS, LONG, TEXTS, folders, same
from limbeck.cli.answers import answered_at_once, try_line
from limbeck.core.errors import KnobError, ModelError
from limbeck.core.record import Record
from running import limbeck as command
from tiny import VOCABULARY, make_rows, make_tokenizer, write_csv
from tiny_language import make_text, save
from tiny_places import make_questions, make_sentences


def child(*words):
    """`limbeck …` in a process that tells what it imported."""
    done = subprocess.run([sys.executable, "-m", "limbeck", *map(str, words)], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


INPUTS = {
    "answer": [("the film", text) for text in (*TEXTS[:4], LONG)],
    "mask-fill": ["the [MASK] is good", "", "a [MASK] with a [MASK]"],
}


@pytest.mark.parametrize("kind", KINDS)
def test_the_line_to_try_a_file_gives_an_answer(kind):
    program, *words = shlex.split(try_line(folders(kind)[1], kind))
    said = command(*words)
    assert (program, said.code) == ("limbeck", 0), said.err
    assert said.out.strip()


@pytest.mark.parametrize("kind", KINDS)
def test_predict_answers_as_from_the_source(kind):
    source, exported = folders(kind)
    rows = INPUTS.get(kind, [*TEXTS[:4], "", LONG])
    for how in ({}, {"max_length": 16}):
        found = limbeck.predict(exported, rows, **how)
        for ours, theirs in zip(found, limbeck.predict(source, rows, **how), strict=True):
            same(ours, theirs)


def test_a_file_gets_the_same_columns(tmp_path):
    data, answers = write_csv(tmp_path / "new.csv", make_rows(9)), []
    for number, folder in enumerate(folders("classify")):
        out = tmp_path / f"{number}.csv"
        how = "--all-probabilities", "--device", "cpu"
        said = command("predict", folder, "--data", data, "--out", out, *how)
        assert (said.code, said.out) == (0, f"answers {out} (9 rows)\n"), said.err
        answers.append(list(csv.DictReader(out.read_text().splitlines())))
    assert [list(rows[0]) for rows in answers] == 2 * [
        ["text", "label", "predicted_label", "probability", "probability_negative", "probability_positive"]
    ]
    assert [row["predicted_label"] for row in answers[0]] == [row["predicted_label"] for row in answers[1]]


@pytest.mark.slow
def test_no_torch_is_imported(started, tmp_path):
    exported = folders("classify")[1]
    data, out = write_csv(tmp_path / "new.csv", make_rows(3)), tmp_path / "answers.csv"
    for words in ((exported, "a good film"), (exported, "--data", data, "--out", out)):
        child("predict", *words)
    assert len(out.read_text().splitlines()) == 4
    assert len(started()) == 2
    for process in started():
        assert not {"torch", "transformers", "datasets"} & {*process.imported}


@pytest.mark.parametrize("kind", ["classify", "multilabel", "regress"])
def test_one_text_is_answered_without_the_verb_and_as_by_it(kind, capsys):
    exported = str(folders(kind)[1])
    for texts in (["a good film"], ["a good film", "and a dull one"]):
        assert answered_at_once(["predict", exported, *texts])
        at_once = capsys.readouterr().out
        assert at_once.strip()
        assert at_once == command("predict", exported, *texts).out


@pytest.mark.parametrize(
    "words",
    [
        [],
        ["predict"],
        ["predict", "EXPORTED"],
        ["predict", "EXPORTED", " "],
        ["predict", "EXPORTED", "a film", ""],
        ["predict", "EXPORTED", "a film", "--all-probabilities"],
        ["predict", "EXPORTED", "one", "two", "three"],
        ["predict", "SOURCE", "a film"],
        ["predict", "TAGGER", "a film"],
        ["eval", "EXPORTED", "a film"],
    ],
)
def test_all_else_is_left_to_the_verb(words, capsys):
    source, exported = folders("classify")
    places = {"SOURCE": str(source), "EXPORTED": str(exported), "TAGGER": str(folders("tag")[1])}
    assert not answered_at_once([places.get(word, word) for word in words])
    assert not capsys.readouterr().out


def test_slips_are_told_with_the_remedy(tmp_path, reviews):
    exported = folders("classify")[1]
    with pytest.raises(KnobError, match="exported for --task classify, not tag\n"):
        limbeck.predict(exported, ["x"], task="tag")
    with pytest.raises(KnobError, match="cannot run on cuda"):
        limbeck.predict(exported, ["x"], device="cuda")
    with pytest.raises(KnobError, match="no effect for --task classify"):
        limbeck.predict(exported, ["x"], windows={"stride": 3})
    folder = shutil.copytree(exported, tmp_path / "cut")
    (folder / "model.onnx").write_bytes(b"")
    with pytest.raises(ModelError, match=r"model\.onnx differs from what was written\n.*export"):
        limbeck.predict(folder, ["x"])
    said = command("predict", folder, "a text")
    assert (said.code, "model.onnx differs" in said.err, "Traceback" in said.err) == (2, True, False)


def test_an_exported_model_neither_learns_nor_teaches(tmp_path, reviews):
    exported = folders("classify")[1]
    remedy = r"cannot learn or teach\n.*model folder it was exported from"
    with pytest.raises(ModelError, match=remedy):
        limbeck.distill(exported, reviews, out=tmp_path / "run")
    with pytest.raises(ModelError, match=remedy):
        limbeck.train(exported, reviews, out=tmp_path / "run")
    for words in (("distill", "--teacher"), ("train", "--model")):
        said = command(*words, exported, "--data", reviews, "--out", tmp_path / "run")
        assert (said.code, "cannot learn or teach" in said.err) == (2, True)
    assert not (tmp_path / "run").exists()


def test_evaluate_gives_the_record_of_a_model_folder(reviews):
    source, exported = folders("classify")
    theirs, ours = (limbeck.evaluate(folder, reviews) for folder in (source, exported))
    assert ours.arms[0].runs[0].quality == pytest.approx(theirs.arms[0].runs[0].quality, abs=1e-4)
    assert ours.arms[0].runs[0].confusion == theirs.arms[0].runs[0].confusion
    assert (ours.task, ours.metric, ours.data, ours.floor) == (theirs.task, theirs.metric, theirs.data, theirs.floor)
    assert ours.arms[0].title == "exported, in ONNX Runtime fp32"
    assert ours.arms[0].size.parameters == theirs.arms[0].size.parameters
    beside = limbeck.evaluate(exported, reviews, teacher=source).arms[-1]
    assert beside.runs[0].fidelity.agreement == 1.0
    with pytest.raises(ModelError, match="exported for --task classify, not tag"):
        limbeck.evaluate(exported, make_sentences(4), task="tag")


@pytest.mark.parametrize(
    ("kind", "data"), [("tag", make_sentences(30)), ("answer", make_questions(30)), ("mask-fill", make_text(9))]
)
def test_evaluate_of_other_tasks_agrees_with_the_source(kind, data):
    source, exported = folders(kind)
    how = {"blocks": {"length": 16}} if kind == "mask-fill" else {}
    if kind == "tag":
        data = [{**row, "tags": [tag.replace("GOOD", "X").replace("BAD", "X") for tag in row["tags"]]} for row in data]
    theirs, ours = (limbeck.evaluate(folder, data, **how) for folder in (source, exported))
    assert ours.arms[0].runs[0].quality == pytest.approx(theirs.arms[0].runs[0].quality, abs=1e-4)


FEW = {"repeats": 2, "rounds": 5, "batch_size": 16, "threads": 1, "lengths": "8,16,128"}


@pytest.mark.slow
def test_bench_measures_models_and_exports_side_by_side(reviews):
    source, exported = folders("classify")
    record = limbeck.bench([source, exported], reviews, measure=FEW)
    first, second = record.arms
    assert [arm.speed.engine for arm in record.arms] == ["torch fp32", "ONNX Runtime fp32"]
    assert second.runs[0].quality == pytest.approx(first.runs[0].quality, abs=1e-4)
    assert (first.runs[0].fidelity, second.runs[0].fidelity.agreement) == (None, 1.0)
    assert record.data.splits["test"].labelled == second.runs[0].per_class[0].rows + second.runs[0].per_class[1].rows
    for arm in record.arms:
        speed = arm.speed
        assert [one.tokens for one in speed.by_length] == [8, 16]  # a model of 64 positions reads no 128
        assert 0 < speed.p50_ms <= speed.p95_ms <= speed.p99_ms
        assert 0 <= speed.low_ms <= speed.p50_ms <= speed.high_ms
        assert arm.size.bytes_in_all > arm.size.bytes_on_disk
    assert 0 < second.speed.load_ms < first.speed.load_ms
    assert second.speed.peak_bytes < first.speed.peak_bytes
    assert record.machine.versions["onnxruntime"]


@pytest.mark.slow
def test_bench_of_exported_models_imports_no_torch(started, reviews, tmp_path):
    few = ("--measure.repeats", 1, "--measure.rounds", 5, "--measure.lengths", "none")
    child("bench", folders("classify")[1], "--data", reviews, *few, "--out", tmp_path / "bench")
    assert len(started()) == 2  # the run, and the process that is timed
    for process in started():
        assert not {"torch", "transformers", "datasets"} & {*process.imported}
    record = Record.load(tmp_path / "bench")
    assert (record.arms[0].runs[0].quality["accuracy"], record.arms[0].speed.by_length) == (
        pytest.approx(0.5, abs=0.2),
        [],
    )


def test_bench_says_why_a_model_has_no_score(reviews, tmp_path, monkeypatch):
    monkeypatch.setattr("limbeck.jobs.bench.measure_speed", lambda folders, *how, **more: dict.fromkeys(folders))
    source, exported = folders("classify")
    unlabelled = write_csv(tmp_path / "texts.csv", [{"text": text} for text in TEXTS])
    (note,) = limbeck.bench([source, exported], unlabelled).notes
    assert note.startswith("Quality was not measured: ")
    other = limbeck.bench([exported, folders("multilabel")[1]], reviews, task="classify")
    assert [bool(arm.runs) for arm in other.arms] == [True, False]
    assert "was not scored: it does not know the labels negative, positive" in other.notes[0]
    assert not limbeck.bench([exported], reviews, quality=False).arms[0].runs


@pytest.mark.slow
def test_a_model_that_cannot_be_exported_is_trained_and_recorded_all_the_same(tmp_path):
    sizes = {"d_model": 32, "n_head": 4, "d_head": 8, "d_inner": 48, "block_sizes": [1, 1], "num_labels": 2}
    funnel = FunnelForSequenceClassification(FunnelConfig(vocab_size=len(VOCABULARY), **sizes))
    folder = save(funnel, make_tokenizer(), tmp_path / "model")
    how = {"train": {"epochs": 1, "batch_size": 32}, "measure": {"speed": False, "bootstrap": 100, "examples": 0}}
    record = limbeck.train(folder, make_rows(), export="onnx", out=tmp_path / "out", **how).record
    (failed,) = record.failed
    assert (failed.arm, failed.seeds, failed.export) == (record.arms[0].name, [0], "onnx")
    assert failed.reason.startswith("ONNX Runtime cannot run the exported graph")
    assert Record.load(tmp_path / "out").failed == [failed]
    assert record.artifacts == []
    assert not (tmp_path / "out" / "export" / "onnx").exists()
    assert "No export to onnx: ONNX Runtime cannot run" in (tmp_path / "out" / "report.html").read_text()
