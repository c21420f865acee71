"""The pass on small real models: what stays, what is proved of it, and what is said of the rest."""

import copy

import pytest
import torch
import transformers as hf
from torch import nn

import limbeck
from examples import example_of
from limbeck.core.compress import PASSES, Calibration, Mask
from limbeck.core.errors import DataError, KnobError, MismatchError, ModelError
from limbeck.passes import vocabulary as module
from limbeck.passes.vocabulary import Vocabulary
from tiny import VOCABULARY, make_classifier, make_tokenizer
from tiny_reverser import make_marian
from tiny_reverser import make_tokenizer as make_words
from tiny_sources import WORDS, make_sources
from tiny_tokenizers import LINES, tiny_tokenizer

BODY = {"hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 16}
PIECES = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *"abcdefghij", *(f"##{c}" for c in "abcdefghij")]
PIECES += ["bad", "cab", "##ed", "##ad", "beige", "dead", "face", "fab"]


def by_hand(extra=()):
    """A tokenizer of the words above, and a classifier for it."""
    pieces = [*PIECES, *extra]
    tokenizer = hf.BertTokenizerFast(vocab={piece: number for number, piece in enumerate(pieces)})
    torch.manual_seed(0)
    return hf.BertForSequenceClassification(hf.BertConfig(vocab_size=len(pieces), **BODY)).eval(), tokenizer


def rows(*texts):
    return [(text,) for text in texts]


def bert(tokenizer, kind=hf.BertForSequenceClassification, padding=0, **config):
    torch.manual_seed(0)
    shape = {"vocab_size": len(tokenizer) + padding, "max_position_embeddings": 80, "initializer_range": 0.3}
    return kind(hf.BertConfig(**shape, **BODY, pad_token_id=tokenizer.pad_token_id, **config)).eval()


@torch.no_grad()
def answers(model, tokenizer, *texts):
    tokenizer.pad_token = tokenizer.pad_token or tokenizer.eos_token
    return model(**tokenizer(*map(list, texts), return_tensors="pt", padding=True)).logits


def test_figures_by_hand():
    """bad bad cab face | held out: bad, beige, dead face, x: b ##e ##i ##g ##e and d ##e ##ad are other segments."""
    model, tokenizer = by_hand()
    texts = rows("bad bad cab", "face")
    held_out = rows("bad", "beige", "dead face", "x", "")
    change = Vocabulary().apply(model, Mask(), Calibration(texts=texts, processor=tokenizer, held_out=held_out))
    gone = {"##ed", "##ad", "beige", "dead", "fab"}
    assert tokenizer.get_vocab().keys() - change.processor.get_vocab().keys() == gone
    before, after = len(PIECES), len(PIECES) - len(gone)
    # tokens with [CLS] and [SEP]: 3 + 3 + 4 + 3 + 2 = 15 before; beige has 4 more, dead 3 more
    here = {"rows": 2, "resegmented": 0, "resegmented_share": 0.0, "new_unknowns": 0, "more_tokens_share": 0.0}
    there = {"rows": 5, "resegmented": 2, "resegmented_share": 0.4, "new_unknowns": 0}
    assert change.figures == {
        "pieces_before": before,
        "pieces": after,
        "pieces_share": after / before,
        **{f"calibration_{name}": value for name, value in here.items()},
        **{f"held_out_{name}": value for name, value in there.items()},
        "held_out_more_tokens_share": pytest.approx(7 / 15),
    }
    assert change.note == (
        f"{after} of {before} pieces remain ({100 * after / before:.1f} %). All 2 calibration texts have the same "
        "tokens as before. Of 5 held-out texts 2 (40.0 %) are segmented otherwise, with 0 new unknown tokens and "
        "46.7 % more tokens."
    )


def test_new_unknowns_are_counted():
    """Words without letters to fall back on."""
    tokenizer, model = make_tokenizer(), make_classifier(layers=1)
    calibration = Calibration(texts=rows("a good film"), processor=tokenizer, held_out=rows("a dull film", "zzz"))
    change = Vocabulary().apply(model, Mask(), calibration)
    assert {*change.processor.get_vocab()} == {*VOCABULARY[:5], "a", "good", "film"}
    assert change.figures["held_out_new_unknowns"] == 1
    assert "with 1 new unknown tokens and 0.0 % more tokens" in change.note


