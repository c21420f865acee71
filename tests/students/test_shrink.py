"""A student of every family: what it inherits, what it computes, and that transformers opens it again."""

from __future__ import annotations

import doctest
from pathlib import Path

import pytest
import torch
import transformers as hf
from hypothesis import given
from hypothesis import strategies as st

import limbeck
from limbeck.core.errors import KnobError, ModelError
from limbeck.students.inherit import Inheritance
from limbeck.students.shrink import Shrink, kept_layers
from limbeck.students.sizes import Sizes, hidden_coordinates, shape_of, sizes_of, spread, within_head
from students.tiny_encoders import COMMON, CONFIGS, LABELS, SIZES, classifier, logits

pytestmark = pytest.mark.slow

FAMILIES = list(CONFIGS)
SHARED = ("albert",)  # all layers have the same weights

WIDTHS = {
    "heads": (Shrink(heads=2), {"heads": 2, "hidden": 16}),
    "head_size": (Shrink(head_size=4), {"heads": 4, "hidden": 16}),
    "hidden": (Shrink(hidden=24), {"heads": 3, "hidden": 24}),
    "hidden, heads stay": (Shrink(hidden=24, heads=4, feed_forward=40), {"heads": 4, "hidden": 24, "feed_forward": 40}),
    "heads merge": (Shrink(heads=2, hidden=32), {"heads": 2, "hidden": 32}),
    "feed_forward": (Shrink(feed_forward=20), {"feed_forward": 20}),
    "all": (
        Shrink(layers=2, heads=2, head_size=6, feed_forward=20),
        {"layers": 2, "heads": 2, "hidden": 12, "feed_forward": 20},
    ),
}


@pytest.mark.parametrize("family", FAMILIES)
def test_all_layers_kept_is_the_teacher_bit_for_bit(family: str) -> None:
    teacher = classifier(family)
    student, inheritance = Shrink(layers=4).build(teacher)
    assert torch.equal(logits(student), logits(teacher))
    assert inheritance == Inheritance(layers=[0, 1, 2, 3], whole=len(teacher.state_dict()))
    assert not student.training


@pytest.mark.parametrize("family", FAMILIES)
def test_depth_takes_the_mapped_layers(family: str) -> None:
    teacher = classifier(family)
    student, inheritance = Shrink(layers=2, keep="1,3").build(teacher)
    assert inheritance.layers == [1, 3]
    assert sizes_of(student.config).layers == 2
    assert inheritance.fresh == []
    if family not in SHARED:
        same = []
        layers = next(part for part in teacher.modules() if isinstance(part, torch.nn.ModuleList) and len(part) == 4)
        copied = next(part for part in student.modules() if isinstance(part, torch.nn.ModuleList) and len(part) == 2)
        for mine, theirs in zip(copied, (layers[1], layers[3]), strict=True):
            same += [torch.equal(tensor, theirs.state_dict()[name]) for name, tensor in mine.state_dict().items()]
        assert same
        assert all(same)


@pytest.mark.parametrize("family", [family for family in FAMILIES if family not in SHARED])
def test_the_student_answers_as_the_teacher_with_a_layer_deleted(family: str) -> None:
    teacher = classifier(family)
    student, _ = Shrink(keep="0,1,3").build(teacher)
    layers = next(part for part in teacher.modules() if isinstance(part, torch.nn.ModuleList) and len(part) == 4)
    del layers[2]
    teacher.config.num_hidden_layers = 3
    if hasattr(teacher.config, "layer_types"):
        del teacher.config.layer_types[2]
    assert torch.equal(logits(student), logits(teacher))


