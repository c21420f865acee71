"""The static student, by the commands that people type: taught, compared, resumed, exported, refused."""

import shutil
from statistics import median

import pytest
import torch
from transformers import TrainerCallback

import limbeck as package
from limbeck import distill
from limbeck.core.record import Record
from limbeck.training import fast_loop
from running import files, limbeck
from tiny import make_classifier, make_rows, make_tokenizer, write_csv

QUICK = ("--epochs", 8, "--measure.no-speed", "--measure.bootstrap", 200, "--batch-size", 16, "--train.threads", 1)
SIZES = ("--student.embedding", 16, "--student.filters", 8)


@pytest.fixture(scope="module")
def run(reviews, taught, tmp_path_factory):
    out = tmp_path_factory.mktemp("static") / "run"
    said = limbeck(
        "distill", "--recipe", "static", "--teacher", taught, "--data", reviews, "--out", out, *QUICK, *SIZES,
        "--epochs", 15, "--learning-rate", 1e-2, "--train.patience", 0, "--student.word-dropout", 0,
        "--export", "numpy-int8",
    )  # fmt: skip
    assert said.code == 0, said.err
    return out


def test_it_learns_and_stands_beside_its_baseline(run):
    record = Record.load(run)
    arms = {arm.name: arm for arm in record.arms}
    assert arms.keys() == {"teacher", "plain", "distilled"}
    assert arms["distilled"].shape.text == arms["plain"].shape.text == "16 per piece, 8 filters over 5, hidden 128"
    losses = [point.loss for point in arms["distilled"].runs[0].curve if point.loss is not None]
    assert median(losses[-10:]) < 0.1 * losses[0]
    assert any("Sparse Distillation" in citation.text for citation in record.citations)
    (export,) = record.artifacts
    assert (export.name, export.engine, export.precision) == ("numpy-int8", "NumPy", "int8")
    assert export.size.parameters == arms["distilled"].size.parameters
    assert "16 per piece" in (run / "report.html").read_text(encoding="utf-8")


def test_every_verb_takes_it(run, reviews, tmp_path):
    text = "a good film"
    said = [limbeck("predict", one, text) for one in (run, run / "student", run / "export" / "numpy-int8")]
    assert {one.code for one in said} == {0}, [one.err for one in said]
    assert len({one.out.split("\t")[0] for one in said}) == 1
    exported = limbeck("export", run, "--to", "numpy", "--data", reviews, "--out", tmp_path / "numpy")
    assert exported.code == 0, exported.err
    assert limbeck("eval", run, "--data", reviews, "--teacher", run / "student").code == 0
    assert limbeck("eval", tmp_path / "numpy", "--data", reviews).code == 0
    again = limbeck("train", "--model", run / "student", "--data", reviews, "--out", tmp_path / "more", *QUICK)
    assert again.code == 0, again.err


def test_it_is_a_column_with_a_baseline_of_its_own(reviews, taught, tmp_path):
    out = tmp_path / "run"
    said = limbeck(
        "compare", "--recipes", "finetune,static", "--teacher", taught, "--data", reviews, "--out", out, *QUICK,
        "--epochs", 1,
    )  # fmt: skip
    assert said.code == 0, said.err
    arms = {arm.name: arm for arm in Record.load(out).arms}
    assert arms.keys() == {"teacher", "finetune", "static", "plain-static"}
    assert [arms[name].shape.layers for name in ("finetune", "static", "plain-static")] == [2, 0, 0]


class Cut(Exception):
    pass


class Cutting(TrainerCallback):
    """Ends a run behind so many steps, as a power cut does."""

    def __init__(self, step):
        self.step = step

    def on_step_end(self, args, state, control, **_):
        self.step -= 1
        if not self.step:
            raise Cut


def test_a_run_cut_off_resumes_to_the_same_weights(reviews, taught, tmp_path):
    sizes = package.Shrink(family="static", embedding=16, filters=8)
    knobs = {"epochs": 2, "batch_size": 16, "train": {"threads": 1}, "baseline": False}
    knobs |= {"recipe": "static", "student": sizes, "measure": {"speed": False, "bootstrap": 200}}
    distill(str(taught), reviews, out=tmp_path / "whole", **knobs)
    with pytest.raises(Cut):
        distill(str(taught), reviews, out=tmp_path / "cut", callbacks=[Cutting(18)], **knobs)
    assert any("checkpoint-" in name for name in files(tmp_path / "cut"))
    again = limbeck("distill", "--out", tmp_path / "cut", "--resume")
    assert again.code == 0, again.err
    weights = [(tmp_path / name / "student" / "model.safetensors").read_bytes() for name in ("whole", "cut")]
    assert weights[0] == weights[1]


def test_it_takes_the_loop_of_small_models(reviews, taught, tmp_path, monkeypatch):
    found = []
    fits = fast_loop.fits
    monkeypatch.setattr(fast_loop, "fits", lambda trainer: found.append(fits(trainer)) or found[-1])
    distill(
        str(taught), reviews, recipe="static", out=tmp_path / "run", max_steps=2, baseline=False,
        measure={"speed": False, "bootstrap": 200},
    )  # fmt: skip
    assert found
    assert all(found)


def test_what_it_cannot_have_is_refused_before_the_first_step(reviews, taught, tmp_path):
    def refused(*flags):
        out = tmp_path / "refused"
        said = limbeck("distill", "--teacher", taught, "--data", reviews, "--out", out, *QUICK, *flags)
        assert said.code == 2, said.out
        assert not (out / "arms").exists()
        shutil.rmtree(out, ignore_errors=True)
        return said.err

    assert "limbeck-static does not have" in refused("--recipe", "pkd-skip", "--student.family", "static")
    assert "less than or equal to 9" in refused("--recipe", "static", "--student.window", 11)
    assert "'student.layers' has no effect" in refused("--recipe", "static", "--student.layers", 2)
    assert "'student.filters' has no effect for family 'same'" in refused("--student.filters", 64)
    assert "is not exported to onnx-int8" in refused("--recipe", "static", "--export", "onnx-int8")
    assert "students of family 'static'" in refused("--recipe", "hinton", "--export", "numpy")
    assert "does not serve --task regress" not in refused("--recipe", "static", "--student.embedding", 64)


@pytest.mark.parametrize("kind", ["pairs", "regress"])
def test_pairs_and_numbers(kind, tmp_path):
    rows = make_rows(160)
    if kind == "pairs":
        rows = [{"first": row["text"], "second": row["text"][::-1], "label": row["label"]} for row in rows]
        flags, labels = ("--data.text-column", "first", "--data.pair-column", "second"), ("negative", "positive")
    else:
        rows = [{"text": row["text"], "label": f"{len(row['text']) / 10:.1f}"} for row in rows]
        flags, labels = ("--task", "regress"), ("score",)
    data = write_csv(tmp_path / "data.csv", rows)
    torch.manual_seed(0)
    problem = {"problem_type": "regression"} if kind == "regress" else {}
    make_classifier(labels, layers=1, **problem).save_pretrained(tmp_path / "teacher")
    make_tokenizer().save_pretrained(tmp_path / "teacher")
    said = limbeck(
        "distill", "--recipe", "static", "--teacher", tmp_path / "teacher", "--data", data, "--out", tmp_path / "run",
        *QUICK, "--epochs", 1, "--no-baseline", "--export", "numpy", *flags,
    )  # fmt: skip
    assert said.code == 0, said.err
    record = Record.load(tmp_path / "run")
    assert record.artifacts[0].figures["relative_difference"] < 1e-2
