"""`limbeck compare`: the real thing on tiny models, killed, resumed, with columns that fail, and in little time."""

import signal

import pytest
from transformers import DebertaV2Config, DebertaV2ForSequenceClassification, TrainerCallback

from limbeck.core.checksum import read_sealed
from limbeck.core.errors import LimbeckError, MismatchError
from limbeck.core.record import Record
from limbeck.jobs.compare import compare
from limbeck.jobs.compare_settings import CompareRun, columns_of
from limbeck.jobs.settings import read_run
from limbeck.students.shrink import Shrink
from limbeck.teachers.live import LiveTeacher
from running import limbeck, start, stop
from tiny import make_classifier, make_rows, make_tokenizer

KNOBS = (
    *("--epochs", 1, "--batch-size", 16, "--learning-rate", "2e-3", "--train.threads", 1),
    *("--data.dev-share", 0.2, "--data.test-share", 0.2, "--measure.no-speed", "--measure.bootstrap", 200),
)
FAST = {
    "train": {"epochs": 1, "batch_size": 16, "threads": 1},
    "measure": {"speed": False, "bootstrap": 200},
    "reading": {"dev_share": 0.2, "test_share": 0.2},
}


@pytest.fixture(scope="module")
def job(taught, reviews, tmp_path_factory):
    file = tmp_path_factory.mktemp("job") / "compare.toml"
    file.write_text(
        'recipes = "finetune,hinton"\n[columns.one-layer]\nrecipe = "logits"\n[columns.one-layer.student]\nlayers = 1\n'
        '[columns.too-deep]\nrecipe = "hinton"\n[columns.too-deep.student]\nlayers = 9\n'
    )
    return ("compare", file, "--teacher", taught, "--data", reviews, "--seeds", 2, *KNOBS)


@pytest.fixture(scope="module")
def unbroken(job, tmp_path_factory):
    out = tmp_path_factory.mktemp("unbroken") / "run"
    said = limbeck(*job, "--out", out)
    assert said.code == 0, said.err
    return out, said


def test_every_column_and_a_baseline_for_every_student(unbroken):
    record = Record.load(unbroken[0])
    assert record.kind == "compare"
    assert {arm.name: arm.role for arm in record.arms} == {
        "teacher": "teacher",
        "finetune": "baseline",  # of the student that hinton has too
        "hinton": "student",
        "plain-one-layer": "baseline",
        "one-layer": "student",
    }
    assert {(c.better, c.than) for c in record.comparisons} == {
        ("hinton", "finetune"),
        ("one-layer", "plain-one-layer"),
    }
    assert {c.confidence for c in record.comparisons} == {0.975}  # two at once
    for arm in record.arms[1:]:
        assert [run.seed for run in arm.runs] == [0, 1]
        assert all(run.fidelity and run.curve and run.seconds > 0 for run in arm.runs)
    assert {arm.name: arm.start for arm in record.arms} == {
        "teacher": "",
        **dict.fromkeys(("finetune", "hinton"), "layers 0, 3 of the teacher"),
        **dict.fromkeys(("plain-one-layer", "one-layer"), record.arm("one-layer").start),
    }
    assert record.arm("plain-one-layer").shape == record.arm("one-layer").shape != record.arm("hinton").shape
    within_shape = [arm.mean("accuracy") for arm in record.arms if arm.shape == record.arm("hinton").shape]
    assert within_shape == sorted(within_shape, reverse=True)


def test_a_column_that_does_not_fit_is_told_of_and_the_rest_goes_on(unbroken):
    out, said = unbroken
    (failure,) = Record.load(out).failed
    assert (failure.arm, failure.seeds) == ("too-deep", [])
    assert "teacher has 4 layers" in failure.reason
    assert "“too-deep” was refused" in said.out
    assert "too-deep" in (out / "report.html").read_text()


def test_what_a_person_sees(unbroken):
    out, said = unbroken
    for word in ("hinton", "one-layer", "labels only, beside", "verdict", "gain", str(out / "report.html")):
        assert word in said.out
    assert limbeck("report", out, "--out", out / "again.html").code == 0
    assert "labels only, beside one-layer" in (out / "again.html").read_text()
    assert "| hinton |" in (out / "report.md").read_text()


def test_the_run_file_holds_every_column(unbroken):
    run = CompareRun(**read_run(unbroken[0] / "run.toml"))
    assert list(columns_of(run)) == ["finetune", "hinton", "one-layer", "too-deep"]
    assert run.columns["one-layer"]["student"]["layers"] == 1
    assert run.columns["hinton"]["objective"]["hinton"]["temperature"] == 4.0


