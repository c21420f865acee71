"""What people get wrong: a sentence, a remedy, exit code 2, and nothing half-written."""

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from running import QUICK, finish, limbeck, start
from tiny import make_classifier, make_rows, make_tokenizer, write_csv


@pytest.fixture
def refused(tmp_path, taught, reviews):
    """Runs `distill` with changes that must be refused; nothing may be left behind."""

    def run(*more, teacher=taught, data=reviews, verb="distill"):
        out = tmp_path / "out" / "run"
        given = ("--model" if verb == "train" else "--teacher", teacher, "--data", data, "--out", out, *QUICK, *more)
        said = limbeck(verb, *given)
        assert said.code == 2, said
        assert "Traceback" not in said.err
        problem, remedy = said.err.split("limbeck: ", 1)[1].split("\n  → ")
        assert problem.strip()
        assert remedy.strip()
        assert not out.exists()
        return problem, remedy

    return run


def text_file(path: Path, text: str, encoding="utf-8") -> Path:
    path.write_bytes(text.encode(encoding))
    return path


def table(rows) -> str:
    return "text,label\n" + "".join(f"{row['text']},{row['label']}\n" for row in rows)


def test_a_missing_file(refused, tmp_path, reviews):
    problem, remedy = refused(data=reviews.with_name("review.csv"))
    assert "there is no file" in problem
    assert str(reviews) in remedy


def test_a_wrong_column(refused):
    problem, remedy = refused("--label-column", "verdict")
    assert "has no column 'verdict'" in problem
    assert "'text', 'label'" in problem
    assert "--label-column" in remedy


def test_two_columns_of_one_name(refused, tmp_path):
    problem, _ = refused(data=text_file(tmp_path / "a.csv", "text,label,label\na,b,c\n"))
    assert "2 columns named 'label'" in problem


@pytest.mark.parametrize("text", ["", "\n", "text,label\n"])
def test_an_empty_file(refused, tmp_path, text):
    problem, _ = refused(data=text_file(tmp_path / "a.csv", text))
    assert "is empty" in problem or "no rows" in problem


@pytest.mark.parametrize("verb", ["distill", "train"])
def test_one_class_only(refused, tmp_path, verb):
    rows = [{**row, "label": "positive"} for row in make_rows(100)]
    problem, _ = refused(data=write_csv(tmp_path / "a.csv", rows), verb=verb)
    assert "one class 'positive'" in problem


def test_nan_labels(refused, tmp_path):
    rows = make_rows(100)
    rows[7]["label"] = "NaN"
    problem, remedy = refused(data=write_csv(tmp_path / "a.csv", rows))
    assert "line 9: the label in column 'label' is 'NaN'" in problem
    assert "leave the cell empty" in remedy


def test_labels_the_teacher_does_not_know(refused, tmp_path):
    rows = make_rows(100)
    rows[7]["label"] = "neutral"
    problem, _ = refused(data=write_csv(tmp_path / "a.csv", rows))
    assert "the teacher does not know the label neutral" in problem


def test_a_teacher_with_another_number_of_labels(refused, tmp_path):
    folder = tmp_path / "three"
    make_classifier(labels=("LABEL_0", "LABEL_1", "LABEL_2")).save_pretrained(folder)
    make_tokenizer().save_pretrained(folder)
    problem, _ = refused(teacher=folder)
    assert "the data has 2 classes" in problem
    assert "the teacher has 3" in problem


@pytest.mark.parametrize(("size", "words"), [(0, "is empty (0 bytes)"), (5000, "is cut off")])
def test_a_damaged_model_file(refused, tmp_path, taught, size, words):
    folder = tmp_path / "damaged"
    shutil.copytree(taught, folder)
    weights = folder / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[:size])
    for verb in ("distill", "train"):
        problem, remedy = refused(teacher=folder, verb=verb)
        assert f"{weights} {words}" in problem
        assert "again" in remedy
    said = limbeck("eval", folder, "--data", "x.csv")
    assert said.code == 2
    assert words in said.err