def test_frequent_pieces():
    texts = rows("bad bad cab face", "cab bad")
    model, tokenizer = by_hand()
    calibration = Calibration(texts=texts, processor=tokenizer)
    kept = {}
    for name, knobs in {"2": {"min_count": 2}, "3": {"min_count": 3}, "size": {"size": 1}}.items():
        change = Vocabulary(mode="aggressive", **knobs).apply(copy.deepcopy(model), Mask(), calibration)
        kept[name] = {"bad", "cab", "face", "beige"} & {*change.processor.get_vocab()}
        assert change.figures["calibration_resegmented"] == (1 if name == "2" else 2)
    assert kept == {"2": {"bad", "cab"}, "3": {"bad"}, "size": {"bad"}}, "special tokens are not counted"


def test_pieces_of_extra_files_stay(tmp_path):
    (tmp_path / "domain.txt").write_text("beige\ndead\n", encoding="utf-8")
    model, tokenizer = by_hand()
    calibration = Calibration(texts=rows("bad"), processor=tokenizer)
    for mode in ("lossless", "aggressive"):
        change = Vocabulary(mode=mode, extra=str(tmp_path / "domain.txt")).apply(
            copy.deepcopy(model), Mask(), calibration
        )
        assert {"beige", "dead"} <= {*change.processor.get_vocab()}
        assert "fab" not in change.processor.get_vocab()
    alone = Vocabulary(extra=(tmp_path / "domain.txt",)).apply(model, Mask(), Calibration(processor=tokenizer))
    assert "beige" in alone.processor.get_vocab()


def test_a_file_that_cannot_be_read_is_named(tmp_path):
    (tmp_path / "bytes.txt").write_bytes(b"\xff\xfe\x00")
    model, tokenizer = by_hand()
    for name, why in {"none.txt": "No such file", "bytes.txt": "not UTF-8"}.items():
        with pytest.raises(DataError, match=f"{name}, a file of 'extra', cannot be read: .*{why}"):
            Vocabulary(extra=str(tmp_path / name)).apply(model, Mask(), Calibration(processor=tokenizer))
    assert model.config.vocab_size == len(PIECES)


def test_a_word_that_was_unknown_stays_unknown():
    """☃ alone is no piece, but ##c☃ is: without 'fabc', fabc☃ would be f ##a ##b ##c☃."""
    model, tokenizer = by_hand(["##c☃", "fabc"])
    texts = rows("fabc☃", "abc☃")
    assert tokenizer.convert_ids_to_tokens(tokenizer(texts[0][0])["input_ids"]) == ["[CLS]", "[UNK]", "[SEP]"]
    change = Vocabulary().apply(model, Mask(), Calibration(texts=texts, processor=tokenizer))
    assert change.processor(texts[0][0])["input_ids"] == [2, 1, 3]
    assert "fabc" in change.processor.get_vocab()
    assert "beige" not in change.processor.get_vocab()


def test_a_loss_is_an_error_and_leaves_the_model_alone(monkeypatch):
    model, tokenizer = by_hand()
    other = hf.BertTokenizerFast(vocab={piece: n for n, piece in enumerate(PIECES[:26])})
    monkeypatch.setattr(module, "trimmed", lambda *_: (other, list(range(26))))
    with pytest.raises(MismatchError, match=r"1 of 2 calibration texts are segmented otherwise .*'face'") as refused:
        Vocabulary().apply(model, Mask(), Calibration(texts=rows("bad", "face"), processor=tokenizer))
    assert "aggressive" in refused.value.remedy
    assert model.config.vocab_size == len(PIECES)


@pytest.mark.parametrize("kind", ["wordpiece", "unigram"])
def test_a_classifier_answers_as_before(kind, tmp_path):
    tokenizer = tiny_tokenizer(kind)
    model = bert(tokenizer)
    texts = [(LINES[0], LINES[2]), ("", LINES[1]), ("naïve 電影 🎬", "")]
    before = answers(model, tokenizer, *zip(*texts, strict=True))
    small = copy.deepcopy(model)
    change = Vocabulary().apply(small, Mask(), Calibration(texts=texts, processor=tokenizer))
    small.save_pretrained(tmp_path)
    change.processor.save_pretrained(tmp_path)
    again = hf.AutoModelForSequenceClassification.from_pretrained(tmp_path).eval()
    for now, words in ((small, change.processor), (again, hf.AutoTokenizer.from_pretrained(tmp_path))):
        assert torch.allclose(answers(now, words, *zip(*texts, strict=True)), before, atol=1e-6)
    assert small.config.vocab_size == len(change.processor) < len(tokenizer)


