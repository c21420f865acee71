"""kill -9 while a teacher translates and while its student trains: nothing is asked twice, and the end is the same."""

import os
import re
import signal
import sys
from collections.abc import Iterable
from pathlib import Path

import pytest

from limbeck.core.record import Record
from running import files, limbeck, start, stop
from tongues import write_pairs

# One thread everywhere: sums in another order would differ in the last bit.
SHAPE = ("--seq2seq.hidden", 32, "--seq2seq.heads", 2, "--seq2seq.encoder-layers", 1, "--seq2seq.decoder-layers", 1)
TINY = (*SHAPE, "--seq2seq.vocabulary", 90, "--seq2seq.positions", 32)
LEARN = ("--batch-size", 16, "--learning-rate", "5e-3", "--train.threads", 1, "--train.evals-per-epoch", 2)
BRIEF = (*LEARN, "--epochs", 2, "--measure.no-speed", "--measure.bootstrap", 200)
RECIPE = "seq-kd+seq-inter"


@pytest.fixture(scope="module")
def source(tmp_path_factory):
    return write_pairs(tmp_path_factory.mktemp("pairs"), 420)


@pytest.fixture(scope="module")
def data(source):
    return ("--task", "translate", "--data", source, "--target", source.with_suffix(".de"))


@pytest.fixture(scope="module")
def teacher(data, tmp_path_factory):
    out = tmp_path_factory.mktemp("made") / "teacher"
    said = limbeck("train", *data, *TINY, *BRIEF, "--epochs", 6, "--train.evals-per-epoch", 1, "--out", out)
    assert said.code == 0, said.err
    return out / "model"


@pytest.fixture(scope="module")
def knobs(teacher, data):
    return ("--teacher", teacher, *data, *BRIEF, "--translate.beam", 3)


@pytest.fixture(scope="module")
def job(knobs):
    return ("distill", "--recipe", RECIPE, *knobs, "--no-baseline", "--stages.interpolate.epochs", 2)


@pytest.fixture(scope="module")
def unbroken(job, tmp_path_factory):
    return done(*job, "--out", tmp_path_factory.mktemp("unbroken") / "run")


def done(*words) -> Path:
    said = limbeck(*words)
    assert said.code == 0, said.err
    return words[words.index("--out") + 1]


def weights(folder: Path) -> bytes:
    return (folder / "model.safetensors").read_bytes()


def shards(folder: Path) -> dict[str, int]:
    """What was translated, and when it was written down."""
    found = (folder / "teacher-cache" / "translations").glob("shard-*.jsonl")
    return {path.name: path.stat().st_mtime_ns for path in found}


def checksums(names: Iterable[str]) -> list[str]:
    """Of what the shards hold; their names also tell when they were written."""
    return sorted(name.rsplit("-", 1)[1] for name in names)


def checkpoint(folder: Path, step: str = "01"):
    return lambda: any(folder.glob(f"checkpoints-{step}/checkpoint-*/complete"))


def assert_same(folder: Path, unbroken: Path) -> None:
    """Timing apart."""
    assert weights(folder / "student") == weights(unbroken / "student")
    ours, theirs = Record.load(folder), Record.load(unbroken)
    for one, two in zip(ours.arms, theirs.arms, strict=True):
        assert [run.quality for run in one.runs] == [run.quality for run in two.runs]
        assert [run.best_step for run in one.runs] == [run.best_step for run in two.runs]
        assert [[(p.step, p.dev) for p in run.curve] for run in one.runs] == [
            [(p.step, p.dev) for p in run.curve] for run in two.runs
        ]
    assert ours.samples == theirs.samples
    assert ours.notes == theirs.notes
    assert not [name for name in files(folder) if re.search(r"checkpoint|\.part|\.lock|damaged|/step-", name)]


