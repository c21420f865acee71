"""Layers that share their weights: ALBERT made from BERT, and any encoder in its own architecture."""

from __future__ import annotations

import copy
import subprocess
import sys
from pathlib import Path

import pytest
import torch
import transformers as hf
from safetensors.torch import load_file

from limbeck.core.errors import KnobError, ModelError
from limbeck.core.task import TaskInfo
from limbeck.recipes.albert import ALBERT
from limbeck.students.factorised_embeddings import centred, directions, off_the_diagonal, second_moment
from limbeck.students.inherit import reinit
from limbeck.students.shared_layers import FAMILIES, groups_of, middles, ties
from limbeck.students.shrink import Shrink
from limbeck.students.sizes import shape_of
from students.tiny_encoders import COMMON, CONFIGS, SIZES, batch, classifier, logits, tokenizer

pytestmark = pytest.mark.slow

SHAREABLE = [name for name, make in CONFIGS.items() if make().model_type in FAMILIES]
KINDS = ("ForSequenceClassification", "ForTokenClassification", "ForQuestionAnswering", "ForMaskedLM", "Model")


def parameters(model: torch.nn.Module) -> int:
    return sum(parameter.numel() for parameter in model.parameters())


def bert(kind: str = "ForSequenceClassification", **config) -> hf.PreTrainedModel:
    """Every tensor of its own, norms and biases included."""
    torch.manual_seed(0)
    ends = {"id2label": {0: "start", 1: "end"}} if kind == "ForQuestionAnswering" else {}
    model = getattr(hf, f"Bert{kind}")(hf.BertConfig(**{**COMMON, **SIZES, **ends, **config}))
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.copy_(0.2 * torch.randn_like(parameter) + (parameter.dim() == 1) * 0.5)
    return model.eval()


@torch.no_grad()
def answers(model: hf.PreTrainedModel) -> list[torch.Tensor]:
    present = batch()["attention_mask"].bool()
    shown = model(**batch(), output_hidden_states=True)
    outputs = [shown[name] for name in shown if name != "hidden_states"]
    return [x[present] if x.shape[:2] == present.shape else x for x in (*outputs, *shown.hidden_states)]


def albert(teacher: hf.PreTrainedModel, **how):
    return Shrink(family="albert", **how).build(teacher)


@pytest.mark.parametrize("kind", KINDS)
def test_unshared_and_not_factorised_it_is_its_teacher(kind: str) -> None:
    teacher = bert(kind)
    student, inheritance = albert(teacher, groups=4, embedding=32)
    assert type(student).__name__ == f"Albert{kind}"
    assert (inheritance.layers, inheritance.sliced, inheritance.dropped) == ([0, 1, 2, 3], 0, [])
    for ours, theirs in zip(answers(student), answers(teacher), strict=True):
        torch.testing.assert_close(ours, theirs, atol=1e-5, rtol=0)


def test_one_layer_is_the_ordinary_layer() -> None:
    teacher = bert(num_hidden_layers=1)
    student, _ = albert(teacher, groups=1, embedding=32)
    torch.testing.assert_close(logits(student), logits(teacher), atol=1e-5, rtol=0)


@pytest.mark.parametrize(
    ("layers", "hidden", "heads", "count"),
    [
        (12, 768, 12, 11_683_584),
        (24, 768, 12, 11_683_584),  # whatever the depth
        (24, 1024, 16, 17_683_968),
        (24, 2048, 16, 58_724_864),
        (12, 4096, 64, 222_595_584),
    ],
)
def test_the_published_sizes(layers: int, hidden: int, heads: int, count: int) -> None:
    sizes = {"num_hidden_layers": layers, "hidden_size": hidden, "num_attention_heads": heads}
    with torch.device("meta"):
        teacher = hf.BertModel(hf.BertConfig(vocab_size=30_000, intermediate_size=4 * hidden, **sizes))
    student, _ = albert(teacher)
    assert student.device.type == "meta"
    assert parameters(student) == count


def test_what_sharing_and_factorising_save_apart() -> None:
    with torch.device("meta"):
        teacher = hf.BertModel(hf.BertConfig(vocab_size=30_000))
    assert parameters(albert(teacher, groups=12)[0]) == 89_650_176
    wide = albert(teacher, embedding=768)[0]
    # transformers keeps a map between equal widths, which the count of 31.11M does not have.
    assert parameters(wide) - parameters(wide.encoder.embedding_hidden_mapping_in) == 31_114_752


