"""`limbeck distill` and what it leaves, by flags and by file."""

import json

import pytest
from transformers import AutoModelForSequenceClassification, AutoTokenizer

from limbeck.core.record import Record
from limbeck.jobs.settings import Run, read_run
from running import QUICK, files, limbeck


@pytest.fixture(scope="module")
def job(tmp_path_factory, taught, reviews):
    out = tmp_path_factory.mktemp("job") / "small"
    said = limbeck("distill", "--teacher", taught, "--data", reviews, "--out", out, *QUICK, "--learning-rate", "1e-3")
    assert said.code == 0, said.err
    return out, said


def test_the_student_opens_and_is_smaller(job, taught):
    folder, _ = job
    student = AutoModelForSequenceClassification.from_pretrained(folder / "student")
    teacher = AutoModelForSequenceClassification.from_pretrained(taught)
    assert student.config.num_hidden_layers == 2 < teacher.config.num_hidden_layers
    assert student.config.id2label == teacher.config.id2label
    tokens = AutoTokenizer.from_pretrained(folder / "student")("a lovely film", return_tensors="pt")
    assert student(**tokens).logits.shape == (1, 2)
    assert "2 layers" in (folder / "student" / "README.md").read_text()


def test_the_record_holds_three_arms_and_a_sentence(job, reviews):
    record = Record.load(job[0])
    assert [arm.name for arm in record.arms] == ["teacher", "plain", "distilled"]
    assert [arm.shape.layers for arm in record.arms] == [4, 2, 2]
    assert record.arm("teacher").mean("accuracy") > 0.7
    assert record.arm("distilled").mean("accuracy") > 0.7
    assert record.comparisons[0].sentence.startswith("Distillation ")
    assert record.arm("distilled").runs[0].fidelity.agreement > 0.7
    assert record.arm("distilled").runs[0].curve[-1].terms.keys() == {"labels", "soft"}
    assert record.floor.title.startswith("most frequent class (")
    assert record.floor.quality["matthews"] == 0
    assert record.data.read == 240
    assert sum(split.rows for split in record.data.splits.values()) == 240
    assert record.knobs["objective"]["hinton"] == {"weight": 0.5, "temperature": 4.0}
    assert record.command.startswith("limbeck distill --teacher")
    assert {"teacher", "tokenizer", "data"} <= record.fingerprints.keys()
    assert any("Hinton" in citation.text for citation in record.citations)


def test_the_terminal_shows_the_table_and_the_paths(job):
    folder, said = job
    for words in ("accuracy", "teacher, 4 layers", "labels only", "distilled", "Distillation "):
        assert words in said.out
    assert str(folder / "report.html") in said.out
    assert str(folder / "student") in said.out


def test_nothing_else_is_left(job):
    folder, _ = job
    left = files(folder)
    assert {"run.toml", "record.json", "report.html", "student/model.safetensors", "student/config.json"} <= left
    assert not [name for name in left if "checkpoint" in name or ".part" in name or ".lock" in name]
    page = (folder / "report.html").read_text(encoding="utf-8")
    assert page.startswith("<!")
    assert "Distillation " in page


def test_the_run_file_is_complete_and_gives_the_same_again(job, tmp_path):
    folder, _ = job
    table = read_run(folder / "run.toml")
    run = Run(**table)
    assert table == run.model_dump(exclude={"stages", "directions"})
    again = tmp_path / "again"
    said = limbeck("distill", folder / "run.toml", "--out", again)
    assert said.code == 0, said.err
    first, second = Record.load(folder), Record.load(again)
    assert [arm.runs[0].quality for arm in first.arms] == [arm.runs[0].quality for arm in second.arms]
    weights = "student/model.safetensors"
    assert (folder / weights).read_bytes() == (again / weights).read_bytes()


def test_flags_override_the_file(job, tmp_path):
    out = tmp_path / "other"
    said = limbeck("distill", job[0] / "run.toml", "--out", out, "--student.layers", 1, "--no-baseline", "--seed", 5)
    assert said.code == 0, said.err
    record = Record.load(out)
    assert [arm.name for arm in record.arms] == ["teacher", "distilled"]
    assert record.arm("distilled").shape.layers == 1
    assert record.seeds == [5]
    assert any("not known" in note for note in record.notes)


def test_a_finished_folder_is_not_overwritten(job):
    folder, _ = job
    before = {name: (folder / name).read_bytes() for name in files(folder)}
    said = limbeck("distill", folder / "run.toml")
    assert said.code == 2
    assert "already holds a finished run" in said.err
    assert "→ choose another folder" in said.err
    assert {name: (folder / name).read_bytes() for name in files(folder)} == before


def test_a_finished_run_resumed_trains_nothing_again(job):
    folder, _ = job
    before = {name: (folder / "arms" / name).stat().st_mtime_ns for name in files(folder / "arms")}
    said = limbeck("distill", "--resume", "--out", folder)
    assert said.code == 0, said.err
    assert {name: (folder / "arms" / name).stat().st_mtime_ns for name in files(folder / "arms")} == before


def test_reports_put_runs_side_by_side(job, tmp_path):
    folder, _ = job
    record = Record.load(folder)
    other = record.but(name="the-other").save(tmp_path / "other.json")
    page = tmp_path / "page.html"
    said = limbeck("report", folder, other, "--out", page)
    assert said.code == 0, said.err
    assert str(page) in said.out
    assert "the-other" in page.read_text(encoding="utf-8")
    assert limbeck("report", folder, "--out", tmp_path / "card.md").code == 0
    assert (tmp_path / "card.md").read_text().startswith("---")


@pytest.mark.parametrize("broken", ["{", '{"kind": "distill"}', ""])
def test_a_broken_record_is_refused(tmp_path, broken):
    (tmp_path / "record.json").write_text(broken)
    said = limbeck("report", tmp_path, "--out", tmp_path / "page.html")
    assert said.code == 2
    assert "record.json is not a Limbeck record" in said.err
    assert "→" in said.err
    assert not (tmp_path / "page.html").exists()


def test_a_report_without_a_record_or_with_a_strange_ending_is_refused(job, tmp_path):
    said = limbeck("report", tmp_path, "--out", tmp_path / "page.html")
    assert said.code == 2
    assert "no record at" in said.err
    said = limbeck("report", job[0], "--out", tmp_path / "page.pdf")
    assert said.code == 2
    assert "page.pdf" in said.err


def test_one_seed_is_reproduced_and_several_are_counted(job, tmp_path):
    out = tmp_path / "seeds"
    said = limbeck("distill", job[0] / "run.toml", "--out", out, "--seeds", 2)
    assert said.code == 0, said.err
    record = Record.load(out)
    assert record.seeds == [0, 1]
    assert [len(arm.runs) for arm in record.arms] == [1, 2, 2]
    assert record.comparisons[0].seeds == 2
    once = Record.load(job[0])
    for arm in ("plain", "distilled"):
        assert record.arm(arm).runs[0].quality == once.arm(arm).runs[0].quality
    kept = json.loads((out / "arms" / "distilled-seed1" / "result.json").read_text())
    assert kept["result"]["seed"] == 1