def test_a_masked_language_model():
    tokenizer = tiny_tokenizer("unigram")
    model = bert(tokenizer, hf.BertForMaskedLM, padding=9)
    texts = [f"{LINES[0]} <mask>", LINES[2]]
    before = answers(model, tokenizer, texts)
    change = Vocabulary().apply(model, Mask(), Calibration(texts=rows(*texts), processor=tokenizer))
    old = [
        tokenizer.convert_tokens_to_ids(t) for t in change.processor.convert_ids_to_tokens(range(len(change.processor)))
    ]
    assert torch.allclose(answers(model, change.processor, texts), before[..., old], atol=1e-6)
    assert model.config.vocab_size == len(change.processor), "rows that padded the table are gone too"


def test_a_causal_language_model_writes_the_same():
    tokenizer = copy.deepcopy(tiny_tokenizer("byte-level BPE"))
    torch.manual_seed(0)
    end = tokenizer.eos_token_id
    sizes = {"n_embd": 16, "n_layer": 1, "n_head": 2, "bos_token_id": end, "eos_token_id": end, "pad_token_id": end}
    model = hf.GPT2LMHeadModel(hf.GPT2Config(vocab_size=len(tokenizer), **sizes, initializer_range=0.5)).eval()
    kept = {number for line in LINES[:3] for number in tokenizer(line)["input_ids"]}
    with torch.no_grad():  # never writes what will go
        gone = [n for n in range(len(tokenizer)) if n not in kept]
        model.lm_head.weight[gone] = 0.0
    before = answers(model, tokenizer, LINES[:3])
    prompt = tokenizer(LINES[0], return_tensors="pt", add_special_tokens=False)
    written = model.generate(**prompt, max_new_tokens=12, do_sample=False, suppress_tokens=gone)
    small = copy.deepcopy(model)
    change = Vocabulary().apply(small, Mask(), Calibration(texts=rows(*LINES[:3]), processor=tokenizer))
    words = change.processor
    old = [tokenizer.get_vocab()[t] for t in words.convert_ids_to_tokens(range(len(words)))]
    assert torch.allclose(answers(small, words, LINES[:3]), before[..., old], atol=1e-6)
    assert old[small.generation_config.eos_token_id] == end
    prompt = words(LINES[0], return_tensors="pt", add_special_tokens=False)
    unused = [n for n, was in enumerate(old) if was not in kept]
    again = small.generate(**prompt, max_new_tokens=12, do_sample=False, suppress_tokens=unused)
    assert words.decode(again[0]) == tokenizer.decode(written[0])


