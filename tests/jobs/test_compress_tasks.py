"""A tokenizer that changes in the middle of a run, for tasks other than texts: their rows are encoded anew too."""

import pytest
import torch
from transformers import AutoTokenizer, TrainerCallback

import limbeck
from limbeck.core.errors import KnobError, MismatchError
from tiny import make_tokenizer
from tiny_language import byte_level, make_causal, make_masked, make_text, save
from tiny_places import make_questions, make_reader, make_sentences, make_tagger
from tiny_reverser import make_marian
from tiny_reverser import make_tokenizer as make_words
from tiny_sources import make_sources, mirrored

pytestmark = pytest.mark.slow
MEASURE = {"speed": False, "bootstrap": 100, "examples": 0}


def make(kind):
    """Model, tokenizer, rows, and knobs; some words of each vocabulary stand in no row."""
    if kind == "tag":
        return make_tagger(), make_tokenizer(), [row for row in make_sentences(240) if "of" not in row["tokens"]], {}
    if kind == "answer":
        rows = [row for row in make_questions(360) if "of" not in row["context"].split()]
        return make_reader(), make_tokenizer(), rows, {}
    if kind == "translate":
        sources = [source for source in make_sources(120) if source]
        rows = [{"source": source, "target": mirrored(source)} for source in sources]
        words = [*dict.fromkeys(" ".join(sources).split()), "never", "said"]
        return make_marian(words), make_words(words), rows, {"translate": {"test_beam": 1}}
    tokenizer = byte_level() if kind == "generate" else make_tokenizer()
    network = make_causal(tokenizer) if kind == "generate" else make_masked()
    return network, tokenizer, [{"text": text} for text in make_text()], {"blocks": {"length": 16}}


@pytest.mark.parametrize("kind", ["tag", "answer", "mask-fill", "generate", "translate"])
def test_a_trimmed_model_is_measured_on_its_rows_in_its_own_tokens(kind, tmp_path):
    network, tokenizer, rows, knobs = make(kind)
    folder = save(network, tokenizer, tmp_path / "model")
    found = limbeck.compress(folder, "vocabulary", data=rows, task=kind, out=tmp_path / "out", measure=MEASURE, **knobs)
    start, trimmed = found.record.artifacts
    assert (start.step, trimmed.step) == ("start", "vocabulary")
    assert trimmed.size.parameters < start.size.parameters
    assert len(found.tokenizer) < len(tokenizer)
    assert trimmed.quality.keys() == start.quality.keys()
    if kind in ("tag", "answer"):  # every word of these rows is kept, and no other was ever predicted
        assert trimmed.quality == pytest.approx(start.quality, rel=1e-4)
        assert trimmed.figures["agreement"] == 1.0
    if kind == "translate":
        assert trimmed.quality["bleu"] == pytest.approx(start.quality["bleu"], abs=5)


class Stop(TrainerCallback):
    """Ends a run in its first training, as Ctrl-C does."""

    def on_step_end(self, *_, **__):
        raise KeyboardInterrupt


def recovered(folder, rows, out, **knobs):
    """A lossless copy of the teacher, which then learns from it."""
    train = {"epochs": 1, "batch_size": 16, "learning_rate": 1e-4, "evals_per_epoch": 1}
    knobs = {"recover": "vocabulary", "train": train, "measure": MEASURE, **knobs}
    return limbeck.compress(folder, "vocabulary", data=rows, teacher="self", out=out, **knobs)


def losses(found):
    """Of the first steps."""
    return found.record.arm("compressed").runs[0].curve[0].terms


def make_sure(kind, folder):
    """A teacher that is sure of its answers, without dropout."""
    network, tokenizer, rows, knobs = make(kind)
    for weight in network.parameters():
        weight.data *= (4.0 if kind == "translate" else 20.0) if weight.dim() > 1 else 1.0
    for name in network.config.to_dict():
        if "dropout" in name or name.endswith("pdrop"):
            setattr(network.config, name, 0.0)
    return save(network, tokenizer, folder), rows, knobs


@pytest.mark.parametrize("live", [True, False])
@pytest.mark.parametrize("kind", ["mask-fill", "generate", "translate"])
def test_a_trimmed_model_learns_the_teachers_tokens_under_their_new_numbers(kind, live, tmp_path):
    """A copy of the teacher has nothing to learn; a cache also knows of the mass that went."""
    folder, rows, knobs = make_sure(kind, tmp_path / "model")
    knobs |= {"objective": {"word-kd": {}} if live else {"truncated": {"k": 5}}, "teacher_cache": {"live": live}}
    knobs |= {"translate": {"test_beam": 1, "targets": "gold"}} if kind == "translate" else {"hidden": 0.0}
    found = recovered(folder, rows, tmp_path / "out", task=kind, **knobs)
    assert len(found.tokenizer) < len(AutoTokenizer.from_pretrained(folder))
    if live:
        assert losses(found)["word"] == pytest.approx(0, abs=1e-6)
    else:
        assert abs(losses(found)["truncated"]) < 0.35  # the mass that went; under wrong numbers 0.55 and more
        assert (tmp_path / "out" / "teacher-cache").exists()


def test_a_trimmed_translator_learns_the_teachers_translations_and_a_stopped_run_goes_on(tmp_path):
    folder, rows, _ = make_sure("translate", tmp_path / "model")
    anything = {"longest": 6, "cut": True, "ratio": 100.0, "copies": True}
    knobs = {"task": "translate", "translate": {"test_beam": 1, "targets": "beam", **anything}}
    whole = recovered(folder, rows, tmp_path / "whole", **knobs)
    with pytest.raises(KeyboardInterrupt):
        recovered(folder, rows, tmp_path / "cut", callbacks=[Stop()], **knobs)
    assert (tmp_path / "cut" / "arms" / "compressed-seed0" / "step-00-apply" / "done.json").exists()
    found = recovered(folder, rows, tmp_path / "cut", resume=True, **knobs)
    ours, theirs = (run.student.state_dict() for run in (found, whole))
    assert all(torch.equal(value, theirs[name]) for name, value in ours.items())


def test_a_decoder_that_starts_with_a_token_of_its_own_is_refused(tmp_path):
    """One that only the model's config knows."""
    network, tokenizer, rows, _ = make("translate")
    network.resize_token_embeddings(len(tokenizer) + 4)
    network.config.decoder_start_token_id = network.generation_config.decoder_start_token_id = len(tokenizer) + 2
    folder = save(network, tokenizer, tmp_path / "model")
    knobs = {"task": "translate", "objective": {"word-kd": {}}, "translate": {"test_beam": 1, "targets": "gold"}}
    with pytest.raises(MismatchError, match=f"hold the token {len(tokenizer) + 2}, which the tokenizer") as caught:
        recovered(folder, rows, tmp_path / "out", teacher_cache={"live": True}, **knobs)
    assert "put the pass 'vocabulary' last" in caught.value.remedy


def test_tokens_that_are_split_otherwise_are_not_learnt_from_the_teacher(tmp_path):
    folder, rows, knobs = make_sure("mask-fill", tmp_path / "model")
    with pytest.raises(KnobError, match="splits texts otherwise") as caught:
        recovered(folder, rows, tmp_path / "out", task="mask-fill", vocabulary={"mode": "aggressive"}, **knobs)
    assert "--vocabulary.mode lossless" in caught.value.remedy
    assert not (tmp_path / "out" / "arms").exists()
