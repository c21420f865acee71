"""MiniLM and MiniLMv2 on real models, against numpy on texts that were never padded."""

import copy

import numpy as np
import pytest
import torch
from transformers import (
    BertConfig,
    BertForMaskedLM,
    BertForQuestionAnswering,
    BertForSequenceClassification,
    BertForTokenClassification,
)

from limbeck.core.errors import KnobError, MismatchError
from limbeck.core.forward import forward
from limbeck.core.objective import misfits, requests, wants
from limbeck.core.record import Shape
from limbeck.core.tap import install
from limbeck.core.task import TaskInfo
from limbeck.core.trace import OF_LAYERS, Batch, Request, Trace, Want
from limbeck.objectives import Labels, LogitRegression, SoftTargets
from limbeck.objectives.minilm import MiniLM
from limbeck.objectives.minilmv2 import MiniLMv2
from limbeck.objectives.weighted_sum import weighted_sum
from limbeck.recipes.minilm import MINILM, MINILMV2
from limbeck.recipes.recipe import from_table
from limbeck.teachers.live import LiveTeacher

CLASSIFY = TaskInfo(kind="classify", labels=("a", "b"))
LENGTHS = (8, 3, 5)
OBJECTIVES = [MiniLM(), MiniLMv2(), MiniLMv2(heads=2), MiniLM(layer=2), MiniLMv2(layer=1, keys=0.5, queries=0.0)]


def model(layers, hidden=24, heads=4, seed=0, head=BertForSequenceClassification):
    torch.manual_seed(seed)
    config = BertConfig(
        vocab_size=40,
        hidden_size=hidden,
        num_hidden_layers=layers,
        num_attention_heads=heads,
        intermediate_size=32,
        max_position_embeddings=32,
        initializer_range=0.3,  # so that attention is far from even
    )
    return install(head(config).double().eval())


def shape(bert):
    c = bert.config
    return Shape(
        architecture="bert",
        layers=c.num_hidden_layers,
        hidden=c.hidden_size,
        heads=c.num_attention_heads,
        feed_forward=c.intermediate_size,
    )


def texts(rows=(0, 1, 2), padding=0, task=CLASSIFY):
    ids = torch.randint(5, 40, (len(LENGTHS), max(LENGTHS)), generator=torch.Generator().manual_seed(7))
    present = torch.arange(max(LENGTHS)) < torch.tensor(LENGTHS)[:, None]
    inputs = {"input_ids": ids * present, "attention_mask": present.long()}
    inputs = {name: torch.nn.functional.pad(x[list(rows)], (0, padding)) for name, x in inputs.items()}
    few = torch.zeros(len(rows), dtype=torch.long)
    if task.kind in ("mask-fill", "tag", "answer"):
        labels, predicted = inputs["input_ids"], inputs["attention_mask"].bool()
        return Batch(task, few, labels, predicted, inputs, predicted)
    return Batch(task, few, few, few.bool(), inputs)


def both(objective, student, teacher, batch):
    ask_student, ask_teacher = requests(1.0 * objective, shape(student), shape(teacher))
    return forward(student, batch, ask_student), LiveTeacher(teacher, ask_teacher).answer(batch)


def value(objective, student, teacher, batch, rows=None):
    return weighted_sum(objective, *both(objective, student, teacher, batch), batch, rows)


def gradients(bert):
    return {name: x.grad.clone() for name, x in bert.named_parameters() if x.grad is not None}


def heads_of(bert, text, layer):
    """Queries, keys and values of one text without padding, from the weights: numpy arrays [tokens, width]."""
    plain = copy.deepcopy(bert)
    plain.set_attn_implementation("eager")
    ids = texts().inputs["input_ids"][text : text + 1, : LENGTHS[text]]
    states = plain.bert(ids, output_hidden_states=True).hidden_states[layer - 1]
    own = plain.bert.encoder.layer[layer - 1].attention.self
    return [part(states)[0].detach().numpy() for part in (own.query, own.key, own.value)]


def distributions(first, second, heads):
    """softmax(first · secondᵀ / √d) per head: [heads, tokens, tokens]."""
    cut = [np.stack(np.split(x, heads, axis=1)) for x in (first, second)]
    scores = cut[0] @ cut[1].transpose(0, 2, 1) / np.sqrt(cut[0].shape[-1])
    powers = np.exp(scores - scores.max(-1, keepdims=True))
    return powers / powers.sum(-1, keepdims=True)


