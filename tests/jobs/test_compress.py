"""A chain of passes as a run: each is measured, tokenizer and shapes may change, and a kill loses nothing."""

import signal
import sys

import pytest
import torch
from safetensors.torch import load_file
from transformers import AutoModelForSequenceClassification, AutoTokenizer

import chains
import forked
import limbeck
from limbeck import Magnitude, Quantize
from limbeck.core.errors import KnobError, MismatchError
from limbeck.core.record import Record
from limbeck.jobs.compress_settings import CompressRun
from limbeck.jobs.settings import read_run, write_run

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def home(tmp_path_factory):
    folder = tmp_path_factory.mktemp("chain")
    chains.make(folder)
    return folder


@pytest.fixture(scope="module")
def whole(home):
    return chains.chain(home, home / "out", export="onnx-int8")


def weights(folder):
    return load_file(folder / "model" / "model.safetensors")


def same(one, other):
    ours, theirs = weights(one), weights(other)
    return ours.keys() == theirs.keys() and all(torch.equal(ours[name], theirs[name]) for name in ours)


def test_every_pass_and_every_recovery_is_an_artifact_measured_on_test(home, whole):
    record = whole.record
    assert record.kind == "compress"
    assert [made.step for made in record.artifacts] == ["start", "vocabulary", "lowrank", "recovery", "quantize", ""]
    start, trimmed, factored, recovered, quantized, _ = record.artifacts
    for made in record.artifacts[:5]:
        assert (made.engine, made.arm) == ("torch", "compressed")
        assert 0 <= made.quality["accuracy"] <= 1
        assert limbeck.predict(home / "out" / made.path, ["a lovely film"])[0]["label"] in ("negative", "positive")
    assert [made.precision for made in record.artifacts[:5]] == ["float32"] * 4 + ["int8"]
    assert (trimmed.comparison.better, trimmed.comparison.than) == (trimmed.name, start.name)
    assert trimmed.comparison.difference == 0
    assert trimmed.quality == pytest.approx(start.quality)  # the words that went stand in no row
    assert trimmed.figures["agreement"] == 1.0
    parameters = [made.size.parameters for made in (start, trimmed, factored)]
    assert parameters == sorted(parameters, reverse=True)
    assert quantized.size.bytes_on_disk < recovered.size.bytes_on_disk == factored.size.bytes_on_disk
    assert min(trimmed.seconds, factored.seconds, recovered.seconds, quantized.seconds) > 0
    assert "layers factored" in factored.note
    assert record.arm("compressed").size == quantized.size
    assert record.arm("compressed").runs[0].quality == quantized.quality
    assert record.arm("teacher").runs[0].quality == start.quality
    assert Record.load(home / "out").artifacts == record.artifacts


def test_the_saved_model_has_the_new_tokenizer_and_an_ordinary_one_opens_with_transformers(home, whole):
    assert "tired" not in whole.tokenizer.get_vocab()
    assert len(whole.tokenizer) == whole.student.config.vocab_size
    folder = home / "out" / whole.record.artifacts[1].path
    tokenizer, model = AutoTokenizer.from_pretrained(folder), AutoModelForSequenceClassification.from_pretrained(folder)
    assert len(tokenizer) == model.get_input_embeddings().num_embeddings == len(whole.tokenizer)


def test_the_export_is_measured_where_it_runs_and_answers_new_texts(home, whole):
    made = whole.record.artifacts[-1]
    assert (made.name, made.engine, made.precision) == ("onnx-int8", "ONNX Runtime", "int8")
    assert made.path == "export/onnx-int8"
    assert made.quality.keys() >= {"accuracy", "nll"}
    files = [file for file in (home / "out" / made.path).iterdir() if file.is_file()]
    assert made.size.bytes_in_all == sum(file.stat().st_size for file in files)
    assert (made.comparison.better, made.comparison.than) == ("onnx-int8", "compressed")
    assert limbeck.predict(home / "out" / made.path, ["a lovely film"])[0]["label"] in ("negative", "positive")


