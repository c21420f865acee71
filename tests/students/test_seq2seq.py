"""Students cut from translators of every family."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
import transformers as hf

from limbeck.core.errors import KnobError
from limbeck.core.fingerprint import fingerprint
from limbeck.students.inherit import reinit
from limbeck.students.seq2seq import Seq2SeqConfig, new_seq2seq
from limbeck.students.shrink import Shrink
from limbeck.students.sizes import Sizes, hidden_coordinates, shape_of, sizes_of
from students.tiny_translators import FAMILIES, logits, tokenizer, translator

pytestmark = pytest.mark.slow

SINUSOIDS = {"marian": 2}  # tables that are in the state
FREE_HEADS = ("t5", "t5-gated")
BASE = Sizes(layers=12, hidden=768, heads=12, feed_forward=3072, decoder_layers=6)
WIDTHS = {
    "decoder": (Shrink(decoder_layers=1), {"layers": 4, "decoder_layers": 1}),
    "every": (Shrink(keep="every-2", feed_forward=24), {"layers": 2, "decoder_layers": 2, "feed_forward": 24}),
    "hidden": (Shrink(keep="0,3", hidden=16), {"layers": 2, "hidden": 16}),
    "head size": (Shrink(keep="0,3", head_size=4), {"heads": 4}),
    "all": (
        Shrink(layers=2, decoder_layers=1, heads=2, hidden=12, feed_forward=20),
        {"layers": 2, "decoder_layers": 1, "heads": 2, "hidden": 12, "feed_forward": 20},
    ),
}


@pytest.mark.parametrize("family", FAMILIES)
def test_a_whole_student_answers_bit_for_bit_as_its_teacher(family: str) -> None:
    teacher = translator(family)
    student, inheritance = Shrink(layers=4, decoder_layers=4).build(teacher)
    assert torch.equal(logits(student), logits(teacher))
    assert (inheritance.sliced, inheritance.fresh, inheritance.dropped) == (0, [], [])
    assert inheritance.layers == inheritance.decoder_layers == [0, 1, 2, 3]
    assert student.generation_config == teacher.generation_config
    assert student.generation_config is not teacher.generation_config


@pytest.mark.parametrize("family", FAMILIES)
def test_the_student_answers_as_the_teacher_with_layers_deleted(family: str) -> None:
    teacher = translator(family)
    student, inheritance = Shrink(layers=3, decoder_layers=2).build(teacher)
    assert "the teacher's encoder layers 0, 2, 3 and decoder layers 0, 3: " in inheritance.sentence()
    for stack, gone in ((teacher.get_encoder(), [1]), (teacher.get_decoder(), [2, 1])):
        layers = stack.block if hasattr(stack, "block") else stack.layers
        for layer in gone:
            del layers[layer]
    assert torch.equal(logits(student), logits(teacher))


@pytest.mark.parametrize("family", FAMILIES)
def test_every_knob_saves_opens_answers_alike_and_writes(family: str, tmp_path: Path) -> None:
    teacher = translator(family)
    for name, (shrink, expected) in WIDTHS.items():
        student, inheritance = shrink.build(teacher)
        shape = shape_of(student)
        assert {size: getattr(shape, size) for size in expected} == expected, name
        assert (inheritance.fresh, inheritance.dropped) == ([], []), name
        assert inheritance.whole + inheritance.sliced == len(student.state_dict()) - SINUSOIDS.get(family, 0)
        answers = logits(student)
        assert torch.isfinite(answers).all()
        student.save_pretrained(tmp_path / name)
        opened, info = hf.AutoModelForSeq2SeqLM.from_pretrained(tmp_path / name, output_loading_info=True)
        assert not any(info.values()), (name, info)
        assert torch.equal(logits(opened.eval()), answers), name
        written = opened.generate(torch.tensor([[5, 6, 7, 2]]), max_length=6, num_beams=2)
        assert written.shape[1] > 1


@pytest.mark.parametrize("family", FAMILIES)
def test_tables_tied_in_the_teacher_are_tied_in_the_student_and_pads_stay_zero(family: str) -> None:
    teacher = translator(family)
    student, _ = Shrink(hidden=16).build(teacher)
    table = student.get_input_embeddings()
    assert student.get_output_embeddings().weight is table.weight
    assert student.get_encoder().embed_tokens.weight is student.get_decoder().embed_tokens.weight is table.weight
    if family not in FREE_HEADS:
        assert table.padding_idx == student.config.pad_token_id
        assert not table.weight[table.padding_idx].any()


@pytest.mark.parametrize("family", ["marian", "m2m_100"])
def test_sinusoids_are_computed_for_the_width_not_cut(family: str) -> None:
    teacher = translator(family)
    student, _ = Shrink(hidden=16).build(teacher)
    fresh = type(student)(student.config)
    for stack in ("encoder", "decoder"):
        tables = [getattr(model.model, stack).embed_positions for model in (student, fresh, teacher)]
        mine, right, theirs = (table.weights if family == "m2m_100" else table.weight for table in tables)
        assert torch.equal(mine, right)
        assert not torch.equal(mine, theirs[:, hidden_coordinates(sizes_of(teacher.config), sizes_of(student.config))])


def test_a_student_without_the_first_layer_has_its_bias_of_distances() -> None:
    teacher = translator("t5")
    student, inheritance = Shrink(keep="1,3").build(teacher)
    name = "{}.block.0.layer.0.SelfAttention.relative_attention_bias.weight"
    for stack in ("encoder", "decoder"):
        found = student.state_dict()[name.format(stack)]
        assert torch.equal(found, teacher.state_dict()[name.format(stack)])
    query = "decoder.block.1.layer.0.SelfAttention.q.weight"
    assert torch.equal(student.state_dict()[query], teacher.state_dict()[query.replace("block.1", "block.3")])
    assert (inheritance.fresh, inheritance.dropped) == ([], [])
    narrow, _ = Shrink(heads=2).build(teacher)
    mine, theirs = (model.state_dict()[name.format("encoder")] for model in (narrow, teacher))
    assert torch.equal(mine, theirs[:, [0, 3]])


@pytest.mark.parametrize("family", FREE_HEADS)
def test_widths_of_t5_are_free_of_each_other(family: str) -> None:
    teacher = translator(family)
    for shrink, sizes in (
        (Shrink(heads=2), (32, 2, 6)),
        (Shrink(head_size=4), (32, 4, 4)),
        (Shrink(hidden=10), (10, 4, 6)),
        (Shrink(hidden=10, heads=3, head_size=5), (10, 3, 5)),
    ):
        config = shrink.build(teacher)[0].config
        assert (config.d_model, config.num_heads, config.d_kv) == sizes
    with pytest.raises(KnobError, match="width of all heads would be 28, but the teacher has 24"):
        Shrink(head_size=7).build(teacher)


def test_removing_silent_heads_changes_no_answer() -> None:
    """Of T5, whose stream does not narrow with its heads."""
    teacher = translator("t5")
    with torch.no_grad():
        for name, weight in teacher.named_parameters():
            if name.endswith("Attention.o.weight"):
                weight[:, 6:18] = 0.0  # heads 1 and 2
    student, inheritance = Shrink(heads=2).build(teacher)
    assert inheritance.sliced > 0
    torch.testing.assert_close(logits(student), logits(teacher))


@pytest.mark.parametrize("family", FAMILIES)
def test_removing_silent_neurons_changes_no_answer(family: str) -> None:
    teacher = translator(family)
    silent = torch.randperm(64, generator=torch.Generator().manual_seed(2))[:40]
    outgoing = [weight for name, weight in teacher.named_parameters() if weight.shape == (32, 64)]
    assert len(outgoing) == 8
    for weight in outgoing:
        weight.data[:, silent] = 0.0
    student, _ = Shrink(feed_forward=24).build(teacher)
    torch.testing.assert_close(logits(student), logits(teacher))


@pytest.mark.parametrize("family", ["marian", "bart", "mbart", "m2m_100"])
def test_a_kept_head_keeps_its_query_key_value_and_output_in_both_stacks(family: str) -> None:
    teacher = translator(family)
    student, _ = Shrink(heads=2).build(teacher)
    places = [*range(8), *range(24, 32)]
    squares = [name for name, weight in teacher.state_dict().items() if weight.shape == (32, 32)]
    assert len(squares) == 4 * 4 + 4 * 8
    for name in squares:
        assert torch.equal(student.state_dict()[name], teacher.state_dict()[name][places][:, places])
    assert student.config.decoder_attention_heads == student.config.encoder_attention_heads == 2


def test_a_projection_of_its_own_stays_its_own(tmp_path: Path) -> None:
    teacher = translator("t5-gated")
    assert not teacher.config.scale_decoder_outputs
    teacher.lm_head.weight = torch.nn.Parameter(torch.randn_like(teacher.lm_head.weight))
    student, _ = Shrink(layers=4).build(teacher)
    assert torch.equal(logits(student), logits(teacher))
    narrow, _ = Shrink(hidden=16, decoder_layers=2).build(teacher)
    places = hidden_coordinates(sizes_of(teacher.config), sizes_of(narrow.config))
    assert torch.equal(narrow.lm_head.weight, teacher.lm_head.weight[:, places])
    assert torch.equal(narrow.shared.weight, teacher.shared.weight[:, places])
    narrow.save_pretrained(tmp_path)
    assert torch.equal(logits(hf.AutoModelForSeq2SeqLM.from_pretrained(tmp_path).eval()), logits(narrow))


def test_more_layers_may_write_than_read_where_transformers_can_write_so() -> None:
    student, _ = Shrink(layers=1).build(translator("bart"))
    assert student.generate(torch.tensor([[5, 6, 2]]), max_length=6).shape[1] > 1
    with pytest.raises(KnobError, match=r"more decoder layers \(4\) than encoder layers \(1\)\n.*at most 1"):
        Shrink(layers=1).build(translator("t5"))


def test_a_student_skips_no_layers_in_training() -> None:
    teacher = translator("m2m_100")
    assert teacher.config.decoder_layerdrop == 0.05
    config = Shrink(decoder_layers=1).build(teacher)[0].config
    assert config.encoder_layerdrop == config.decoder_layerdrop == 0.0
    assert teacher.config.decoder_layerdrop == 0.05
    assert not hasattr(Shrink(decoder_layers=1).build(translator("t5"))[0].config, "encoder_layerdrop")


def test_stacks_of_different_widths_lose_layers_only() -> None:
    config = translator("bart").config
    config.decoder_ffn_dim, config.decoder_attention_heads = 48, 2
    teacher = hf.BartForConditionalGeneration(config).eval()
    student, inheritance = Shrink(layers=2, decoder_layers=1).build(teacher)
    assert (student.config.decoder_ffn_dim, student.config.decoder_attention_heads) == (48, 2)
    assert inheritance.fresh == []
    with pytest.raises(KnobError, match="heads 4, its decoder layers 2"):
        Shrink(hidden=16).build(teacher)


@pytest.mark.parametrize(
    ("asked", "expected"),
    [
        ({}, {"layers": 6, "decoder_layers": 3}),
        ({"preset": "half"}, {"layers": 6, "decoder_layers": 3}),
        ({"preset": "third", "hidden": 384}, {"layers": 4, "decoder_layers": 2, "hidden": 384}),
        ({"preset": "quarter"}, {"layers": 3, "decoder_layers": 1}),
        ({"preset": "deep-shallow"}, {"layers": 12, "decoder_layers": 1}),
        ({"preset": "tinybert"}, {"layers": 4, "decoder_layers": 4, "hidden": 312}),
        ({"decoder_layers": 2}, {"layers": 0, "decoder_layers": 2}),
        ({"keep": "last"}, {"layers": 6, "decoder_layers": 3}),
        ({"keep": "0,5"}, {"layers": 0, "decoder_layers": 0}),
    ],
)
def test_a_size_by_name(asked: dict[str, object], expected: dict[str, int]) -> None:
    found = Shrink(**asked).sized(BASE)
    assert {name: getattr(found, name) for name in expected} == expected
    assert found.sized(BASE) == found


def test_at_least_one_layer_reads_and_writes() -> None:
    found = Shrink(preset="quarter").sized(Sizes(layers=3, hidden=8, heads=1, feed_forward=8, decoder_layers=2))
    assert (found.layers, found.decoder_layers) == (1, 1)


@pytest.mark.parametrize(
    ("shrink", "message"),
    [
        (Shrink(decoder_layers=5), "'decoder_layers' is 5, but the teacher has 4 decoder layers"),
        (Shrink(keep="0,2", decoder_layers=1), "keeps 2 decoder layers, but knob 'decoder_layers' is 1"),
        (Shrink(keep="0,4"), "the teacher's layers are 0 to 3"),
        (Shrink(family="albert"), "family 'albert'"),
        (Shrink(family="bilstm"), "family 'bilstm'"),
        (Shrink(family="distilbert"), "family 'distilbert'"),
        (Shrink(family="mobilebert"), "family 'mobilebert'"),
        (Shrink(groups=2), "'student.groups' has no effect for encoder-decoder"),
        (Shrink(embedding=8), "'student.embedding' has no effect for encoder-decoder"),
        (Shrink(hidden=31), "31 does not divide into 4 heads"),
    ],
)
def test_what_does_not_fit_is_refused(shrink: Shrink, message: str) -> None:
    with pytest.raises(KnobError, match=message):
        shrink.build(translator("marian"))


def test_layers_by_number_must_be_in_both_stacks() -> None:
    with pytest.raises(KnobError, match="decoder layers are 0 to 5"):
        Shrink(keep="0,11").sizes(BASE)


def test_what_is_of_translators_is_refused_elsewhere() -> None:
    encoder = Sizes(layers=12, hidden=768, heads=12, feed_forward=3072)
    with pytest.raises(KnobError, match="no decoder layers"):
        Shrink(decoder_layers=1).sizes(encoder)
    with pytest.raises(KnobError, match="no decoder layers"):
        Shrink(preset="deep-shallow").sized(encoder)


@pytest.mark.parametrize("family", FAMILIES)
def test_a_fingerprint_changes_with_any_weight(family: str) -> None:
    model = translator(family)
    seen = {fingerprint(model)}
    assert seen == {fingerprint(translator(family))}
    weights = {weight.data_ptr(): weight for weight in model.state_dict().values()}  # tied ones once
    for weight in weights.values():
        before = weight.flatten()[-1].clone()
        weight.view(-1)[-1] += 1.0
        seen.add(fingerprint(model))
        weight.view(-1)[-1] = before
    assert len(seen) == len(weights) + 1


def test_a_quarter_of_the_parameters_is_within_reach() -> None:
    teacher = new_seq2seq(Seq2SeqConfig(), tokenizer(997))
    asked = Shrink(preset="half", hidden=128, feed_forward=512).sized(sizes_of(teacher.config))
    student, inheritance = asked.build(teacher)
    assert shape_of(student) == shape_of(student).but(layers=2, decoder_layers=2, hidden=128, heads=2)
    assert 4 * student.num_parameters() <= teacher.num_parameters()
    assert inheritance.fresh == []


def test_sizes_can_be_tried_without_memory() -> None:
    with torch.device("meta"):
        teacher = hf.MarianMTModel(hf.MarianConfig())
    student, _ = Shrink(hidden=256, decoder_layers=1).build(teacher)
    assert student.num_parameters() < teacher.num_parameters() / 8


def test_copies_for_other_seeds_are_whole() -> None:
    student, inheritance = Shrink(hidden=16).build(translator("m2m_100"))
    assert torch.equal(logits(reinit(student, inheritance.fresh)), logits(student))
