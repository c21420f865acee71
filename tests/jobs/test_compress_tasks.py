"""A tokenizer that changes in the middle of a run, for tasks other than texts: their rows are encoded anew too."""

import pytest

import limbeck
from limbeck.core.errors import KnobError
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


def test_a_language_model_learns_the_teachers_tokens_before_they_change_not_behind(tmp_path):
    network, tokenizer, rows, knobs = make("mask-fill")
    folder = save(network, tokenizer, tmp_path / "model")
    with pytest.raises(KnobError, match="learns the teacher's tokens") as caught:
        limbeck.compress(
            folder, "vocabulary,magnitude", data=rows, task="mask-fill", teacher="self", out=tmp_path / "out", **knobs
        )
    assert caught.value.remedy == "put that pass last, behind every training"
    assert not (tmp_path / "out" / "arms").exists()