@pytest.mark.parametrize(("layers", "groups"), [(4, 1), (4, 2), (5, 2), (12, 3), (7, 7)])
def test_groups_are_alberts_and_start_from_their_middle(layers: int, groups: int) -> None:
    of_layer = groups_of(layers, groups)
    assert of_layer == sorted(of_layer)
    assert set(of_layer) == set(range(groups))
    for group, middle in enumerate(middles(layers, groups)):
        members = [layer for layer in range(layers) if of_layer[layer] == group]
        assert middle in members
        assert abs(members.index(middle) - (len(members) - 1) / 2) <= 0.5


def test_a_group_computes_with_the_layer_in_its_middle() -> None:
    teacher = bert()
    student, inheritance = albert(teacher, groups=2, embedding=32)
    assert inheritance.layers == [1, 1, 3, 3]
    for place, origin in enumerate(inheritance.layers):
        if place != origin:
            teacher.bert.encoder.layer[place].load_state_dict(teacher.bert.encoder.layer[origin].state_dict())
    torch.testing.assert_close(logits(student), logits(teacher), atol=1e-5, rtol=0)


def embedded(model: hf.PreTrainedModel) -> torch.Tensor:
    with torch.no_grad():
        return model(**batch(), output_hidden_states=True).hidden_states[0]


def test_factorised_embeddings_lose_nothing_they_have_room_for() -> None:
    """Words, positions and segments that vary in 9 directions, and a tenth for what the norm's centring takes."""
    teacher = bert()
    tables = teacher.bert.embeddings
    with torch.no_grad():
        few = torch.randn(9, 32)
        for table in (tables.word_embeddings, tables.position_embeddings, tables.token_type_embeddings):
            table.weight.copy_(torch.randn(len(table.weight), 9) @ few)
    enough, inheritance = albert(teacher, groups=4, embedding=10)
    torch.testing.assert_close(embedded(enough), embedded(teacher), atol=1e-4, rtol=0)
    torch.testing.assert_close(logits(enough), logits(teacher), atol=1e-4, rtol=0)
    assert inheritance.sliced == 5
    assert inheritance.fresh == ["albert.embeddings.LayerNorm.weight", "albert.embeddings.LayerNorm.bias"]
    short, _ = albert(teacher, groups=4, embedding=6)
    assert (embedded(short) - embedded(teacher)).abs().max() > 1e-2


def test_more_width_keeps_more_of_the_embeddings() -> None:
    teacher = bert()
    lost = [(embedded(albert(teacher, embedding=width)[0]) - embedded(teacher)).norm() for width in (4, 12, 24, 31)]
    assert lost == sorted(lost, reverse=True)
    noise = embedded(albert(teacher, embedding=12)[0]) - embedded(teacher)[torch.tensor([1, 2, 0])]
    assert lost[1] < 0.8 * noise.norm()


def test_directions_of_one_table_are_its_truncated_svd() -> None:
    torch.manual_seed(0)
    table = torch.randn(50, 8, dtype=torch.float64) @ torch.randn(8, 12, dtype=torch.float64)
    found = directions([table], 5)
    u, s, v = torch.linalg.svd(table, full_matrices=False)
    torch.testing.assert_close(table @ found @ found.T, u[:, :5] * s[:5] @ v[:5])
    torch.testing.assert_close(found.T @ found, torch.eye(5, dtype=torch.float64))


def test_the_second_moment_is_that_of_every_sum() -> None:
    torch.manual_seed(0)
    a, b = torch.randn(4, 3, dtype=torch.float64), torch.randn(5, 3, dtype=torch.float64)
    sums = (a[:, None] + b).reshape(-1, 3)
    torch.testing.assert_close(second_moment([a, b]), sums.T @ sums / 20)
    torch.testing.assert_close(centred(a).sum(1), torch.zeros(4, dtype=torch.float64))
    spared = off_the_diagonal(6, a.device)
    torch.testing.assert_close(spared.T @ spared, torch.eye(5, dtype=torch.float64))
    torch.testing.assert_close(spared.sum(0), torch.zeros(5, dtype=torch.float64))