def test_a_student_killed_in_both_stages_ends_like_an_unbroken_one(job, unbroken, source, tmp_path):
    out = tmp_path / "run"
    cell = out / "arms" / "distilled-seed0"

    stop(start(*job, "--out", out), checkpoint(cell, "00"), signal.SIGKILL)
    assert not (cell / "step-00-main" / "done.json").exists()
    asked = shards(out)
    assert asked
    assert checksums(asked) == checksums(shards(unbroken))

    texts = source.read_bytes()
    source.write_bytes(b"the dog sleeps" + texts[texts.index(b"\n") :])
    try:
        said = limbeck("distill", "--resume", "--out", out)
    finally:
        source.write_bytes(texts)
    assert said.code == 2
    assert f"since {out} was started its data changed" in said.err
    assert "→ put the files back as they were" in said.err

    stop(start("distill", "--resume", "--out", out), checkpoint(cell), signal.SIGKILL)
    assert (cell / "step-00-main" / "done.json").exists()
    assert not (cell / "result.json").exists()

    done("distill", "--resume", "--out", out)
    assert shards(out) == asked, "what was translated is not asked again"
    assert_same(out, unbroken)


def program(folder: Path) -> tuple[str, Path, Path]:
    """A command that notes what it is asked, and in its second portion waits to be orphaned until `free` exists."""
    path, asked, free = folder / "translate.py", folder / "asked", folder / "free"
    path.write_text(
        f"import os, sys, time; sys.path.insert(0, {str(Path(__file__).parents[1])!r})\n"
        "from tongues import translate\n"
        "sources, parent = sys.stdin.buffer.read().decode().split('\\n')[:-1], os.getppid()\n"
        f"with open({str(asked)!r}, 'a') as log: log.writelines(source + '\\n' for source in [*sources, ''])\n"
        f"while len(sources) < 250 and not os.path.exists({str(free)!r}):\n"
        "    if os.getppid() != parent: sys.exit(1)\n"
        "    time.sleep(0.01)\n"
        "print(*map(translate, sources), sep='\\n')\n",
        encoding="utf-8",
    )
    return f"{sys.executable} {path}", asked, free


def portions(asked: Path) -> list[list[str]]:
    """The sources of every call."""
    text = asked.read_text(encoding="utf-8") if asked.exists() else ""
    return [part.split("\n") for part in text.split("\n\n")[:-1]]


def test_a_run_killed_while_its_teacher_translates(data, tmp_path):
    out = tmp_path / "run"
    command, asked, free = program(tmp_path)
    job = ("distill", *data, "--translate.command", command, *TINY, *BRIEF, "--epochs", 1, "--no-baseline")

    stop(start(*job, "--out", out), lambda: len(portions(asked)) == 2, signal.SIGKILL)
    before = shards(out)
    assert len(before) == 1
    assert not (out / "arms").exists()
    kept, lost = portions(asked)
    assert len(kept) == 256

    os.truncate(asked, 0)
    free.touch()
    done("distill", "--resume", "--out", out)
    again, *_ = portions(asked)
    assert again == lost, "only what was under way is asked again"
    assert not set(kept) & {source for portion in portions(asked) for source in portion}
    assert before.items() <= shards(out).items()
    assert_same(out, done(*job, "--out", tmp_path / "unbroken"))


def test_a_comparison_goes_on_cell_by_cell(knobs, unbroken, tmp_path):
    """And each of its cells is the one that `distill` would have made."""
    out = tmp_path / "run"
    plain, tuned = (out / "arms" / f"{name}-seed0" for name in ("finetune", RECIPE))
    columns = tmp_path / "columns.toml"
    columns.write_text(f'[columns."{RECIPE}".stages.interpolate]\nepochs = 2.0\n')
    job = ("compare", columns, "--recipes", f"finetune,{RECIPE}", *knobs, "--out", out)
    stop(start(*job), checkpoint(tuned, "00"), signal.SIGKILL)
    finished, asked = (plain / "result.json").stat().st_mtime_ns, shards(out)
    assert not (tuned / "result.json").exists()
    (plain / "checkpoints-00" / "checkpoint-1").mkdir(parents=True)  # as if it had been killed right after its result
    done(*job, "--resume")
    assert not [name for name in files(out) if "checkpoint" in name]
    assert not (plain / "checkpoints-00").exists()
    assert (plain / "result.json").stat().st_mtime_ns == finished, "a finished student is not trained again"
    assert shards(out) == asked
    assert weights(tuned / "model") == weights(unbroken / "student")
    found, wanted = Record.load(out).arm(RECIPE), Record.load(unbroken).arm("distilled")
    assert found.runs[0].quality == wanted.runs[0].quality