@pytest.mark.parametrize("family", FAMILIES)
def test_every_width_knob_saves_opens_and_answers_alike(family: str, tmp_path: Path) -> None:
    teacher = classifier(family)
    for name, (shrink, expected) in WIDTHS.items():
        student, inheritance = shrink.build(teacher)
        shape = shape_of(student)
        assert {size: getattr(shape, size) for size in expected} == expected, name
        assert (inheritance.fresh, inheritance.dropped) == ([], []), name
        assert inheritance.whole + inheritance.sliced == len(student.state_dict())
        answers = logits(student)
        assert torch.isfinite(answers).all()
        student.save_pretrained(tmp_path / name)
        opened, info = hf.AutoModelForSequenceClassification.from_pretrained(tmp_path / name, output_loading_info=True)
        assert not any(info.values()), (name, info)
        assert torch.equal(logits(opened.eval()), answers), name
        assert opened.config.id2label == LABELS
        assert opened.config.problem_type == "single_label_classification"


@pytest.mark.parametrize("family", FAMILIES)
def test_removing_silent_neurons_changes_no_answer(family: str) -> None:
    teacher = classifier(family)
    silent = torch.randperm(64, generator=torch.Generator().manual_seed(2))[:40]
    outgoing = [weight for name, weight in teacher.named_parameters() if weight.shape == (32, 64)]
    assert outgoing
    for weight in outgoing:
        weight.data[:, silent] = 0.0
    student, inheritance = Shrink(feed_forward=24).build(teacher)
    assert inheritance.sliced > 0
    torch.testing.assert_close(logits(student), logits(teacher))


@pytest.mark.parametrize("family", ["bert", "deberta", "deberta-v2", "modernbert", "mpnet", "distilbert", "eurobert"])
def test_a_kept_head_keeps_its_query_key_value_and_output(family: str) -> None:
    teacher = classifier(family)
    before, after = sizes_of(teacher.config), Sizes(layers=4, hidden=16, heads=2, feed_forward=64)
    places = hidden_coordinates(before, after)
    assert places == [*range(8), *range(24, 32)]
    student, _ = Shrink(heads=2).build(teacher)
    fused = {"deberta": ("in_proj", (4, 3, 8, 32), (2, 3, 8, 16)), "modernbert": ("Wqkv", (3, 4, 8, 32), (3, 2, 8, 16))}
    checked = 0
    for name, weight in student.state_dict().items():
        theirs = teacher.state_dict()[name]
        if family in fused and fused[family][0] in name.split("."):
            _, wide, narrow = fused[family]
            expected = theirs.view(wide).index_select(wide.index(4), torch.tensor([0, 3]))[..., places]
            assert torch.equal(weight.view(narrow), expected)
            checked += 1
        elif theirs.shape == (32, 32):
            assert torch.equal(weight, theirs[places][:, places])
            checked += 1
        elif theirs.shape == (32, 4):  # MPNet's position bias, [bucket, head]
            assert torch.equal(weight, theirs[:, [0, 3]])
    assert checked >= 4


def test_merging_heads_keeps_query_key_and_value_apart() -> None:
    """DeBERTa stores [head][q, k, v]: two heads that merge bring their queries together, then their keys."""
    teacher = classifier("deberta")
    student, _ = Shrink(heads=2, hidden=32).build(teacher)
    name = "deberta.encoder.layer.0.attention.self.in_proj.weight"
    theirs = teacher.state_dict()[name].view(4, 3, 8, 32)
    mine = student.state_dict()[name].view(2, 3, 16, 32)
    assert torch.equal(mine[1, 2], torch.cat([theirs[2, 2], theirs[3, 2]]))


def test_modernbert_layers_keep_their_kind_of_attention() -> None:
    teacher = classifier("modernbert")
    assert teacher.config.layer_types == ["full_attention", *["sliding_attention"] * 2, "full_attention"]
    student, _ = Shrink(keep="0,2").build(teacher)
    assert student.config.layer_types == ["full_attention", "sliding_attention"]
    last, inheritance = Shrink(layers=2, keep="last").build(teacher)
    assert last.config.layer_types == ["sliding_attention", "full_attention"]
    assert inheritance.dropped == ["model.layers.2.attn_norm.weight"]  # a first layer has none
    assert "left out (model.layers.2.attn_norm.weight)" in inheritance.sentence()