@pytest.mark.parametrize("kind", ["ForMaskedLM", "ForPreTraining"])
def test_a_narrow_language_model_ties_its_words(kind: str, tmp_path: Path) -> None:
    student, inheritance = albert(bert(kind), embedding=8)
    assert type(student) is hf.AlbertForMaskedLM
    assert student.get_output_embeddings().weight is student.get_input_embeddings().weight
    assert any("predictions.dense" in name for name in inheritance.fresh)
    assert ("cls.seq_relationship.weight" in inheritance.dropped) == (kind == "ForPreTraining")
    torch.manual_seed(5)
    other = reinit(student, inheritance.fresh)
    assert torch.equal(other.get_input_embeddings().weight, student.get_input_embeddings().weight)
    assert not torch.equal(other.predictions.dense.weight, student.predictions.dense.weight)
    student.save_pretrained(tmp_path)
    opened = hf.AutoModelForMaskedLM.from_pretrained(tmp_path).eval()
    assert torch.equal(logits(opened), logits(student))


def test_what_an_albert_cannot_be() -> None:
    with pytest.raises(ModelError, match=r"from a BERT, not from RobertaForSequenceClassification\n.*groups 1"):
        albert(classifier("roberta"))
    with pytest.raises(KnobError, match="1 to 4 groups"):
        albert(bert(), groups=5)
    with pytest.raises(KnobError, match="2 to 32"):
        albert(bert(), embedding=64)
    with pytest.raises(KnobError, match="the teacher's width"):
        albert(bert(), hidden=16)


@pytest.mark.parametrize("family", SHAREABLE)
@pytest.mark.parametrize("how", [{"groups": 2}, {"groups": 1, "embedding": 6}, {"groups": 1, "layers": 3, "heads": 2}])
def test_any_encoder_shares_saves_once_and_opens_tied(family: str, how: dict[str, int], tmp_path: Path) -> None:
    teacher = classifier(family)
    student, _ = Shrink(**how).build(teacher)
    student.save_pretrained(tmp_path)
    in_file = load_file(tmp_path / "model.safetensors")
    assert sum(tensor.numel() for tensor in in_file.values()) == parameters(student) < parameters(teacher)
    opened, info = hf.AutoModelForSequenceClassification.from_pretrained(tmp_path, output_loading_info=True)
    assert not any(info.values())
    assert torch.equal(logits(opened.eval()), logits(student))
    assert parameters(opened) == parameters(student)
    assert shape_of(opened) == shape_of(student)
    assert opened.config.id2label == teacher.config.id2label
    for target, source in ties(opened).items():
        assert opened.get_parameter(target) is opened.get_parameter(source)


@pytest.mark.parametrize("family", SHAREABLE)
def test_as_many_groups_as_layers_is_the_teacher(family: str) -> None:
    teacher = classifier(family)
    student, inheritance = Shrink(groups=4).build(teacher)
    assert torch.equal(logits(student), logits(teacher))
    assert not ties(student)
    assert inheritance.layers == [0, 1, 2, 3]


@pytest.mark.parametrize("family", ["bert", "modernbert", "deberta-v3"])
def test_untied_and_copied_it_answers_alike(family: str) -> None:
    teacher = classifier(family)
    shared, _ = Shrink(groups=1).build(teacher)
    untied, _ = Shrink(layers=4).build(teacher)
    untied.load_state_dict(shared.state_dict())
    assert torch.equal(logits(untied), logits(shared))


@pytest.mark.parametrize("family", ["bert", "distilbert", "electra"])
def test_the_gradient_of_a_shared_weight_is_the_sum_over_its_uses(family: str) -> None:
    shared, _ = Shrink(groups=2).build(classifier(family))
    untied, _ = Shrink(layers=4).build(classifier(family))
    untied.load_state_dict(shared.state_dict())
    for model in (shared, untied):
        model(**batch()).logits.square().sum().backward()
    uses: dict[str, list[str]] = {}
    for target, source in ties(shared).items():
        uses.setdefault(source, [source]).append(target)
    assert uses
    for source, names in uses.items():
        expected = sum(untied.get_parameter(name).grad for name in names)
        torch.testing.assert_close(shared.get_parameter(source).grad, expected)


def test_alberts_gradient_is_the_sum_over_its_uses() -> None:
    one, _ = albert(bert(), groups=1)
    four, _ = albert(bert(), groups=4)
    four.load_state_dict(one.state_dict(), strict=False)
    groups = four.albert.encoder.albert_layer_groups
    for group in groups:
        group.load_state_dict(one.albert.encoder.albert_layer_groups[0].state_dict())
    for model in (one, four):
        model(**batch()).logits.square().sum().backward()
    for name, parameter in one.albert.encoder.albert_layer_groups[0].named_parameters():
        torch.testing.assert_close(parameter.grad, sum(group.get_parameter(name).grad for group in groups))