def test_one_cache_serves_all(unbroken):
    assert len(list(unbroken[0].glob("teacher-cache*"))) == 1


def assert_same(folder, unbroken):
    a, b = Record.load(folder), Record.load(unbroken)
    for mine, other in zip(a.arms, b.arms, strict=True):
        assert [run.quality for run in mine.runs] == [run.quality for run in other.runs]
    assert a.comparisons == b.comparisons
    for cell in (path.name for path in (unbroken / "arms").iterdir()):
        weights = f"arms/{cell}/model/model.safetensors"
        assert (folder / weights).read_bytes() == (unbroken / weights).read_bytes()


def test_killed_in_the_middle_it_goes_on_and_ends_the_same(job, unbroken, tmp_path):
    out = tmp_path / "run"
    done = out / "arms" / "hinton-seed0" / "result.json"
    begun = out / "arms" / "finetune-seed1"
    said = stop(start(*job, "--out", out), begun.exists, signal.SIGKILL)
    assert said.code == -signal.SIGKILL
    assert done.exists()  # the whole first seed comes first
    assert (out / "arms" / "one-layer-seed0" / "result.json").exists()
    assert not (out / "record.json").exists()
    kept = done.stat().st_mtime_ns
    again = limbeck("compare", "--out", out, "--resume")
    assert again.code == 0, again.err
    assert done.stat().st_mtime_ns == kept
    assert_same(out, unbroken[0])


def test_a_folder_is_not_entered_twice_nor_with_other_columns(job, unbroken):
    assert "already holds a finished run" in limbeck(*job, "--out", unbroken[0]).err
    said = limbeck(*job, "--out", unbroken[0], "--resume", "--epochs", 2)
    assert said.code == 2
    assert "other knobs" in said.err


class Break(TrainerCallback):
    """Ends the cells whose folder has one of these names."""

    def __init__(self, *names):
        self.names = names

    def on_train_begin(self, args, state, control, **_):
        if any(name in args.output_dir for name in self.names):
            raise RuntimeError("out of something")


def test_a_cell_that_fails_is_left_and_tried_again(tmp_path):
    given = {"tokenizer": make_tokenizer(), "out": tmp_path / "x", "seeds": 2, **FAST}
    network, rows = make_classifier(), make_rows(150)
    broken = compare(network, rows, ["finetune", "hinton"], callbacks=[Break("hinton-seed1")], **given)
    assert [(f.arm, f.seeds, f.reason) for f in broken.record.failed] == [
        ("hinton", [1], "RuntimeError: out of something")
    ]
    told = tmp_path / "x" / "arms" / "hinton-seed1" / "failed.txt"
    assert "out of something" in told.read_text()
    assert [run.seed for run in broken.record.arm("hinton").runs] == [0]
    assert [c.seeds for c in broken.record.comparisons] == [1]  # on what both have
    mended = compare(network, rows, ["finetune", "hinton"], resume=True, **given)
    assert mended.record.failed == []
    assert not told.exists()
    assert [c.seeds for c in mended.record.comparisons] == [2]
    assert mended.models.keys() == {"finetune", "hinton"}
    assert all((model / "model.safetensors").exists() for model in mended.models.values())


def test_ctrl_c_is_not_a_failure(tmp_path):
    class Stop(TrainerCallback):
        def on_train_begin(self, args, state, control, **_):
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        compare(make_classifier(), make_rows(150), "finetune", tokenizer=make_tokenizer(), callbacks=[Stop()], **FAST)


def test_nothing_left_to_compare_is_an_error(tmp_path):
    given = {"tokenizer": make_tokenizer(), **FAST}
    with pytest.raises(LimbeckError, match=r"'layers' is 9, but the teacher has 4"):
        compare(make_classifier(), make_rows(150), "hinton", student=Shrink(layers=9), **given)
    with pytest.raises(LimbeckError, match=r"every training failed.*out of something"):
        compare(make_classifier(), make_rows(150), "hinton", callbacks=[Break("seed0")], **given)


def test_without_baseline_and_with_a_student_in_hand(tmp_path):
    result = compare(
        make_classifier(),
        make_rows(150),
        "hinton,logits",
        make_classifier(layers=1, hidden=16, seed=3),
        tokenizer=make_tokenizer(),
        baseline=False,
        **FAST,
    )
    assert [arm.role for arm in result.record.arms] == ["teacher", "student", "student"]
    assert {arm.shape.hidden for arm in result.record.arms[1:]} == {16}
    assert result.record.comparisons == []
    other = {"resume": True, "out": result.folder, "tokenizer": make_tokenizer(), "baseline": False}
    with pytest.raises(MismatchError, match="student of"):
        compare(
            make_classifier(),
            make_rows(150),
            "hinton,logits",
            make_classifier(layers=1, hidden=16, seed=4),
            **other,
            **FAST,
        )


