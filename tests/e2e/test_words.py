"""Language models through the command line: from a bare encoder to a student that fine-tunes."""

import json

import pytest
import torch
from transformers import (
    AutoModelForCausalLM,
    AutoModelForMaskedLM,
    BertForPreTraining,
    DistilBertForMaskedLM,
    LlamaConfig,
    LlamaForCausalLM,
)

from limbeck.core.record import Record
from limbeck.students.load import load
from running import BLOCKS, QUICK, WORDS, limbeck
from tiny import VOCABULARY, make_tokenizer
from tiny_language import byte_level, make_causal, make_masked, make_text, save


def distill(out, *more, task="mask-fill"):
    said = limbeck("distill", "--task", task, "--out", out, *WORDS, *more)
    assert said.code == 0, said.err
    assert "Traceback" not in said.err
    return Record.load(out), said


def test_an_encoder_without_a_head_becomes_a_masked_language_model(filled, bare):
    out, said = filled
    model = AutoModelForMaskedLM.from_pretrained(out / "model")
    assert model.get_output_embeddings().weight is model.get_input_embeddings().weight
    record = Record.load(out)
    run = record.arms[0].runs[0]
    assert run.quality["perplexity"] < len(VOCABULARY) / 2
    assert run.quality.keys() == {"perplexity", "token_nll", "token_accuracy", "token_ece"}
    assert record.metric == "perplexity"
    assert min(p.dev["perplexity"] for p in run.curve if p.dev) < run.curve[0].dev.get("perplexity", len(VOCABULARY))
    assert "perplexity" in said.out
    assert (out / "report.html").stat().st_size > 5000


def test_sentence_pairs_train_both_heads(tmp_path, bare, corpus):
    out = tmp_path / "run"
    said = limbeck(
        "train", "--task", "mask-fill", "--blocks.pairs", "--model", bare, "--data", corpus, "--out", out, *WORDS
    )
    assert said.code == 0, said.err
    model, info = BertForPreTraining.from_pretrained(out / "model", output_loading_info=True)
    assert not info["missing_keys"]
    assert not info["unexpected_keys"]
    assert model.get_output_embeddings().weight is model.get_input_embeddings().weight
    terms = [point.terms for point in Record.load(out).arms[0].runs[0].curve if point.terms]
    assert all(term.keys() == {"language", "next"} for term in terms)
    # And it teaches, with pairs and without.
    record, _ = distill(tmp_path / "a", "--teacher", out / "model", "--data", corpus, "--blocks.pairs", "--no-baseline")
    assert record.arm("distilled").runs[0].quality["perplexity"] > 1
    distill(tmp_path / "b", "--teacher", out / "model", "--data", corpus, "--no-baseline")


def test_without_a_head_there_is_nothing_to_learn_from(tmp_path, bare, corpus):
    said = limbeck(
        "distill", "--task", "mask-fill", "--teacher", bare, "--data", corpus, "--out", tmp_path / "x", *WORDS
    )
    assert said.code == 2
    assert "has no masked language-model head" in said.err
    assert "limbeck train --task mask-fill" in said.err


@pytest.fixture(scope="module")
def live(tmp_path_factory, masked, corpus):
    out = tmp_path_factory.mktemp("live") / "run"
    return out, *distill(
        out, "--teacher", masked, "--data", corpus, "--teacher-cache.live", "--objective.truncated.k", 8
    )


def test_a_live_teacher(live):
    out, record, _said = live
    assert [arm.name for arm in record.arms] == ["teacher", "plain", "distilled"]
    assert record.arm("distilled").shape.layers == 2
    for name in ("plain", "distilled"):
        run = record.arm(name).runs[0]
        assert run.fidelity.divergence > 0
        assert 0 <= run.fidelity.agreement <= 1
    assert record.comparisons[0].metric == "perplexity"
    assert "test blocks" in record.comparisons[0].sentence
    assert not (out / "teacher-cache").exists()
    student, tokenizer = load(out / "student", "mask-fill")
    assert student.config.num_hidden_layers == 2
    assert tokenizer.get_vocab() == make_tokenizer().get_vocab()
    assert "perplexity" in (out / "student" / "README.md").read_text()
    terms = next(point.terms for point in record.arm("distilled").runs[0].curve if point.terms)
    assert terms.keys() == {"language", "truncated"}


def test_asked_once_it_ends_as_asked_at_every_step(live, masked, corpus, tmp_path):
    _, other, _ = live
    record, _ = distill(tmp_path / "run", "--teacher", masked, "--data", corpus, "--top", 8)
    assert record.figures["cache_bytes_per_token"] > 0
    assert record.arm("plain").runs[0].quality == other.arm("plain").runs[0].quality
    a, b = (one.arm("distilled").runs[0].quality["perplexity"] for one in (record, other))
    assert a == pytest.approx(b, rel=5e-3)
    assert any("8 most probable tokens" in note for note in record.notes)