def test_a_folder_that_is_not_a_model(refused, tmp_path, taught):
    nested = tmp_path / "models" / "mine"
    shutil.copytree(taught, nested)
    problem, remedy = refused(teacher=nested.parent)
    assert "is not a model folder" in problem
    assert str(nested) in remedy
    problem, _ = refused(teacher=tmp_path / "nowhere" / "at" / "all")
    assert "there is no model folder" in problem


def test_mixed_encodings(refused, tmp_path):
    rows = table(make_rows(100)).encode() + "un film très beau,positive\n".encode("cp1252")
    file = tmp_path / "a.csv"
    file.write_bytes(rows)
    problem, remedy = refused(data=file)
    assert "line 102: the byte 0xe8 is not UTF-8" in problem
    assert "--data.encoding cp1252" in remedy


@pytest.mark.parametrize(
    ("flags", "words"),
    [
        (("--student.layers", 99), "'layers' is 99, but the teacher has 4"),
        (("--student.layers", -1), "'student.layers' cannot be '-1'"),
        (("--student.heads", 3, "--student.hidden", 32), "does not divide into 3 heads"),
        (("--student.keep", "0,9"), "'keep' names layers 0,9"),
        (("--epochs", -1), "'train.epochs' cannot be '-1'"),
        (("--epochs", 0), "'train.epochs' cannot be '0'"),
        (("--seeds", 0), "'seeds' cannot be '0'"),
        (("--objective.hinton.temperature", 0), "'objective.hinton.temperature' cannot be '0'"),
        (("--data.max-length", 3), "'data.max_length' cannot be '3'"),
        (("--data.dev-share", 0.6, "--data.test-share", 0.6), "leave nothing for train"),
        (("--data.task", "regress"), "is not a number"),
        (("--recipe", "custom"), "objective is empty"),
        (("--train.report-to", "no-such-logger"), "no-such-logger"),
    ],
)
def test_knobs_out_of_their_limits(refused, flags, words):
    problem, _ = refused(*flags)
    assert words in problem


def test_soft_targets_on_numbers(refused, tmp_path):
    folder = tmp_path / "scorer"
    make_classifier(labels=("LABEL_0",), problem_type="regression").save_pretrained(folder)
    make_tokenizer().save_pretrained(folder)
    rows = [{"text": row["text"], "score": 0.5 + index / 7} for index, row in enumerate(make_rows(100))]
    data = write_csv(tmp_path / "a.csv", rows)
    problem, remedy = refused("--recipe", "hinton", teacher=folder, data=data)
    assert "does not serve --task regress" in problem
    assert "logits" in remedy


def test_a_cache_of_another_teacher(refused, tmp_path, teacher_folder, reviews):
    cache = ("--teacher-cache.cache", tmp_path / "answers")
    out = tmp_path / "first"
    first = limbeck(
        *("distill", "--teacher", teacher_folder, "--data", reviews, "--out", out, *QUICK, "--no-baseline", *cache)
    )
    assert first.code == 0, first.err
    before = {path: path.read_bytes() for path in (tmp_path / "answers").iterdir()}
    said = limbeck("distill", out / "run.toml", "--out", tmp_path / "second", "--data.limit", 50)
    assert said.code == 2
    assert "was made with another data" in said.err
    other = tmp_path / "other"
    make_classifier(seed=1).save_pretrained(other)
    make_tokenizer().save_pretrained(other)
    said = limbeck("distill", out / "run.toml", "--out", tmp_path / "third", "--teacher", other)
    assert said.code == 2
    assert "was made with another teacher" in said.err
    assert "→ delete" in said.err
    assert "--teacher-cache.cache" in said.err
    assert {path: path.read_bytes() for path in (tmp_path / "answers").iterdir()} == before


def test_a_file_in_place_of_the_folder(taught, reviews, tmp_path):
    (tmp_path / "taken").write_text("mine")
    for out in (tmp_path / "taken", tmp_path / "taken" / "below"):
        said = limbeck("distill", "--teacher", taught, "--data", reviews, "--out", out)
        assert said.code == 2
        assert f"cannot write {out}" in said.err
        assert "→ choose another folder with --out" in said.err
    assert (tmp_path / "taken").read_text() == "mine"