def test_a_translator_writes_the_same(tmp_path):
    """Sources of half the words, targets as it writes them; the pad, last, starts the decoder under its new id."""
    model, words = make_marian(), make_words()
    sources = [source for source in make_sources(200, longest=5) if {*source.split()} <= {*WORDS[: len(WORDS) // 2]}]
    targets = write(model, words, sources)
    assert len({*targets}) >= 3
    calibration = Calibration(texts=list(zip(sources, targets, strict=True)), processor=words)
    change = Vocabulary().apply(small := copy.deepcopy(model), Mask(), calibration)
    last = len(change.processor) - 1
    assert last < len(words) - 1
    assert small.generation_config.decoder_start_token_id == small.config.pad_token_id == last
    assert small.generation_config.bad_words_ids == [[last]]
    small.save_pretrained(tmp_path)
    change.processor.save_pretrained(tmp_path)
    again = hf.AutoModelForSeq2SeqLM.from_pretrained(tmp_path).eval()
    assert write(small, change.processor, sources) == targets
    assert write(again, hf.AutoTokenizer.from_pretrained(tmp_path), sources) == targets


def write(model, tokenizer, sources):
    given = tokenizer(sources, return_tensors="pt", padding=True)
    ids = model.generate(input_ids=given.input_ids, attention_mask=given.attention_mask, max_new_tokens=8, num_beams=1)
    return tokenizer.batch_decode(ids, skip_special_tokens=True)


def test_targets_are_kept_too():
    model, tokenizer = make_marian(), make_words()
    one, two, three = WORDS[:3]
    change = Vocabulary().apply(model, Mask(), Calibration(texts=[(one, two)], processor=tokenizer))
    assert {one, two} <= {*change.processor.get_vocab()}
    assert three not in change.processor.get_vocab()


def test_pruned_before_and_after():
    tokenizer = tiny_tokenizer("byte-level BPE")
    torch.manual_seed(0)
    sizes = {**BODY, "num_key_value_heads": 2, "tie_word_embeddings": False, "pad_token_id": tokenizer.pad_token_id}
    model, mask = hf.LlamaForCausalLM(hf.LlamaConfig(vocab_size=len(tokenizer), **sizes)), Mask()
    calibration = Calibration(texts=rows(*LINES[:2]), processor=tokenizer)
    for one in (limbeck.Magnitude(0.5), Vocabulary(), limbeck.Magnitude(0.5)):
        mask = one.apply(model, mask, calibration).mask
    assert model.lm_head.weight.shape[0] == model.config.vocab_size < len(tokenizer)
    assert Mask.of(model).checksum == mask.checksum
    assert mask.live["lm_head.weight"].shape == model.lm_head.weight.shape
    assert abs(mask.remaining / mask.total - 0.25) < 0.05


def test_after_other_passes_only_where_they_left_the_embeddings_alone(tmp_path):
    tokenizer = tiny_tokenizer("unigram")
    calibration = Calibration(texts=rows(LINES[0]), processor=tokenizer)
    model = bert(tokenizer)
    for first in (limbeck.LowRank(), limbeck.Quantize()):
        with pytest.raises(ModelError) as refused:
            Vocabulary().apply(limbeck.compress(model, [first], calibration), Mask(), calibration)
        assert "trim the vocabulary before passes" in refused.value.remedy
    thin = limbeck.compress(model, [limbeck.LowRank(embeddings=False)], calibration)
    before = answers(thin, tokenizer, LINES[:1])
    change = Vocabulary().apply(thin, Mask(), calibration)
    thin.save_pretrained(tmp_path)
    change.processor.save_pretrained(tmp_path)
    again, words = limbeck.load(tmp_path)
    assert torch.allclose(answers(again, words, LINES[:1]), before, atol=1e-6)


def test_the_mask_of_an_output_projection_is_taken_along():
    tokenizer = tiny_tokenizer("unigram")
    model = bert(tokenizer, hf.BertForMaskedLM, tie_word_embeddings=False)
    mask = limbeck.Magnitude(0.5).apply(model, Mask()).mask
    name = "cls.predictions.decoder.weight"
    change = Vocabulary().apply(model, mask, Calibration(texts=rows(LINES[0]), processor=tokenizer))
    old = [tokenizer.get_vocab()[t] for t in change.processor.convert_ids_to_tokens(range(len(change.processor)))]
    assert torch.equal(change.mask.live[name], mask.live[name][old])
    change.mask.hold(model)


def test_a_token_that_only_the_model_knows_keeps_its_row():
    """A padding token behind the tokenizer's last, as resize_token_embeddings leaves it."""
    model, tokenizer = by_hand()
    model.resize_token_embeddings(len(PIECES) + 8)
    model.config.pad_token_id = len(PIECES) + 2
    row = model.get_input_embeddings().weight[len(PIECES) + 2].clone()
    change = Vocabulary().apply(model, Mask(), Calibration(texts=rows("bad"), processor=tokenizer))
    assert model.config.vocab_size == len(change.processor) + 1
    assert torch.equal(model.get_input_embeddings().weight[model.config.pad_token_id], row)


def test_what_cannot_be_trimmed_is_said():
    model, tokenizer = by_hand()
    for calibration in (Calibration(processor=tokenizer), Calibration(texts=rows("bad")), Calibration()):
        with pytest.raises(DataError, match="has no texts or no tokenizer") as refused:
            Vocabulary().apply(model, Mask(), calibration)
        assert "Calibration(texts=" in refused.value.remedy
    with pytest.raises(ModelError, match="a Linear has no vocabulary"):
        Vocabulary().apply(nn.Linear(2, 2), Mask(), Calibration(texts=rows("bad"), processor=tokenizer))
    small = bert(tokenizer)
    small.resize_token_embeddings(10)
    with pytest.raises(MismatchError, match="embeddings for only 10"):
        Vocabulary().apply(small, Mask(), Calibration(texts=rows("bad"), processor=tokenizer))


@pytest.mark.parametrize("knobs", [{"size": 5}, {"min_count": 3}])
def test_knobs_of_the_other_mode_are_refused(knobs):
    with pytest.raises(KnobError, match="has no effect in the mode 'lossless'"):
        Vocabulary(**knobs)


def test_it_is_registered_and_its_example_runs():
    card = PASSES["vocabulary"]
    assert (card.cls, card.paper.year, Vocabulary.calibrates) == (Vocabulary, 2023, True)
    exec(example_of(card.text), {})