def test_the_teacher_is_gone(kept, masked, corpus, tmp_path):
    """Its answers and a student to start from are enough, and give what they give beside it."""
    start = save(make_masked(layers=2, seed=9), make_tokenizer(), tmp_path / "start")
    given = ("--student-from", start, "--data", corpus, "--cache", kept[0])
    before = {path.name: path.read_bytes() for path in kept[0].glob("shard-*")}
    gone, _said = distill(tmp_path / "gone", *given)
    there, _ = distill(tmp_path / "there", *given, "--teacher", masked)
    assert [arm.name for arm in gone.arms] == ["plain", "distilled"]
    assert any("Only cached teacher outputs were available" in note for note in gone.notes)
    assert gone.arm("distilled").runs[0].quality == there.arm("distilled").runs[0].quality
    assert gone.knobs["mask"]["rounds"] == 2
    assert {path.name: path.read_bytes() for path in kept[0].glob("shard-*")} == before, "nothing was asked"


@pytest.fixture(scope="module")
def distilled(masked, corpus, tmp_path_factory):
    out = tmp_path_factory.mktemp("distilbert") / "run"
    return out, *distill(out, "--teacher", masked, "--data", corpus, "--recipe", "distilbert")


def test_the_distilbert_recipe(distilled):
    out, record, _said = distilled
    student = AutoModelForMaskedLM.from_pretrained(out / "student")
    assert isinstance(student, DistilBertForMaskedLM)
    assert student.config.n_layers == 2
    assert record.knobs["mask"]["kind"] == "rare"
    assert record.knobs["mask"]["ask"] == "all"
    assert record.knobs["objective"]["word-kd"] == {"weight": 5.0, "temperature": 2.0, "reverse": 0.0, "skew": 0.0}
    terms = next(point.terms for point in record.arm("distilled").runs[0].curve if point.terms)
    assert terms.keys() == {"language", "word", "cosine"}
    assert any("runs at every step" in note for note in record.notes)
    assert any("Sanh" in citation.text for citation in record.citations)


def test_the_student_fine_tunes_with_the_main_job(distilled, live, reviews, tmp_path):
    for number, (run, architecture) in enumerate(((distilled, "distilbert"), (live, "bert"))):
        out = tmp_path / str(number)
        said = limbeck("train", "--model", run[0] / "student", "--data", reviews, "--out", out / "fit", *QUICK)
        assert said.code == 0, said.err
        record = Record.load(out / "fit")
        assert record.arms[0].shape.architecture == architecture
        assert record.metric == "accuracy"
    # And what was fine-tuned is a teacher of the main job.
    said = limbeck("distill", "--teacher", out / "fit" / "model", "--data", reviews, "--out", out / "small", *QUICK)
    assert said.code == 0, said.err


def test_eval_measures_a_language_model(live, masked, corpus, tmp_path):
    said = limbeck(
        *("eval", live[0] / "student", "--task", "mask-fill", "--teacher", masked, "--data", corpus),
        *(*BLOCKS, "--out", tmp_path / "x"),
    )
    assert said.code == 0, said.err
    assert "perplexity" in said.out


def test_causal_models_with_padding_as_the_end_of_text(causal, corpus, tmp_path):
    """The end of a text is learnt though it is the padding too; three rows of padding in the vocabulary are cut."""
    record, _ = distill(tmp_path / "run", "--teacher", causal, "--data", corpus, task="generate")
    assert record.task.vocab_size == len(byte_level())
    student, tokenizer = load(tmp_path / "run" / "student", "generate")
    assert student.config.n_layer == 1
    assert student.get_output_embeddings().weight.shape[0] == len(tokenizer) + 3
    assert record.arm("distilled").runs[0].fidelity.divergence > 0
    with torch.no_grad():
        answer = student.generate(**tokenizer("the film", return_tensors="pt"), max_new_tokens=3, do_sample=False)
    assert answer.shape[1] > 2


def test_chats(causal, tmp_path):
    chats = [
        {"messages": [{"role": "user", "content": f"what of film {n}?"}, {"role": "assistant", "content": text}]}
        for n, text in enumerate(make_text(40))
    ]
    (tmp_path / "chats.jsonl").write_text("\n".join(map(json.dumps, chats)))
    given = ("--teacher", causal, "--data", tmp_path / "chats.jsonl", "--blocks.length", 64)
    record, said = distill(tmp_path / "run", *given, task="generate")
    assert record.data.columns == {"messages": "messages"}
    kept = record.figures["cache_bytes"] / record.figures["cache_bytes_per_token"]
    assert kept < record.data.splits["train"].labelled, "only answers are learnt and asked about"
    # The cache of the command line serves the same questions.
    said = limbeck("cache", *given, "--out", tmp_path / "cache", "--threads", 1)
    assert said.code == 0, said.err
    record, said = distill(tmp_path / "again", *given, "--cache", tmp_path / "cache", "--no-baseline", task="generate")
    assert record.arm("distilled").runs[0].quality["perplexity"] > 1


