"""Sources without targets beside pairs, or alone: translated, learnt, told in reports; killed and resumed; refused."""

import json
import re
import signal

import pytest

from limbeck.core.record import Record
from limbeck.data.uids import source_uids
from running import files, finish, limbeck, start, stop
from tongues import BRIEF, TUNE, run, sentences, tiny, translate, write_pairs

ROWS = 300
LEARN = (*BRIEF, *TUNE, "--epochs", 2, "--translate.beam", 2, "--translate.test-beam", 2)
RECIPE = "seq-kd+seq-inter"


@pytest.fixture(scope="module")
def pairs(tmp_path_factory):
    return write_pairs(tmp_path_factory.mktemp("pairs"), ROWS)


@pytest.fixture(scope="module")
def data(pairs):
    return ("--task", "translate", "--data", pairs, "--target", pairs.with_suffix(".de"))


@pytest.fixture(scope="module")
def new(pairs):
    """None like another, nor like one of the pairs."""
    known = {*pairs.read_text(encoding="utf-8").splitlines()}
    return list(dict.fromkeys(text for text in sentences(200, seed=9) if text not in known))


@pytest.fixture(scope="module")
def mono(pairs, new, tmp_path_factory):
    """With sources that are known."""
    path = tmp_path_factory.mktemp("mono") / "mono.en"
    path.write_text("\n".join(new) + "\n" + pairs.read_text(encoding="utf-8"), encoding="utf-8")
    return path


@pytest.fixture(scope="module")
def teacher(data, tmp_path_factory):
    out = tmp_path_factory.mktemp("made") / "teacher"
    run("train", *data, *tiny(1), *BRIEF, *TUNE, "--epochs", 12, "--out", out)
    return out / "model"


@pytest.fixture(scope="module")
def command(teacher, data, mono):
    return ("distill", "--recipe", RECIPE, "--teacher", teacher, *data, "--unlabelled", mono, *LEARN)


@pytest.fixture(scope="module")
def job(command, tmp_path_factory):
    out = tmp_path_factory.mktemp("unlabelled") / "run"
    return out, run(*command, "--out", out)


def test_every_source_says_what_it_gave(job, new):
    folder, said = job
    record = Record.load(folder)
    given, bare = record.data.sources
    assert (given.read, given.used, given.gives) == (ROWS, ROWS, "train, dev, test")
    assert (bare.read, bare.used) == (len(new) + ROWS, len(new))
    assert bare.dropped.keys() >= {"also in test", "also in dev", "also in train"}
    assert sum(bare.dropped.values()) == ROWS
    splits = record.data.splits
    assert splits["train"].rows - splits["train"].labelled == len(new)
    assert sum(split.labelled for split in splits.values()) == ROWS
    for place in (said.err, (folder / "report.html").read_text(), (folder / "student" / "README.md").read_text()):
        assert f"{len(new)} of {len(new) + ROWS} rows for the teacher to answer" in re.sub(r"\\", "", place)


def test_the_teacher_translates_all_and_references_serve_where_there_are_any(job, new):
    """The stage that looks for the closest translations, and the student without a teacher, need a reference."""
    folder, _ = job
    record = Record.load(folder)
    train = record.data.splits["train"]
    notes = " ".join(record.notes)
    assert f"of the teacher's {train.rows} best translations are learnt from" in notes
    assert f"of the teacher's {train.labelled} translations closest to the given targets are learnt from" in notes
    assert f"{len(new)} rows have no target" in notes
    shards = (path.read_text(encoding="utf-8") for path in folder.glob("teacher-cache/translations/*.jsonl"))
    translated = {json.loads(line)["uid"] for shard in shards for line in shard.splitlines()}
    assert translated >= {*source_uids(new).tolist()}


@pytest.mark.slow
def test_a_run_killed_twice_ends_with_the_same_weights(command, job, tmp_path):
    out = tmp_path / "run"
    arms = out / "arms"
    stop(start(*command, "--out", out), lambda: any(out.glob("teacher-cache/translations/shard-*")), signal.SIGKILL)
    stop(
        start(*command, "--out", out, "--resume"),
        lambda: bool(list(arms.glob("distilled*/checkpoints*/*/complete"))),
        signal.SIGKILL,
    )
    said = finish(start(*command, "--out", out, "--resume"))
    assert said.code == 0, said.err
    for weights in ("student/model.safetensors", "arms/plain-seed0/model/model.safetensors"):
        assert (out / weights).read_bytes() == (job[0] / weights).read_bytes()
    assert Record.load(out).data == Record.load(job[0]).data
    assert not [name for name in files(out) if "checkpoint" in name or ".part" in name]


def test_sources_alone_are_learnt_from_where_dev_and_test_have_targets(teacher, new, tmp_path):
    (tmp_path / "mono.en").write_text("\n".join(new) + "\n", encoding="utf-8")
    held_out = tmp_path / "held.tsv"
    rows = [f"{source}\t{translate(source)}" for source in dict.fromkeys(sentences(60, seed=4)) if source not in new]
    held_out.write_text("\n".join(["source\ttarget", *rows]) + "\n", encoding="utf-8")
    words = ("distill", "--task", "translate", "--teacher", teacher, "--unlabelled", tmp_path / "mono.en", *LEARN)
    run(*words, "--data.dev", held_out, "--data.test", held_out, "--out", tmp_path / "run")
    record = Record.load(tmp_path / "run")
    assert [arm.name for arm in record.arms] == ["teacher", "distilled"]
    assert (record.data.splits["train"].rows, record.data.splits["train"].labelled) == (len(new), 0)
    assert record.arm("distilled").mean("bleu") > 0


# Refused before the first step


@pytest.mark.parametrize(
    ("words", "said", "remedy"),
    [
        (("--unlabelled", "./nowhere.en"), "there is no file nowhere.en", ""),
        (("--unlabelled", "empty.en"), "empty.en is empty", ""),
        (("--unlabelled", "known.en"), "no source of it is new", "give other sources"),
        (("--unlabelled", "test.tsv", "--data.test", "test.tsv"), "--unlabelled and --data.test are the same file", ""),
        (("--unlabelled", "more.en", "--recipe", "word-kd"), "asks the teacher for what they lack", "--recipe seq-kd"),
        (("--unlabelled", "more.en", "--recipe", "finetune"), "asks the teacher for what", "--recipe seq-kd"),
        (("--unlabelled", "more.en", "--recipe", "seq-inter"), "asks the teacher for what", "--recipe seq-kd"),
    ],
)
def test_bad_input(teacher, data, pairs, tmp_path, monkeypatch, words, said, remedy):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "empty.en").write_text("\n")
    (tmp_path / "more.en").write_text("the big red dog jumps and jumps and jumps\n")
    (tmp_path / "known.en").write_bytes(pairs.read_bytes())
    (tmp_path / "test.tsv").write_text("source\ttarget\nthe dog\tder hund\n")
    found = limbeck("distill", "--teacher", teacher, *data, "--out", "run", *LEARN, *words)
    assert found.code == 2
    assert said in " ".join(found.err.split())
    assert remedy in found.err
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize("verb", ["train", "eval"])
def test_verbs_without_a_teacher_refuse_it(teacher, data, mono, tmp_path, verb):
    model = ("--model", teacher, "--out", tmp_path / "run") if verb == "train" else (teacher,)
    found = limbeck(verb, *model, *data, "--data.unlabelled", mono)
    assert found.code == 2
    assert "nobody answers them here" in " ".join(found.err.split())