@pytest.fixture
def small_disk(tmp_path):
    """A file system of its own, which fills up and can be made larger."""
    place = tmp_path / "disk"
    place.mkdir()
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=64k", "tmpfs", place], capture_output=True)
    if mounted.returncode:
        pytest.skip(f"cannot mount a small disk: {mounted.stderr.decode().strip()}")
    yield place
    subprocess.run(["umount", "-l", place], check=True)


@pytest.mark.skipif(sys.platform != "linux", reason="needs tmpfs")
def test_a_read_only_disk(small_disk, taught, reviews):
    (small_disk / "begun").mkdir()
    subprocess.run(["mount", "-o", "remount,ro", small_disk], check=True)
    for out in (small_disk / "new", small_disk / "begun"):
        said = limbeck("distill", "--teacher", taught, "--data", reviews, "--out", out)
        assert said.code == 2
        assert f"cannot write {out}: the file system is read-only" in said.err
        assert "→ choose another folder with --out" in said.err


@pytest.mark.skipif(os.geteuid() == 0, reason="root writes anywhere; the test above stands for this one")
def test_a_read_only_folder(taught, reviews, tmp_path):
    tmp_path.chmod(0o500)
    said = limbeck("distill", "--teacher", taught, "--data", reviews, "--out", tmp_path / "run")
    tmp_path.chmod(0o700)
    assert said.code == 2
    assert "no permission" in said.err


def test_eval_into_a_file_is_refused(taught, reviews, tmp_path):
    (tmp_path / "taken").write_text("mine")
    said = limbeck("eval", taught, "--data", reviews, "--out", tmp_path / "taken")
    assert said.code == 2
    assert "→ choose another folder with --out" in said.err
    assert "Traceback" not in said.err


def test_the_exit_code_of_a_real_process(tmp_path):
    said = finish(start("report", tmp_path, "--out", tmp_path / "page.html"))
    assert said == (
        2,
        "",
        f"limbeck: no record at {tmp_path}/record.json\n  → give the folder of a finished run, or its record.json\n",
    )
    assert list(tmp_path.iterdir()) == []


@pytest.mark.skipif(sys.platform != "linux", reason="needs tmpfs")
def test_a_full_disk_while_caching(small_disk, taught, reviews, monkeypatch):
    """The disk holds the run file and not the answers; enlarged, the run goes on."""
    monkeypatch.setattr("limbeck.jobs.preflight._check_room", lambda *_: None)  # it fills up later
    out = small_disk / "run"
    (small_disk / "ballast").write_bytes(b"x" * 40 * 1024)
    job = ("distill", "--teacher", taught, "--data", reviews, "--out", out, *QUICK, "--no-baseline")
    said = limbeck(*job)
    assert said.code == 2, said
    assert re.search(rf"the teacher's logits need 0\.\d\d MB, but {out / 'teacher-cache'} has 0\.0\d MB", said.err)
    assert "→ free some space, then run the same command with --resume" in said.err
    assert "Traceback" not in said.err
    left = [path for path in out.rglob("*") if path.is_file()]
    assert not [path for path in left if path.suffix == ".part" or path.name == ".lock"]
    subprocess.run(["mount", "-o", "remount,size=20m", small_disk], check=True)
    assert limbeck(*job, "--resume").code == 0
    assert json.loads((out / "record.json").read_text())["kind"] == "distill"


@pytest.mark.skipif(sys.platform != "linux", reason="needs tmpfs")
@pytest.mark.parametrize("size", [12, 200, 800])
def test_a_full_disk_at_any_moment(small_disk, taught, reviews, size, monkeypatch):
    out = small_disk / "run"
    subprocess.run(["mount", "-o", f"remount,size={size}k", small_disk], check=True)
    job = ("distill", "--teacher", taught, "--data", reviews, "--out", out, *QUICK, "--no-baseline")
    said = limbeck(*job)
    assert said.code == 2, said
    assert "models and checkpoints need about" in said.err
    monkeypatch.setattr("limbeck.jobs.preflight._check_room", lambda *_: None)  # another program fills it later
    said = limbeck(*job)
    assert said.code == 2, said
    assert "the disk is full" in said.err
    assert "Traceback" not in said.err
    assert not (out / "record.json").exists()
    subprocess.run(["mount", "-o", "remount,size=20m", small_disk], check=True)
    said = limbeck(*job, "--resume")
    assert said.code == 0, said.err