def test_vocabularies_that_differ_by_padding_train_together(causal, corpus, tmp_path):
    tokenizer = byte_level()
    words = len(tokenizer)
    shape = LlamaConfig(
        vocab_size=words + 13,
        hidden_size=16,
        num_hidden_layers=1,
        num_attention_heads=2,
        intermediate_size=24,
        max_position_embeddings=64,
        bos_token_id=0,
        eos_token_id=0,
    )
    start = save(LlamaForCausalLM(shape), tokenizer, tmp_path / "start")
    given = ("--teacher", causal, "--student-from", start, "--data", corpus, "--no-baseline")
    for name, more in (("kept", ()), ("live", ("--recipe", "word-kd"))):
        record, said = distill(tmp_path / name, *given, *more, task="generate")
        note = f"the teacher has {words + 3} output rows and the student {words + 13}"
        assert any(note in line for line in record.notes)
        assert note in said.err
        assert record.task.vocab_size == words
    student = AutoModelForCausalLM.from_pretrained(tmp_path / "live" / "student")
    assert student.config.vocab_size == words + 13


def test_a_student_with_added_tokens_is_asked_about_shared_ones(masked, corpus, tmp_path):
    """A text that spells an added token out is cut as the teacher cuts it, who does not know that token."""
    tokenizer = make_tokenizer()
    tokenizer.add_tokens(["<new>"])
    start = save(make_masked(layers=1, vocab_size=len(tokenizer)), tokenizer, tmp_path / "start")
    data = tmp_path / "new.txt"
    data.write_text(corpus.read_text().replace(" film ", " <new> "))
    record, _ = distill(tmp_path / "run", "--teacher", masked, "--student-from", start, "--data", data, "--no-baseline")
    assert record.task.vocab_size == len(VOCABULARY)
    _, saved = load(tmp_path / "run" / "student", "mask-fill")
    assert "<new>" in saved.get_vocab()


def test_another_tokenizer_is_refused(causal, corpus, tmp_path):
    start = save(make_causal(make_tokenizer(), layers=1), make_tokenizer(), tmp_path / "start")
    said = limbeck(
        *("distill", "--task", "generate", "--teacher", causal, "--student-from", start, "--data", corpus),
        *("--out", tmp_path / "x", *WORDS),
    )
    assert said.code == 2
    assert "different tokenizers" in said.err
    assert "→ take a student of the teacher's family" in said.err
    assert not (tmp_path / "x").exists()


def test_blocks_longer_than_a_model_reads_are_refused(causal, corpus, tmp_path):
    """Its tokenizer sets no limit."""
    for verb, name in (("train", "--model"), ("distill", "--teacher"), ("cache", "--teacher")):
        given = ("--task", "generate", name, causal, "--data", corpus, "--out", tmp_path / verb)
        said = limbeck(verb, *given, "--blocks.length", 129)
        assert said.code == 2, said.err
        assert "blocks have 129 tokens, but the model reads 128 at once" in said.err
        assert "--blocks.length to 128" in said.err


@pytest.mark.parametrize("verb", ["train", "distill", "cache"])
@pytest.mark.parametrize("task", ["mask-fill", "generate"])
def test_a_model_with_fewer_words_than_its_tokenizer_is_refused(verb, task, corpus, tmp_path):
    tokenizer = make_tokenizer()
    tokenizer.eos_token = "[SEP]"
    model = make_masked(vocab_size=30) if task == "mask-fill" else make_causal(tokenizer, padding=30 - len(tokenizer))
    place = save(model, tokenizer, tmp_path / "model")
    more = WORDS if verb != "cache" else ()
    name = "--model" if verb == "train" else "--teacher"
    said = limbeck(verb, "--task", task, name, place, "--data", corpus, "--out", tmp_path / "x", *more)
    assert said.code == 2
    assert f"has {len(VOCABULARY)} tokens, but the" in said.err
    assert "has embeddings for only 30" in said.err


def test_pairs_need_a_model_that_knows_them(masked, corpus, tmp_path):
    from transformers import RobertaConfig, RobertaForMaskedLM

    shape = {"hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 24}
    roberta = RobertaForMaskedLM(RobertaConfig(vocab_size=len(VOCABULARY), **shape))
    place = save(roberta, make_tokenizer(), tmp_path / "roberta")
    given = ("--task", "mask-fill", "--data", corpus, "--blocks.pairs", "--out", tmp_path / "x", *WORDS)
    said = limbeck("train", "--model", place, *given)
    assert (said.code, "has no next-sentence head" in said.err) == (2, True), said.err
    said = limbeck("distill", "--teacher", masked, *given)  # its head for pairs was never trained
    assert said.code == 2, said.err
    both = save(make_masked(pairs=True), make_tokenizer(), tmp_path / "both")
    said = limbeck("distill", "--teacher", both, "--recipe", "distilbert", *given)
    assert said.code == 2, said.err
    assert "--blocks.pairs" in said.err