def test_sharing_survives_copies_and_steps() -> None:
    student, inheritance = Shrink(groups=1).build(classifier("bert"))
    for model in (copy.deepcopy(student), reinit(student, inheritance.fresh)):
        optimiser = torch.optim.AdamW(model.parameters(), lr=0.01)
        model(**batch()).logits.sum().backward()
        optimiser.step()
        first, last = model.bert.encoder.layer[0], model.bert.encoder.layer[3]
        assert first.intermediate.dense.weight is last.intermediate.dense.weight
        assert not torch.equal(first.intermediate.dense.weight, student.bert.encoder.layer[0].intermediate.dense.weight)
        assert len({id(p) for group in optimiser.param_groups for p in group["params"]}) == len(
            list(model.parameters())
        )


def test_a_shared_language_model_keeps_both_ties(tmp_path: Path) -> None:
    student, _ = Shrink(groups=1).build(bert("ForMaskedLM"))
    student.save_pretrained(tmp_path)
    opened = hf.AutoModelForMaskedLM.from_pretrained(tmp_path).eval()
    assert opened.get_output_embeddings().weight is opened.get_input_embeddings().weight
    assert opened.bert.encoder.layer[3].output.dense.weight is opened.bert.encoder.layer[0].output.dense.weight
    assert torch.equal(logits(opened), logits(student))
    with pytest.raises(KnobError, match=r"factorised alone\n.*albert"):
        Shrink(embedding=8).build(bert("ForMaskedLM"))


def test_what_cannot_be_shared() -> None:
    with pytest.raises(ModelError, match=r"AlbertForSequenceClassification cannot be shared\n.*bert, roberta"):
        Shrink(groups=2).build(classifier("albert"))
    with pytest.raises(KnobError, match="1 to 4 groups"):
        Shrink(groups=5).build(classifier("bert"))
    with pytest.raises(KnobError, match="below 32"):
        Shrink(embedding=32).build(classifier("bert"))
    with pytest.raises(KnobError, match="narrower than its teacher"):
        Shrink(embedding=8, heads=2).build(classifier("bert"))
    with pytest.raises(KnobError, match=r"'student\.groups' has no effect for family 'distilbert'"):
        Shrink(groups=2, family="distilbert").build(bert("ForMaskedLM"))
    shared, _ = Shrink(groups=2).build(classifier("bert"))
    with pytest.raises(ModelError, match="shares 2 groups"):
        Shrink(layers=2).build(shared)
    with pytest.raises(ModelError, match="SharedBertForSequenceClassification cannot be shared"):
        Shrink(groups=1).build(shared)


def test_a_new_process_opens_it_once_ours_are_registered(tmp_path: Path) -> None:
    student, _ = Shrink(groups=1).build(classifier("bert"))
    student.save_pretrained(tmp_path)
    tokenizer(tmp_path).save_pretrained(tmp_path)
    code = (
        "import sys, limbeck\n"
        "assert not {'torch', 'transformers'} & sys.modules.keys()\n"
        "limbeck.register(); limbeck.register()\n"
        "from transformers import AutoModelForSequenceClassification, AutoTokenizer\n"
        "AutoTokenizer.from_pretrained(sys.argv[1])\n"
        "layer = (model := AutoModelForSequenceClassification.from_pretrained(sys.argv[1])).bert.encoder.layer\n"
        "assert layer[0].output.dense.weight is layer[3].output.dense.weight\n"
        "print(sum(p.numel() for p in model.parameters()))"
    )
    run = subprocess.run([sys.executable, "-c", code, str(tmp_path)], check=False, capture_output=True, text=True)
    assert run.stdout.split() == [str(parameters(student))], run.stderr


def test_the_recipe_is_hintons_and_says_that_it_saves_no_time() -> None:
    assert Shrink(**ALBERT.defaults["student"]).family == "albert"
    for kind in ALBERT.tasks:
        assert all(kind in part.serves for _, part in ALBERT.objective(TaskInfo(kind=kind, labels=("a", "b"))).weighted)
    assert "does not buy: time" in ALBERT.text