def test_a_tiny_budget_leaves_a_step_each_and_says_so(taught, reviews, tmp_path):
    given = {"out": tmp_path / "x", "budget_minutes": 1e-6, **FAST}
    result = compare(taught, reviews, ["finetune", "hinton"], **given)
    for arm in result.record.arms[1:]:
        assert [run.curve[-1].step for run in arm.runs] == [1]
        assert arm.runs[0].curve[-1].dev
    note = next(note for note in result.record.notes if "budget" in note)
    assert "hinton 0.111 of 1" in note
    assert not (tmp_path / "x" / "timing").exists()
    settled = (tmp_path / "x" / "budget.json").read_text()
    compare(taught, reviews, ["finetune", "hinton"], resume=True, **given)
    assert (tmp_path / "x" / "budget.json").read_text() == settled


def test_a_column_that_learns_longer_says_so(taught, reviews, tmp_path):
    warm = {"warm": {"epochs": 2.0, "objective": {"hinton": {"temperature": 3.0}}}}
    columns = {"staged": {"recipe": "hinton", "stages": warm}}
    record = compare(taught, reviews, "finetune", out=tmp_path / "x", columns=columns, **FAST).record
    (note,) = (note for note in record.notes if "learned for" in note)
    assert note.startswith("staged learned for 3 epochs of ")
    assert "in the steps warm, main; the same student without a teacher for 1 of " in note
    assert record.arm("staged").objective.count("; then ") == 1
    assert any(note.startswith("finetune, staged: ") for note in record.notes)  # where both start
    assert [(c.better, c.than) for c in record.comparisons] == [("staged", "finetune")]


def test_a_large_budget_changes_nothing(taught, reviews, tmp_path):
    rich, free = (
        compare(taught, reviews, ["finetune", "hinton"], out=tmp_path / name, budget_minutes=minutes, **FAST)
        for name, minutes in (("rich", 10_000), ("free", 0))
    )
    assert read_sealed(tmp_path / "rich" / "budget.json") == {"finetune": 1.0, "hinton": 1.0}
    for a, b in zip(rich.record.arms, free.record.arms, strict=True):
        assert [run.quality for run in a.runs] == [run.quality for run in b.runs]


def test_texts_without_labels_are_compared_by_their_agreement(taught, tmp_path):
    bare, out = tmp_path / "bare.csv", tmp_path / "run"
    bare.write_text("text\n" + "".join(f"{row['text']}\n" for row in make_rows(150)))
    how = ("--recipes", "hinton,logits", "--student.layers", 1, "--out", out)
    said = limbeck("compare", "--teacher", taught, "--data", bare, *how, *KNOBS)
    assert said.code == 0, said.err
    assert {arm.name for arm in Record.load(out).arms if arm.runs[0].fidelity} == {"hinton", "logits"}
    assert "the test rows carry no labels" in said.out
    assert (out / "report.html").exists()


def test_a_column_that_wants_more_than_the_teacher_shows_leaves_the_others(tmp_path):
    sizes = {"vocab_size": 40, "hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2}
    teacher = DebertaV2ForSequenceClassification(
        DebertaV2Config(**sizes, intermediate_size=32, id2label={0: "negative", 1: "positive"})
    )
    recipes, student = ["finetune", "hinton", "minilm"], Shrink(layers=1)
    found = compare(teacher, make_rows(100), recipes, student, tokenizer=make_tokenizer(), out=tmp_path / "run", **FAST)
    assert [failure.arm for failure in found.record.failed] == ["minilm"]
    assert "cannot be recorded" in found.record.failed[0].reason
    assert {"finetune", "hinton"} <= {arm.name for arm in found.record.arms}


def test_who_learns_from_labels_alone_does_not_ask_a_teacher_that_is_at_hand(monkeypatch, tmp_path):
    asked = []
    answer = LiveTeacher.answer
    monkeypatch.setattr(LiveTeacher, "answer", lambda self, batch: asked.append(1) or answer(self, batch))
    rows, how = make_rows(100), dict(tokenizer=make_tokenizer(), teacher_cache={"live": True}, **FAST)
    compare(make_classifier(), rows, "finetune", Shrink(layers=1), out=tmp_path / "alone", **how)
    alone = len(asked)
    compare(make_classifier(), rows, "hinton", Shrink(layers=1), out=tmp_path / "taught", baseline=False, **how)
    assert len(asked) - alone > alone