def reference(student, teacher, pairs, heads, layer):
    """Mean over all tokens and heads of the KL, for each (first, second) of queries 0, keys 1, values 2."""
    found = []
    for first, second in pairs:
        each = []
        for text in range(len(LENGTHS)):
            mine = heads_of(student, text, student.config.num_hidden_layers)
            its = heads_of(teacher, text, layer)
            q, p = (distributions(x[first], x[second], heads) for x in (mine, its))
            each.append((p * np.log(p / q)).sum(-1).mean(0))
        found.append(np.concatenate(each).mean())
    return found


@pytest.mark.parametrize("layer", [0, 2])
@pytest.mark.parametrize("hidden", [24, 16])
def test_minilm_is_the_papers_formula(layer, hidden):
    student, teacher = model(2, hidden, seed=1), model(3)
    total, shown = value(MiniLM(layer=layer), student, teacher, texts())
    expected = reference(student, teacher, [(0, 1), (2, 2)], 4, layer or 3)
    assert [shown["attention"].item(), shown["values"].item()] == pytest.approx(expected, abs=1e-10)
    assert total.item() == pytest.approx(sum(expected), abs=1e-10)


@pytest.mark.parametrize(("layer", "heads", "used"), [(0, 0, 2), (1, 4, 4), (0, 8, 8), (2, 1, 1)])
def test_minilmv2_is_the_papers_formula_at_any_width_and_number_of_heads(layer, heads, used):
    student, teacher = model(2, 16, heads=2, seed=1), model(3)
    total, shown = value(MiniLMv2(layer=layer, heads=heads), student, teacher, texts())
    expected = reference(student, teacher, [(0, 0), (1, 1), (2, 2)], used, layer or 3)
    assert [shown[name].item() for name in ("queries", "keys", "values")] == pytest.approx(expected, abs=1e-10)
    assert total.item() == pytest.approx(sum(expected), abs=1e-10)


@pytest.mark.parametrize("objective", [MiniLM(), MiniLMv2(), MiniLMv2(heads=6)], ids=str)
def test_a_student_that_equals_its_teacher_has_nothing_to_learn(objective):
    student, teacher = model(3), model(3)
    total, _ = value(objective, student, teacher, texts())
    total.backward()
    assert total.item() == pytest.approx(0.0, abs=1e-12)
    assert max(slope.abs().max().item() for slope in gradients(student).values()) < 1e-10


@pytest.mark.parametrize("objective", OBJECTIVES, ids=str)
def test_padding_and_repeating_the_batch_change_nothing(objective):
    student, teacher = model(2, 16, seed=1), model(3)
    expected, _ = value(objective, student, teacher, texts())
    assert expected.item() > 1e-3
    for batch in (texts(padding=5), texts(rows=(0, 1, 2, 0, 1, 2)), texts(rows=(2, 0, 1))):
        assert value(objective, student, teacher, batch)[0].item() == pytest.approx(expected.item(), abs=1e-12)


@pytest.mark.parametrize("objective", OBJECTIVES, ids=str)
def test_unequal_micro_batches_give_the_gradient_of_one_batch(objective):
    teacher = model(3)
    whole, split = model(2, 16, seed=1), model(2, 16, seed=1)
    value(objective, whole, teacher, texts())[0].backward()
    rows = {"present": torch.tensor(sum(LENGTHS))}
    for piece in ([0, 1], [2]):
        value(objective, split, teacher, texts(piece), rows)[0].backward()
    once, twice = gradients(whole), gradients(split)
    assert once.keys() == twice.keys()
    assert max(slope.abs().max() for slope in once.values()) > 1e-4
    assert all(torch.allclose(once[name], twice[name], atol=1e-12) for name in once)


@pytest.mark.parametrize("objective", OBJECTIVES, ids=str)
def test_what_a_model_showed_at_padding_may_be_anything(objective):
    student, teacher = model(2, 16, seed=1), model(3)
    batch = texts()
    mine, its = both(objective, student, teacher, batch)
    present = batch.inputs["attention_mask"].bool()

    def spoilt(trace):
        def spoil(name, x):
            if not x.numel():
                return x
            hole = ~present[:, None, :, None]
            return x.masked_fill(hole | ~present[:, None, None, :] if name == "attention" else hole, torch.nan)

        layers = {name: tuple(spoil(name, x) for x in getattr(trace, name)) for name in OF_LAYERS}
        return Trace(logits=trace.logits, **layers)

    expected, _ = weighted_sum(objective, mine, its, batch)
    expected.backward()
    clean = gradients(student)
    student.zero_grad()
    found, _ = weighted_sum(objective, *map(spoilt, both(objective, student, teacher, batch)), batch)
    found.backward()
    assert torch.equal(found, expected)
    assert all(torch.equal(slope, clean[name]) for name, slope in gradients(student).items())