def test_rotary_pairs_and_frequencies_survive_a_smaller_head() -> None:
    assert within_head(8, 4) == [0, 2, 4, 6]  # pairs (0, 4) and (2, 6), frequencies θ^0 and θ^(-4/8) = θ^(-2/4)
    with pytest.raises(KnobError, match="rotary"):
        Shrink(head_size=3).build(classifier("modernbert"))


def test_embeddings_that_are_as_wide_as_the_stream_narrow_with_it() -> None:
    student, _ = Shrink(hidden=16).build(classifier("electra-even"))
    assert student.config.embedding_size == 16
    student, _ = Shrink(hidden=16).build(classifier("electra"))
    assert student.config.embedding_size == 10


def test_a_projection_that_vanishes_is_said() -> None:
    teacher = hf.ElectraForSequenceClassification(hf.ElectraConfig(**COMMON, **SIZES, embedding_size=16))
    _, inheritance = Shrink(hidden=16).build(teacher)
    assert inheritance.dropped == ["electra.embeddings_project.bias", "electra.embeddings_project.weight"]


def test_what_cannot_be_inherited_is_fresh_and_named() -> None:
    """Qwen3 norms each head: a smaller head keeps its places of that norm, a merged one starts a new norm."""
    sizes = {**SIZES, "num_hidden_layers": 1, "num_key_value_heads": 4, "head_dim": 8}
    teacher = hf.Qwen3ForSequenceClassification(hf.Qwen3Config(**COMMON, **sizes))
    norms = [f"model.layers.0.self_attn.{part}_norm.weight" for part in "qk"]
    _, inheritance = Shrink(heads=2, hidden=32).build(teacher)
    assert inheritance.fresh == norms
    assert f"2 new ({norms[0]}, {norms[1]})" in inheritance.sentence()
    student, inheritance = Shrink(head_size=4).build(teacher)
    assert inheritance.fresh == []
    assert student.config.head_dim == 4


def test_building_is_reproducible_and_leaves_the_teacher_alone() -> None:
    teacher = classifier("deberta-v3")
    before = {name: tensor.clone() for name, tensor in teacher.state_dict().items()}
    config = teacher.config.to_dict()
    states = []
    for _ in range(2):
        torch.manual_seed(7)
        Shrink(layers=2, hidden=16).build(teacher)
        states.append(torch.get_rng_state())
    assert torch.equal(*states)
    assert teacher.config.to_dict() == config
    assert all(torch.equal(tensor, before[name]) for name, tensor in teacher.state_dict().items())


@pytest.mark.parametrize(
    ("shrink", "parameters"),
    [
        (Shrink(layers=12), 109_482_240),
        (Shrink(layers=6), 66_955_008),  # TinyBERT6
        (Shrink(layers=3), 45_691_392),  # PKD-3
        (Shrink(layers=4, hidden=312, heads=12, feed_forward=1200), 14_350_248),  # TinyBERT4
    ],
)
def test_published_sizes(shrink: Shrink, parameters: int) -> None:
    with torch.device("meta"):
        teacher = hf.BertModel(hf.BertConfig())
    student, inheritance = shrink.build(teacher)
    assert sum(parameter.numel() for parameter in student.parameters()) == parameters
    assert inheritance.fresh == []


@pytest.mark.parametrize(
    ("rule", "of", "layers", "expected"),
    [
        ("spread", 12, 6, [0, 2, 4, 7, 9, 11]),
        ("spread", 6, 3, [0, 2, 5]),
        ("spread", 6, 1, [0]),
        ("spread", 6, 0, [0, 1, 2, 3, 4, 5]),
        ("first", 6, 2, [0, 1]),
        ("last", 6, 2, [4, 5]),
        ("every-2", 6, 0, [0, 2, 4]),
        ("every-3", 12, 4, [0, 3, 6, 9]),
        ("0, 2,5", 6, 0, [0, 2, 5]),
    ],
)
def test_layer_rules(rule: str, of: int, layers: int, expected: list[int]) -> None:
    assert kept_layers(rule, of, layers) == expected