def test_its_run_file_reads_back_as_the_same_run_and_a_finished_one_does_nothing_again(home, whole):
    file = home / "out" / "run.toml"
    table = read_run(file)
    run = CompressRun(**table)
    assert write_run(run) == file.read_text()
    assert table["lowrank"]["ratio"] == 0.5
    assert not {"student", "student_from", "recipe", "baseline", "magnitude"} & table.keys()
    before = weights(home / "out")
    again = limbeck.compress(run=run.but(export=""), resume=True)
    assert [one.quality for one in again.record.artifacts] == [one.quality for one in whole.record.artifacts[:-1]]
    assert all(torch.equal(before[name], value) for name, value in weights(home / "out").items())


def test_killed_in_the_recovery_it_ends_with_the_same_weights(home, whole, tmp_path):
    """The step folders hold the shorter tables, the factors, and the tokenizer that belongs to them."""
    child = forked.run([sys.executable, chains.__file__, str(home), str(tmp_path / "cut"), "2"])
    assert child.returncode == -signal.SIGKILL, child.stderr.decode()
    begun = tmp_path / "cut" / "arms" / "compressed-seed0"
    assert (begun / "step-01-apply" / "done.json").exists()
    assert list(begun.glob("checkpoints-02/checkpoint-*"))
    found = chains.chain(home, tmp_path / "cut", resume=True)
    assert same(tmp_path / "cut", home / "out")
    parts = {"quality", "size", "comparison", "step", "note", "figures"}
    ours, theirs = ([one.model_dump(include=parts) for one in run.record.artifacts[:5]] for run in (found, whole))
    assert ours == theirs


def test_a_pass_sees_training_rows_as_batches_and_texts_and_held_out_texts(home, tmp_path, monkeypatch):
    seen, apply = [], Quantize.apply

    def looking(self, model, mask, calibration):
        seen.append(calibration)
        return apply(self, model, mask, calibration)

    monkeypatch.setattr(Quantize, "apply", looking)
    found = chains.chain(home, tmp_path / "out", "vocabulary,quantize", teacher="")
    (one,), splits = seen, found.record.data.splits
    assert sum(len(batch.uids) for batch in one.batches) == min(256, splits["train"].rows)
    assert (len(one.texts), len(one.held_out)) == (splits["train"].rows, splits["dev"].rows)
    assert one.texts[0] == one.texts[0][:1]  # no pair
    assert "tired" not in one.processor.get_vocab()  # of the pass before
    assert found.record.arm("compressed").objective == ""  # without a teacher nothing is trained


def test_passes_of_python_are_the_same_as_names_and_tables(home, tmp_path):
    chains.chain(home, tmp_path / "a", "magnitude", teacher="", magnitude={"fraction": 0.5})
    chains.chain(home, tmp_path / "b", [Magnitude(0.5)], teacher="")
    assert same(tmp_path / "a", tmp_path / "b")


def test_rows_that_are_other_pieces_afterwards_forbid_outputs_per_token(home, tmp_path):
    """Hidden states are left out by themselves; asked for by name, they are refused with the remedy."""
    rare = {"mode": "aggressive", "min_count": 30}
    found = chains.chain(home, tmp_path / "a", "vocabulary", vocabulary=rare)
    assert found.record.arm("compressed").objective == "0.5 * Labels() + 0.5 * SoftTargets(temperature=4.0)"
    terms = {"tinybert": {"weight": 1.0, "attention": 0.0}}
    with pytest.raises(MismatchError, match="training rows are other pieces of text") as caught:
        chains.chain(home, tmp_path / "b", "vocabulary", vocabulary=rare, objective=terms)
    assert "--objective.tinybert.weight 0" in caught.value.remedy


def test_a_teacher_that_runs_at_every_step_is_refused_before_the_first_one(home, tmp_path):
    with pytest.raises(KnobError, match="runs the teacher at every step"):
        chains.chain(home, tmp_path / "out", teacher_cache={"live": True})
    assert not (tmp_path / "out" / "arms").exists()
