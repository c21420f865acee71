"""Where speed cannot be measured, what was trained is kept, and the record says what is missing."""

import pytest

from limbeck.core.progress import Silent
from limbeck.core.record import Record
from limbeck.measure.settings import MeasureSettings
from limbeck.measure.speed import speeds_of
from running import BLOCKS, limbeck
from tongues import sentences, translate, write_pairs
from untaught import make_teacher, of_files

BRIEF = (
    *("--epochs", 1, "--batch-size", 16, "--train.threads", 1),
    *(
        "--measure.speed",
        "--measure.bootstrap",
        200,
        "--measure.repeats",
        1,
        "--measure.rounds",
        5,
        "--measure.threads",
        1,
    ),
)


@pytest.fixture
def no_clock(monkeypatch):
    """No Python starts with this, and models are timed in processes of their own."""
    monkeypatch.setenv("PYTHONHASHSEED", "none at all")


@pytest.fixture
def jobs(teacher_folder, reviews, corpus, bare, masked, tmp_path):
    texts = sentences(200, seed=0)
    translator = make_teacher(tmp_path / "translator", [*texts, *map(translate, texts)])
    pairs = of_files(write_pairs(tmp_path, 200))
    of_words = ("--task", "mask-fill", "--data", corpus, *BLOCKS)
    small = ("--student.layers", 1, "--no-baseline")
    return {
        "distill": ("distill", "--teacher", teacher_folder, "--data", reviews, *small),
        "distill words": ("distill", "--teacher", masked, *of_words, *small),
        "distill pairs": ("distill", "--recipe", "word-kd", "--teacher", translator, *pairs, *small),
        "train": ("train", "--model", teacher_folder, "--data", reviews),
        "train words": ("train", "--model", bare, *of_words),
    }


@pytest.mark.parametrize("job", ["distill", "distill words", "distill pairs", "train", "train words"])
def test_a_run_ends_with_its_record_without_a_clock(job, jobs, no_clock, tmp_path):
    out = tmp_path / "run"
    said = limbeck(*jobs[job], *BRIEF, "--out", out)
    assert said.code == 0, said.err
    record = Record.load(out)
    assert [arm.speed for arm in record.arms] == [None] * len(record.arms)
    troubles = [note for note in record.notes if note.startswith("Not timed: the speed of ")]
    assert len(troubles) == len(record.arms) + len(record.artifacts)
    assert not any("in rotation" in note for note in record.notes)
    assert "Not timed: the speed of " in (out / "report.html").read_text(encoding="utf-8")
    assert any((out / name / "model.safetensors").exists() for name in ("student", "model"))
    assert ("ctranslate2" in {artifact.name for artifact in record.artifacts}) == (job == "distill pairs")


@pytest.mark.usefixtures("forked_probes")
def test_one_model_without_a_speed_hides_no_other(teacher_folder, tmp_path):
    folders = {"gone": tmp_path, "teacher": teacher_folder, "student": teacher_folder}
    settings = MeasureSettings(repeats=1, rounds=5, threads=1)
    speeds, notes = speeds_of(folders, [("a lovely film", "")], settings, 16, Silent())
    assert list(speeds) == ["teacher", "student"]
    assert notes == [
        "Models were timed one after another, not in rotation, since one of them could not be timed.",
        f"Not timed: {tmp_path} is not a model folder: it has no config.json.",
    ]
    unasked = speeds_of(folders, [], settings.but(speed=False), 16, Silent())
    assert unasked == ({}, [])