@pytest.mark.parametrize(
    ("rule", "layers", "message"),
    [
        ("spread", 7, "teacher has 6 layers"),
        ("every-2", 2, "keeps 3 layers, but knob 'layers' is 2"),
        ("every-0", 0, "every-0"),
        ("2,1", 0, "ascending"),
        ("0,6", 0, "0 to 5"),
        ("middle", 0, "spread, first, last"),
        ("", 0, "spread, first, last"),
    ],
)
def test_layer_rules_refused(rule: str, layers: int, message: str) -> None:
    with pytest.raises(KnobError, match=message):
        kept_layers(rule, 6, layers)


@given(st.integers(1, 48), st.data())
def test_spread_is_strictly_increasing_with_both_ends(count: int, data: st.DataObject) -> None:
    keep = data.draw(st.integers(1, count))
    places = spread(count, keep)
    assert len(places) == keep
    assert places == sorted(set(places))
    assert places[0] == 0
    assert keep == 1 or places[-1] == count - 1


@given(st.integers(1, 12), st.integers(1, 16), st.data())
def test_hidden_places_are_a_subset_in_order(heads: int, head_size: int, data: st.DataObject) -> None:
    teacher = Sizes(layers=1, hidden=heads * head_size, heads=heads, feed_forward=1)
    few = data.draw(st.integers(1, heads))
    student = Sizes(1, few * data.draw(st.integers(1, teacher.hidden // few)), few, 1)
    places = hidden_coordinates(teacher, student)
    assert len(places) == student.hidden
    assert places == sorted(set(places))
    assert 0 <= places[0] <= places[-1] < teacher.hidden


@pytest.mark.parametrize(
    ("shrink", "heads", "hidden"),
    [
        (Shrink(heads=6), 6, 384),
        (Shrink(head_size=32), 12, 384),
        (Shrink(hidden=256), 4, 256),  # 64 divides
        (Shrink(hidden=312), 12, 312),  # only the heads divide
        (Shrink(hidden=384, heads=12), 12, 384),
        (Shrink(hidden=768, heads=4), 4, 768),
        (Shrink(hidden=320, head_size=32), 10, 320),
        (Shrink(hidden=320, head_size=32, heads=10), 10, 320),
    ],
)
def test_width_arithmetic(shrink: Shrink, heads: int, hidden: int) -> None:
    sizes = shrink.sizes(Sizes(layers=12, hidden=768, heads=12, feed_forward=3072))
    assert (sizes.heads, sizes.hidden) == (heads, hidden)


@pytest.mark.parametrize(
    ("shrink", "message"),
    [
        (Shrink(hidden=310), "300, 312, 320, 324"),
        (Shrink(hidden=310, heads=6), "300, 306, 312, 318"),
        (Shrink(hidden=310, heads=6, head_size=64), "set hidden to 384"),
        (Shrink(hidden=16, head_size=32), "32, 64, 96, 128"),
        (Shrink(hidden=1536), "would be 1536, but the teacher has 768"),
        (Shrink(heads=24, hidden=768), "would be 24, but the teacher has 12"),
        (Shrink(head_size=65), "would be 780, but the teacher has 768"),
        (Shrink(feed_forward=4096), "would be 4096, but the teacher has 3072"),
        (Shrink(layers=13), "teacher has 12 layers"),
    ],
)
def test_widths_refused(shrink: Shrink, message: str) -> None:
    with pytest.raises(KnobError, match=message):
        shrink.sizes(Sizes(layers=12, hidden=768, heads=12, feed_forward=3072))


def test_negative_sizes_are_refused_by_name() -> None:
    with pytest.raises(KnobError, match="heads"):
        Shrink(heads=-1)


def test_an_architecture_without_the_usual_sizes_is_refused_with_the_remedy() -> None:
    with pytest.raises(ModelError, match=r"feed-forward size\n.*BERT"):
        sizes_of(hf.ReformerConfig())
    config = hf.FunnelConfig(vocab_size=100, block_sizes=[1, 1], d_model=16, n_head=2, d_head=8, d_inner=32)
    with pytest.raises(ModelError, match=r"num_hidden_layers of a funnel model cannot be set\n.*BERT"):
        Shrink(layers=1).build(hf.FunnelForSequenceClassification(config))


def test_albert_with_several_groups_keeps_its_depth() -> None:
    config = hf.AlbertConfig(**COMMON, **SIZES, embedding_size=12, num_hidden_groups=2)
    teacher = hf.AlbertForSequenceClassification(config)
    with pytest.raises(ModelError, match="shares 2 groups"):
        Shrink(layers=2).build(teacher)
    student, _ = Shrink(hidden=16).build(teacher)
    assert student.config.num_hidden_groups == 2


def test_the_module_is_free_of_torch() -> None:
    import subprocess
    import sys

    code = "import sys, limbeck.students.shrink, limbeck.students.load; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


@pytest.mark.parametrize(
    ("asked", "expected"),
    [
        ({}, {"layers": 6}),
        ({"preset": "half"}, {"layers": 6}),
        ({"preset": "third"}, {"layers": 4}),
        ({"preset": "quarter", "hidden": 384}, {"layers": 3, "hidden": 384}),
        ({"preset": "tinybert"}, {"layers": 4, "hidden": 312, "heads": 12, "feed_forward": 1200}),
        ({"preset": "small", "family": "electra"}, {"layers": 6, "feed_forward": 768, "embedding": 256, "hidden": 0}),
        ({"preset": "tiny", "family": "electra"}, {"layers": 4, "feed_forward": 512, "embedding": 128, "hidden": 512}),
        ({"preset": "tiny", "family": "same"}, {"layers": 4, "feed_forward": 512, "hidden": 0}),
        ({"preset": "tiny", "family": "electra", "heads": 6}, {"layers": 4, "heads": 6, "hidden": 0}),
        ({"preset": "small", "family": "same", "layers": 2, "embedding": 64}, {"layers": 2, "feed_forward": 768}),
        ({"preset": "small", "family": "electra", "keep": "1,11"}, {"layers": 0, "embedding": 256}),
        ({"preset": "small", "family": "albert"}, {"layers": 6, "feed_forward": 0, "embedding": 0}),
        ({"layers": 5}, {"layers": 5}),
        ({"hidden": 384}, {"layers": 0, "hidden": 384}),
        ({"keep": "first"}, {"layers": 6}),
        ({"keep": "0,5"}, {"layers": 0}),
        ({"family": "albert"}, {"layers": 0}),
        ({"family": "albert", "preset": "half"}, {"layers": 6}),
    ],
)
def test_a_size_by_name(asked, expected):
    base = Sizes(layers=12, hidden=768, heads=12, feed_forward=3072)
    found = Shrink(**asked).sized(base)
    assert {name: getattr(found, name) for name in expected} == expected
    assert found.sized(base) == found


def test_a_size_by_name_and_another_by_number_are_refused():
    with pytest.raises(KnobError, match="both say how large"):
        Shrink(preset="half", layers=5).sized(Sizes(layers=12, hidden=768, heads=12, feed_forward=3072))


@pytest.mark.parametrize(
    ("sizes", "layers"),
    [({}, 2), ({"preset": "half"}, 2), ({"preset": "quarter"}, 1), ({"layers": 3}, 3), ({"keep": "last"}, 2)],
)
def test_building_gives_the_size_promised(sizes, layers):
    student, inheritance = Shrink(**sizes).build(classifier("bert"))
    assert shape_of(student).layers == len(inheritance.layers) == layers
    assert shape_of(limbeck.shrink(classifier("bert"), **sizes)).layers == layers


def test_a_size_by_name_that_another_contradicts_is_refused_in_building_too():
    with pytest.raises(KnobError, match="both say how large"):
        limbeck.shrink(classifier("bert"), preset="half", layers=3)


@pytest.mark.parametrize("public", [limbeck.shrink, limbeck.Shrink], ids=["shrink", "Shrink"])
def test_the_examples_run(public):
    example = doctest.DocTestFinder(recurse=False).find(public, "example", globs={})[0]
    assert example.examples
    runner = doctest.DocTestRunner()
    runner.run(example)
    assert runner.failures == 0
