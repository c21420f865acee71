"""The model's half of a trimmed vocabulary: in every family the outputs of kept tokens are those of the whole model."""

import copy

import pytest
import torch
import transformers as hf

from limbeck.core.errors import MismatchError, ModelError
from limbeck.core.vocabulary import named_ids, take_rows
from limbeck.students.seq2seq import hold_pad
from limbeck.students.shrink import Shrink
from students import tiny_encoders, tiny_translators
from tiny import make_tokenizer

OLD_IDS = [*range(4), *range(5, 100, 3)]
BODY = {"hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 16}
SMALL = {"vocab_size": 100, "max_position_embeddings": 40, "pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2}
MASKED = {
    "bert": lambda: hf.BertForMaskedLM(hf.BertConfig(**SMALL, **BODY)),
    "pretraining": lambda: hf.BertForPreTraining(hf.BertConfig(**SMALL, **BODY)),
    "roberta": lambda: hf.RobertaForMaskedLM(hf.RobertaConfig(**{**SMALL, "pad_token_id": 1}, **BODY)),
    "albert": lambda: hf.AlbertForMaskedLM(hf.AlbertConfig(**SMALL, **BODY, embedding_size=6)),
    "distilbert": lambda: hf.DistilBertForMaskedLM(
        hf.DistilBertConfig(**SMALL, n_layers=1, dim=16, n_heads=2, hidden_dim=16)
    ),
    "electra": lambda: hf.ElectraForMaskedLM(hf.ElectraConfig(**SMALL, **BODY, embedding_size=6)),
    "mobilebert": lambda: hf.MobileBertForMaskedLM(
        hf.MobileBertConfig(**SMALL, **BODY, embedding_size=6, intra_bottleneck_size=8)
    ),
    "modernbert": lambda: hf.ModernBertForMaskedLM(
        hf.ModernBertConfig(**SMALL, **BODY, cls_token_id=1, sep_token_id=2)
    ),
    "gpt2": lambda: hf.GPT2LMHeadModel(
        hf.GPT2Config(vocab_size=100, n_embd=16, n_layer=1, n_head=2, bos_token_id=2, eos_token_id=2)
    ),
    "llama": lambda: hf.LlamaForCausalLM(
        hf.LlamaConfig(**SMALL, **BODY, num_key_value_heads=2, tie_word_embeddings=False)
    ),
}


@torch.no_grad()
def random(make):
    """With every weight showing in the outputs."""
    torch.manual_seed(0)
    model = make().eval()
    for parameter in model.parameters():
        parameter.copy_(0.3 * torch.randn_like(parameter))
    return model


def tied(model):
    """Names of parameters that are one."""
    owners = {}
    for name, parameter in model.named_parameters(remove_duplicate=False):
        owners.setdefault(id(parameter), []).append(name)
    return sorted(names for names in owners.values() if len(names) > 1)


def inputs():
    """Kept ids, in the old numbers and in the new."""
    draw = torch.Generator().manual_seed(1)
    places = torch.randint(4, len(OLD_IDS), (3, 9), generator=draw)
    mask = torch.ones_like(places)
    mask[1, 6:] = 0
    return torch.tensor(OLD_IDS)[places], places, mask


@pytest.mark.parametrize("family", tiny_encoders.CONFIGS)
def test_classifiers_answer_as_before(family, tmp_path):
    model = tiny_encoders.classifier(family)
    small = copy.deepcopy(model)
    old, new, mask = inputs()
    pad = model.config.pad_token_id
    old[1, 6:] = new[1, 6:] = pad
    take_rows(small, OLD_IDS)
    small.save_pretrained(tmp_path)
    again = hf.AutoModelForSequenceClassification.from_pretrained(tmp_path)
    with torch.no_grad():
        before = model(input_ids=old, attention_mask=mask).logits
        assert torch.equal(small(input_ids=new, attention_mask=mask).logits, before)
        assert torch.equal(again(input_ids=new, attention_mask=mask).logits, before)
    assert small.config.vocab_size == small.get_input_embeddings().num_embeddings == len(OLD_IDS)
    changed = {name for name, x in model.state_dict().items() if x.shape != small.state_dict()[name].shape}
    assert len(changed) == 1, "the table of words, and nothing else"


@pytest.mark.parametrize("family", MASKED)
def test_language_models_score_the_kept_tokens_as_before(family, tmp_path):
    model = random(MASKED[family])
    small = copy.deepcopy(model)
    ties = tied(model)
    take_rows(small, OLD_IDS)
    small.save_pretrained(tmp_path)
    again = type(small).from_pretrained(tmp_path).eval()
    old, new, mask = inputs()
    with torch.no_grad():
        before, *after = (
            m(input_ids=ids, attention_mask=mask) for m, ids in ((model, old), (small, new), (again, new))
        )
    for out in after:
        now, then = (
            getattr(x, "prediction_logits", None) if family == "pretraining" else x.logits for x in (out, before)
        )
        assert now.shape[-1] == len(OLD_IDS)
        assert torch.allclose(now, then[..., OLD_IDS], atol=1e-6)
    assert tied(small) == ties, "what was one tensor is one"
    head = small.get_output_embeddings()
    assert (head.weight is small.get_input_embeddings().weight) == (family != "llama")
    assert head.out_features == len(OLD_IDS)
    assert all(parameter.requires_grad for parameter in small.parameters())


@pytest.mark.parametrize("family", tiny_translators.FAMILIES)
def test_translators_score_the_kept_tokens_as_before(family, tmp_path):
    model = tiny_translators.translator(family)
    kept = sorted({*range(5), *range(6, 60, 2), 59})
    small = copy.deepcopy(model)
    take_rows(small, kept)
    small.save_pretrained(tmp_path)
    again = hf.AutoModelForSeq2SeqLM.from_pretrained(tmp_path).eval()
    draw = torch.Generator().manual_seed(1)
    read, written = (torch.randint(3, len(kept) - 1, (3, n), generator=draw) for n in (9, 7))
    back = torch.tensor(kept)
    with torch.no_grad():
        before = model(input_ids=back[read], decoder_input_ids=back[written]).logits[..., kept]
        for now in (small, again):
            assert torch.allclose(now(input_ids=read, decoder_input_ids=written).logits, before, atol=1e-5)
    pad = model.config.pad_token_id
    assert kept[small.config.pad_token_id] == pad
    assert kept[small.generation_config.decoder_start_token_id] == model.generation_config.decoder_start_token_id
    assert small.get_input_embeddings().padding_idx == again.get_input_embeddings().padding_idx
    if (padding := model.get_input_embeddings().padding_idx) is not None:
        assert kept[small.get_input_embeddings().padding_idx] == padding
    assert tied(small) == tied(model)


def test_two_tables_of_one_vocabulary_are_both_taken():
    """A Marian whose encoder, decoder and output have a table each."""
    config = tiny_translators.CONFIGS["marian"]()
    config.share_encoder_decoder_embeddings, config.tie_word_embeddings = False, False
    model = random(lambda: hf.MarianMTModel(config))
    tables = model.get_encoder().embed_tokens.weight, model.get_decoder().embed_tokens.weight
    assert not torch.equal(*tables)
    kept = [0, 1, 5, 59]
    take_rows(model, kept)
    for whole, table in zip(tables, (model.get_encoder().embed_tokens, model.get_decoder().embed_tokens), strict=True):
        assert torch.equal(table.weight, whole[kept])
        assert (table.padding_idx, table.num_embeddings) == (3, 4)
    assert model.lm_head.weight.shape[0] == model.config.decoder_vocab_size == 4


def test_settings_that_name_tokens_get_the_new_ids():
    model = tiny_translators.translator("marian")
    settings = model.generation_config
    settings.bad_words_ids, settings.suppress_tokens = [[59], [7, 8], [9]], [9, 20]
    settings.begin_suppress_tokens, settings.eos_token_id, settings.forced_bos_token_id = [-1, 9], [0, 20], 20
    take_rows(model, [0, 1, 8, 9, 20, 59])
    assert settings.bad_words_ids == [[5], [3]], "7 is gone, so 7 8 cannot be written"
    assert (settings.suppress_tokens, settings.begin_suppress_tokens) == ([3, 4], [-1, 3])
    assert (settings.eos_token_id, settings.forced_bos_token_id) == ([0, 4], 4)
    assert (settings.pad_token_id, settings.decoder_start_token_id, model.config.pad_token_id) == (5, 5, 5)
    assert (model.config.vocab_size, model.config.decoder_vocab_size) == (6, 6)
    assert model.get_encoder().padding_idx == 5
    assert model.final_logits_bias.shape == (1, 6)


def test_tokens_that_settings_name_are_known():
    model = tiny_translators.translator("marian")
    model.generation_config.forced_bos_token_id = 20
    model.generation_config.bad_words_ids = [[30]]
    assert named_ids(model) == {0, 20, 59}
    roberta = MASKED["roberta"]()
    assert named_ids(roberta) == {0, 1, 2}


def test_positions_that_start_behind_padding_are_not_moved():
    """RoBERTa's position of the first token is the id of padding plus one."""
    model = MASKED["roberta"]()
    before = copy.deepcopy(model.state_dict())
    with pytest.raises(ModelError, match="counts positions from the id of its padding token"):
        take_rows(model, [1, 2, 3])
    assert all(torch.equal(x, before[name]) for name, x in model.state_dict().items())
    late = hf.RobertaForMaskedLM(hf.RobertaConfig(**{**SMALL, "pad_token_id": 6}, **BODY))
    assert {*range(7)} <= named_ids(late)


def test_what_does_not_learn_goes_on_not_learning():
    model = MASKED["bert"]()
    model.get_input_embeddings().weight.requires_grad_(False)
    take_rows(model, OLD_IDS)
    assert not model.get_input_embeddings().weight.requires_grad
    assert model.cls.predictions.bias.requires_grad


def test_a_pad_that_is_held_at_zero_is_held_under_its_new_id():
    model = tiny_translators.translator("marian").train()
    hold_pad(model)
    ids = torch.tensor([[5, 6, 0]])
    model(input_ids=ids, labels=ids).loss.backward()  # sets the hook of the old row
    model.zero_grad()
    take_rows(model, [0, 1, 5, 6, 7, 59])
    ids = torch.tensor([[2, 3, 0]])
    model(input_ids=ids, labels=ids).loss.backward()
    slope = model.get_input_embeddings().weight.grad
    assert not slope[5].any()
    assert slope[:5].any()


@pytest.mark.parametrize("how", [{"family": "albert"}, {"family": "mobilebert"}, {"groups": 2}, {"family": "bilstm"}])
def test_student_families_of_ours(how, tmp_path):
    teacher = tiny_encoders.classifier("bert")
    if how.get("groups"):
        how = {**how, "embedding": 8}  # layers in groups, embeddings factorised
    student, _ = Shrink(layers=2, **how).build(teacher, make_tokenizer())
    small = copy.deepcopy(student)
    changed = take_rows(small, OLD_IDS)
    small.save_pretrained(tmp_path)
    again = hf.AutoModelForSequenceClassification.from_pretrained(tmp_path).eval()
    old, new, mask = inputs()
    with torch.no_grad():
        before = student(input_ids=old, attention_mask=mask).logits
        for now in (small, again):
            assert torch.equal(now(input_ids=new, attention_mask=mask).logits, before)
    if how.get("family") == "bilstm":
        assert set(changed) == {"reader.static.weight", "reader.tuned.weight"}
        assert not small.reader.static.weight.requires_grad
        assert [OLD_IDS[n] for n in small.config.unread_ids] == student.config.unread_ids


def test_a_token_beyond_the_models_rows_is_refused():
    model = MASKED["bert"]()
    with pytest.raises(MismatchError, match="a token 100, but the model has embeddings for only 100"):
        take_rows(model, [0, 100])
    assert model.config.vocab_size == 100


def test_models_without_one_vocabulary_are_refused():
    with pytest.raises(ModelError, match="a Linear has no vocabulary"):
        take_rows(torch.nn.Linear(2, 2), [0])
    config = tiny_translators.CONFIGS["marian"]()
    config.share_encoder_decoder_embeddings, config.decoder_vocab_size = False, 70
    with pytest.raises(ModelError, match="or more than one"):
        take_rows(hf.MarianMTModel(config), [0])


def test_embeddings_that_another_pass_changed_are_refused():
    model = MASKED["bert"]()
    model.set_input_embeddings(torch.nn.Sequential(torch.nn.Embedding(100, 4), torch.nn.Linear(4, 16)))
    with pytest.raises(ModelError) as refused:
        take_rows(model, OLD_IDS)
    assert "before passes that change them" in refused.value.remedy


def test_nothing_random_is_drawn():
    model = MASKED["bert"]()
    torch.manual_seed(3)
    expected = torch.rand(1)
    torch.manual_seed(3)
    take_rows(model, OLD_IDS)
    assert torch.equal(torch.rand(1), expected)
