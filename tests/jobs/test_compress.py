"""A chain of passes as a run: each is measured, tokenizer and shapes may change, and a kill loses nothing."""

import json
import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file
from transformers import AutoModelForSequenceClassification, AutoTokenizer

import limbeck
import trimming
from limbeck.core.errors import KnobError, MismatchError
from limbeck.core.record import Record
from limbeck.jobs.compress_settings import CompressRun
from limbeck.jobs.settings import read_run, write_run
from limbeck.passes.magnitude import Magnitude

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def home(tmp_path_factory):
    folder = tmp_path_factory.mktemp("chain")
    trimming.make(folder)
    return folder


@pytest.fixture(scope="module")
def whole(home):
    return trimming.chain(home)


def steps(record):
    return [artifact.step for artifact in record.artifacts]


def test_every_pass_and_every_recovery_is_an_artifact_measured_on_test(home, whole):
    record = whole.record
    assert record.kind == "compress"
    assert steps(record) == ["start", "trim", "magnitude", "recovery"]
    for artifact in record.artifacts:
        assert artifact.engine == "torch"
        assert 0 <= artifact.quality["accuracy"] <= 1
        folder = home / "out" / artifact.path
        files = [file for file in folder.iterdir() if file.suffix != ".md"]
        assert artifact.size.bytes_in_all == sum(file.stat().st_size for file in files)
    start, trim, pruned, recovered = record.artifacts
    assert trim.figures["agreement"] == 1.0  # the words that went stand in no row
    assert trim.quality == start.quality
    assert trim.size.parameters < start.size.parameters
    assert (trim.comparison.better, trim.comparison.than) == (trim.name, start.name)
    assert trim.comparison.difference == 0
    assert re.fullmatch(r"\d+ of 36 pieces are kept\.", trim.note)
    assert "weights remain" in pruned.note
    assert recovered.seconds > 0
    assert record.arm("compressed").size == recovered.size
    assert record.arm("compressed").runs[0].quality == recovered.quality
    assert Record.load(home / "out") == record


def test_a_pass_sees_training_rows_as_batches_and_texts_and_held_out_texts(whole):
    card, figures = whole.record.data, whole.record.artifacts[1].figures
    assert figures["texts"] == card.splits["train"].rows
    assert figures["held_out"] == card.splits["dev"].rows
    assert figures["batches"] == -(-min(256, card.splits["train"].rows) // 32)


def test_the_saved_model_has_the_new_tokenizer_and_opens_with_transformers(home, whole):
    folder = home / "out" / "model"
    tokenizer = AutoTokenizer.from_pretrained(folder)
    model = AutoModelForSequenceClassification.from_pretrained(folder)
    assert "tired" not in tokenizer.get_vocab()
    assert len(tokenizer) == model.config.vocab_size == model.get_input_embeddings().num_embeddings
    answers = limbeck.predict(folder.parent, ["a lovely film"])
    with torch.no_grad():
        logits = model(**tokenizer("a lovely film", return_tensors="pt")).logits[0]
    assert answers[0]["label"] == model.config.id2label[int(logits.argmax())]
    assert len(whole.tokenizer) == len(tokenizer)


def test_its_run_file_reads_back_as_the_same_run(home, whole):
    table = read_run(home / "out" / "run.toml")
    run = CompressRun(**table)
    assert run.trim.drop == 0
    assert "student" not in table
    assert write_run(run) == (home / "out" / "run.toml").read_text()
    again = limbeck.compress(run=run, resume=True)  # finished: nothing is done again
    assert [one.quality for one in again.record.artifacts] == [one.quality for one in whole.record.artifacts]


@pytest.mark.parametrize(("kill", "done"), [(2, "step-01-apply")])
def test_killed_in_the_recovery_it_ends_with_the_same_weights(home, whole, tmp_path, kill, done):
    """The step folders hold the shorter tables and the tokenizer that belongs to them."""
    here = str(Path(trimming.__file__).parent)
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([here, *sys.path])}
    settings = json.dumps({"out": str(tmp_path / "cut"), "kill": kill})
    command = [sys.executable, trimming.__file__, str(home), settings]
    child = subprocess.run(command, env=environment, capture_output=True, timeout=300)
    assert child.returncode == -signal.SIGKILL, child.stderr.decode()
    begun = tmp_path / "cut" / "arms" / "compressed-seed0"
    assert (begun / done / "done.json").exists()
    found = trimming.chain(home, tmp_path / "cut", resume=True)
    ours, theirs = (load_file(folder / "model" / "model.safetensors") for folder in (tmp_path / "cut", home / "out"))
    assert ours.keys() == theirs.keys()
    assert all(torch.equal(ours[name], theirs[name]) for name in ours)
    parts = ("quality", "comparison", "step", "note", "figures")
    mine, whole_ones = ([one.model_dump(include=set(parts)) for one in r.record.artifacts] for r in (found, whole))
    assert mine == whole_ones


def test_without_a_teacher_nothing_is_trained_and_the_model_is_compared_with_itself(home, tmp_path):
    found = trimming.chain(home, tmp_path / "out", passes="magnitude", teacher="", recover="none")
    assert steps(found.record) == ["start", "magnitude"]
    assert found.record.arm("teacher").runs[0].quality == found.record.artifacts[0].quality
    assert found.record.artifacts[0].figures["agreement"] == 1.0
    assert not list((tmp_path / "out" / "arms").glob("*/checkpoints*"))
    assert found.record.arm("compressed").objective == ""


def test_passes_of_python_are_the_same_as_names_and_tables(home, tmp_path):
    knobs = {"teacher": "", "recover": "none"}
    named = trimming.chain(home, tmp_path / "a", passes="magnitude", magnitude={"fraction": 0.5}, **knobs)
    given = trimming.chain(home, tmp_path / "b", passes=[Magnitude(0.5)], **knobs)
    ours, theirs = (load_file(tmp_path / name / "model" / "model.safetensors") for name in "ab")
    assert all(torch.equal(ours[name], theirs[name]) for name in ours)
    assert named.record.artifacts[-1].note == given.record.artifacts[-1].note


def test_words_that_go_though_texts_hold_them_forbid_outputs_per_token(home, tmp_path):
    """Hidden states are left out by themselves; asked for by name, they are refused with the remedy."""
    found = trimming.chain(home, tmp_path / "out", passes="trim", trim={"drop": 3}, recover="trim")
    assert "TinyBERT" not in found.record.arm("compressed").objective
    terms = {"tinybert": {"weight": 1.0, "attention": 0.0}}
    with pytest.raises(MismatchError, match="training rows are other pieces of text") as caught:
        trimming.chain(home, tmp_path / "b", passes="trim", trim={"drop": 3}, recover="trim", objective=terms)
    assert "--objective.tinybert.weight 0" in caught.value.remedy


def test_a_teacher_that_runs_at_every_step_is_refused_before_the_first_one(home, tmp_path):
    with pytest.raises(KnobError, match="runs the teacher at every step"):
        trimming.chain(home, tmp_path / "out", teacher_cache={"live": True})
    assert not (tmp_path / "out" / "arms").exists()
