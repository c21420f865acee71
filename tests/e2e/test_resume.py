"""kill -9 at three moments, Ctrl-C, two runs at once: nothing is lost and the end is the same, bit for bit."""

import re
import shutil
import signal

import pytest
from transformers import TrainerCallback

from limbeck import train
from limbeck.core.record import Record
from limbeck.jobs.settings import TrainRun, read_run
from running import files, finish, limbeck, start, start_at_terminal, stop, wait

# One thread everywhere: sums in another order would differ in the last bit.
KNOBS = (
    *("--epochs", 3, "--batch-size", 8, "--train.evals-per-epoch", 4, "--learning-rate", "1e-3"),
    *(
        "--data.dev-share",
        0.2,
        "--data.test-share",
        0.2,
        "--teacher-cache.batch-size",
        1,
    ),  # time enough to be killed in
    *("--train.threads", 1, "--measure.no-speed", "--measure.bootstrap", 200),
)
WEIGHTS = "student/model.safetensors"


@pytest.fixture(scope="module")
def job(taught, reviews):
    return ("distill", "--teacher", taught, "--data", reviews, *KNOBS)


@pytest.fixture(scope="module")
def unbroken(job, tmp_path_factory):
    out = tmp_path_factory.mktemp("unbroken") / "run"
    said = limbeck(*job, "--out", out)
    assert said.code == 0, said.err
    return out


def assert_same(folder, unbroken):
    """Timing apart."""
    a, b = Record.load(folder), Record.load(unbroken)
    for mine, other in zip(a.arms, b.arms, strict=True):
        for one, two in zip(mine.runs, other.runs, strict=True):
            assert one.quality == two.quality
            assert one.fidelity == two.fidelity
            assert [(p.step, p.dev.get("accuracy")) for p in one.curve] == [
                (p.step, p.dev.get("accuracy")) for p in two.curve
            ]
            assert one.best_step == two.best_step
    assert a.comparisons == b.comparisons
    for arm in ("plain-seed0", "distilled-seed0"):
        weights = f"arms/{arm}/model/model.safetensors"
        assert (folder / weights).read_bytes() == (unbroken / weights).read_bytes()
    assert (folder / WEIGHTS).read_bytes() == (unbroken / WEIGHTS).read_bytes()
    assert not [name for name in files(folder) if re.search(r"checkpoint|\.part|\.lock|damaged", name)]


def checkpoint_of(folder, arm):
    return lambda: any((folder / "arms" / f"{arm}-seed0").glob("checkpoints-*/checkpoint-*/complete"))


def test_a_run_killed_three_times_ends_like_an_unbroken_one(job, unbroken, tmp_path):
    out = tmp_path / "run"
    answers = out / "teacher-cache"

    stop(start(*job, "--out", out), lambda: any(answers.glob("shard-*.safetensors")), signal.SIGKILL)
    assert 0 < len(list(answers.glob("shard-*.safetensors"))) < 3
    assert not (out / "arms").exists()

    said = limbeck(*job, "--out", out)
    assert said.code == 2
    assert "holds an unfinished run" in said.err
    assert "→ resume it with --resume" in said.err

    stop(start("distill", "--resume", "--out", out), checkpoint_of(out, "plain"), signal.SIGKILL)
    assert not (out / "arms" / "plain-seed0" / "result.json").exists()

    said = limbeck(*job, "--out", out, "--resume", "--epochs", 5, "--student.layers", 1)
    assert said.code == 2
    assert "student.layers: 0 → 1; train.epochs: 3.0 → 5.0" in said.err
    assert "→ resume with the same ones" in said.err

    stop(start(*job, "--out", out, "--resume"), checkpoint_of(out, "distilled"), signal.SIGKILL)
    plain = out / "arms" / "plain-seed0" / "result.json"
    finished = plain.stat().st_mtime_ns
    assert not (out / "arms" / "distilled-seed0" / "result.json").exists()
    assert not (out / "record.json").exists()

    said = limbeck("distill", "--resume", "--out", out)
    assert said.code == 0, said.err
    assert plain.stat().st_mtime_ns == finished, "a finished student is not trained again"
    assert_same(out, unbroken)