def with_another_head(bert):
    other = model(bert.config.num_hidden_layers)
    other.bert.load_state_dict(bert.bert.state_dict(), strict=False)  # only this one has a pooler
    return other


@pytest.mark.parametrize(
    ("task", "head"),
    [
        (TaskInfo(kind="mask-fill", vocab_size=40), BertForMaskedLM),
        (TaskInfo(kind="tag", labels=("a", "b")), BertForTokenClassification),
        (TaskInfo(kind="answer"), BertForQuestionAnswering),
    ],
    ids=lambda part: getattr(part, "kind", ""),
)
def test_every_task_of_an_encoder_is_served_alike(task, head):
    student, teacher = (model(n, seed=n, head=head) for n in (2, 3))
    for objective in (MiniLM(), MiniLMv2()):
        assert not misfits(objective, task)
        found, _ = value(objective, student, teacher, texts(task=task))
        expected, _ = value(objective, *map(with_another_head, (student, teacher)), texts())
        assert found.item() == pytest.approx(expected.item(), abs=1e-12)


def test_only_what_has_weight_is_asked_for():
    student, teacher = shape(model(2, 16)), shape(model(3))
    assert MiniLM().requests(student, teacher) == (
        Request(Want.LOGITS | Want.ATTENTION | Want.VALUES, heads=(2,)),
        Request(Want.ATTENTION | Want.VALUES, heads=(3,)),
    )
    assert MiniLM(attention=0, layer=1).requests(student, teacher)[1] == Request(Want.VALUES, heads=(1,))
    assert MiniLMv2(queries=0).requests(student, teacher)[1] == Request(Want.KEYS | Want.VALUES, heads=(3,))
    assert wants(1.0 * MiniLMv2()) == Want.QUERIES | Want.KEYS | Want.VALUES


def test_a_weight_within_weighs():
    student, teacher = model(2, 16, seed=1), model(3)
    _, plain = value(MiniLM(), student, teacher, texts())
    total, shown = value(MiniLM(attention=0.25, values=0), student, teacher, texts())
    assert set(shown) == {"attention"}
    assert total.item() == pytest.approx(plain["attention"].item() / 4, abs=1e-12)


def test_minilm_needs_as_many_heads_and_says_what_does_not():
    with pytest.raises(MismatchError, match="one to one, but the student has 2 and the teacher 4") as refusal:
        MiniLM().requests(shape(model(2, heads=2)), shape(model(3)))
    assert refusal.value.remedy == "give the student 4 heads, or use minilmv2"


def test_minilmv2_names_the_heads_that_divide_both_widths():
    with pytest.raises(MismatchError, match="48 relation heads") as refusal:
        MiniLMv2(heads=48).requests(shape(model(2, 16)), shape(model(3, 24)))
    assert refusal.value.remedy.endswith("heads to one of 1, 2, 4, 8")


@pytest.mark.parametrize("objective", [MiniLM(layer=4), MiniLMv2(layer=4)], ids=str)
def test_a_layer_the_teacher_does_not_have(objective):
    with pytest.raises(MismatchError, match="layer is 4, but the teacher has 3 layers"):
        objective.requests(shape(model(2)), shape(model(3)))


@pytest.mark.parametrize("objective", [MiniLM(attention=0, values=0), MiniLMv2(queries=0, keys=0, values=0)], ids=str)
def test_without_any_weight_within_it_is_refused(objective):
    with pytest.raises(KnobError, match="every weight within minilm"):
        objective.requests(shape(model(2)), shape(model(3)))


@pytest.mark.parametrize(("plan", "objective"), [(MINILM, MiniLM()), (MINILMV2, MiniLMv2())], ids=["v1", "v2"])
def test_the_recipe_teaches_relations_and_then_answers(plan, objective):
    (stage,) = plan.stages(CLASSIFY).items()
    assert stage[0] == "relations"
    assert from_table(stage[1].objective).weighted == ((1.0, objective),)
    assert [type(part) for _, part in plan.objective(CLASSIFY).weighted] == [Labels, SoftTargets]
    assert [type(part) for _, part in plan.objective(TaskInfo(kind="regress")).weighted] == [Labels, LogitRegression]
    assert "relations" in plan.text