def test_ctrl_c_at_a_terminal_says_how_to_go_on(job, unbroken, tmp_path):
    out = tmp_path / "run"
    child, seen = start_at_terminal(*job, "--out", out)
    assert stop(child, checkpoint_of(out, "plain"), signal.SIGINT).code == 130
    text = seen()
    assert "━" in text  # a bar
    assert " elapsed" in text
    assert " to go" in text
    assert "it/s" not in text  # and none of tqdm's
    assert "Traceback" not in text
    assert "Warning" not in text
    last = text.splitlines()[-1]
    assert last.startswith("limbeck: stopped; ")
    assert "--resume" in last
    assert not (out / "record.json").exists()
    assert not (out / "student").exists()
    assert not [name for name in files(out) if ".part" in name or ".lock" in name]
    assert limbeck("distill", "--resume", "--out", out).code == 0
    assert_same(out, unbroken)


def test_two_runs_into_one_folder(job, unbroken, tmp_path):
    out = tmp_path / "run"
    first = start(*job, "--out", out)
    wait(first, (out / "run.toml").exists)
    for resume in ((), ("--resume",)):
        second = limbeck(*job, "--out", out, *resume)
        assert second.code == 2
        assert f"another run is writing to {out}" in second.err
        assert "→ wait for it" in second.err
    said = finish(first)
    assert said.code == 0, said.err
    assert_same(out, unbroken)
    assert_only_our_lines(said.err)


def assert_only_our_lines(err):
    """Nothing of transformers, torch or datasets; a percentage and the time to go."""
    lines = err.splitlines()
    assert [line for line in lines if not re.match(r"· |\[ *\d+%\] ", line)] == []
    progress = [line for line in lines if line.startswith("[")]
    assert all(re.match(r"\[ *\d+%\] [^:]+: \d+%", line) for line in progress)
    assert any(line.endswith("to go") or " to go (" in line for line in progress)
    assert len(progress) == len(set(progress)), "no line twice"
    assert progress[-1].startswith("[100%] measuring: 100%")
    shares = [int(line[1:5].strip(" %")) for line in progress]
    assert shares == sorted(shares)


def test_a_result_cut_off_while_it_was_written_is_made_again(unbroken, tmp_path):
    """As after a loss of power between training and the last file."""
    out = tmp_path / "run"
    shutil.copytree(unbroken, out)
    cell = out / "arms" / "distilled-seed0"
    for path in (cell / "result.json", cell / "test.safetensors", out / "record.json", out / "report.html"):
        path.unlink()
    shutil.rmtree(out / "student")
    (out / ".student.part").mkdir()
    (out / ".student.part" / "config.json").write_text("{")
    weights = cell / "model" / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[:1000])
    assert limbeck("distill", "--resume", "--out", out).code == 0
    assert_same(out, unbroken)


def test_damaged_answers_are_asked_again(unbroken, tmp_path):
    out = tmp_path / "run"
    shutil.copytree(unbroken, out)
    shutil.rmtree(out / "arms")
    shard = min((out / "teacher-cache").glob("shard-*.safetensors"))
    shard.write_bytes(shard.read_bytes()[:-100])
    said = limbeck("distill", "--resume", "--out", out)
    assert said.code == 0, said.err
    assert f"{shard.name} was damaged and is filled again" in said.err
    next((out / "teacher-cache").glob("*.damaged")).unlink()
    assert_same(out, unbroken)


class Interrupt(TrainerCallback):
    """Ctrl-C after a number of steps."""

    def on_step_end(self, args, state, control, **_):
        if state.global_step == 40:
            raise KeyboardInterrupt


def test_fine_tuning_goes_on_where_it_was(fitted, tmp_path):
    folder, _ = fitted
    run = TrainRun(**read_run(folder / "run.toml")).but(out=str(tmp_path / "run"))
    with pytest.raises(KeyboardInterrupt):
        train(run=run, callbacks=[Interrupt()])
    assert not (tmp_path / "run" / "model").exists()
    said = limbeck("train", "--resume", "--out", run.out, "--seed", 1)
    assert said.code == 2
    assert "seed: 0 → 1" in said.err
    assert limbeck("train", "--resume", "--out", run.out).code == 0
    weights = "model/model.safetensors"
    assert (tmp_path / "run" / weights).read_bytes() == (folder / weights).read_bytes()
    assert Record.load(tmp_path / "run").arms[0].runs[0].quality == Record.load(folder).arms[0].runs[0].quality
