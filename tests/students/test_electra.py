"""An ELECTRA made from another encoder: its teacher where the family can say it, near it where it cannot."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
import transformers as hf

from limbeck.core.compress import Calibration
from limbeck.core.errors import KnobError, ModelError
from limbeck.core.task import TaskInfo
from limbeck.core.trace import Batch
from limbeck.students.electra import can_be_electra, near
from limbeck.students.inherit import Axis, mean_activations, strongest_neurons
from limbeck.students.shrink import Shrink
from students.tiny_encoders import COMMON, CONFIGS, SIZES, batch, classifier

EXACT = ("bert", "roberta", "xlm-roberta", "camembert", "distilbert", "electra-even")
KINDS = ("ForTokenClassification", "ForQuestionAnswering", "Model")


def rows(count: int = 12) -> Calibration:
    """Few distinct words, as texts have them, with padding."""
    draw = torch.Generator().manual_seed(3)
    nothing = torch.zeros(4, dtype=torch.long)
    found = []
    for _ in range(count):
        ids = 3 + torch.randint(0, 20, (4, 9), generator=draw)
        mask = (torch.arange(9) < torch.randint(4, 10, (4, 1), generator=draw)).long()
        inputs = {"input_ids": ids * mask, "attention_mask": mask}
        found.append(Batch(TaskInfo(kind="classify"), nothing, nothing, nothing.bool(), inputs))
    return Calibration(found)


@torch.no_grad()
def states(model: hf.PreTrainedModel, inputs: dict[str, torch.Tensor] | None = None) -> list[torch.Tensor]:
    inputs = batch() if inputs is None else inputs
    if model.config.model_type == "distilbert":
        inputs = {name: x for name, x in inputs.items() if name != "token_type_ids"}
    present = inputs["attention_mask"].bool()
    return [x[present] for x in model(**inputs, output_hidden_states=True).hidden_states]


def gap(teacher: hf.PreTrainedModel, student: hf.PreTrainedModel, calibration: Calibration) -> float:
    """Of the embeddings, on real tokens: the part of their variance that the student does not have."""
    gone, whole = 0.0, 0.0
    for one in calibration.batches:
        theirs, ours = (states(model, dict(one.inputs))[0] for model in (teacher, student))
        gone += float((theirs - ours).square().sum())
        whole += float((theirs - theirs.mean(0)).square().sum())
    return gone / whole


@pytest.mark.parametrize("family", EXACT)
def test_with_embeddings_of_full_width_its_hidden_states_are_its_teachers(family: str) -> None:
    teacher = classifier(family)
    student, inheritance = Shrink(family="electra", embedding=32).build(teacher)
    assert type(student) is hf.ElectraForSequenceClassification
    assert (inheritance.layers, inheritance.sliced, inheritance.fresh) == ([0, 1, 2, 3], 0, [])
    for ours, theirs in zip(states(student), states(teacher), strict=True):
        torch.testing.assert_close(ours, theirs, atol=1e-4, rtol=0)


@pytest.mark.parametrize("kind", KINDS)
def test_heads_for_tokens_and_spans_are_the_teachers(kind: str) -> None:
    torch.manual_seed(0)
    ends = {"id2label": {0: "start", 1: "end"}} if kind == "ForQuestionAnswering" else {}
    teacher = getattr(hf, f"Bert{kind}")(hf.BertConfig(**{**COMMON, **SIZES, **ends})).eval()
    student, _ = Shrink(family="electra", embedding=32, keep="every-1").build(teacher, calibration=rows())
    assert type(student).__name__ == f"Electra{kind}"
    with torch.no_grad():
        ours, theirs = student(**batch()), teacher(**batch())
    present = batch()["attention_mask"].bool()
    for name in ("logits", "start_logits", "last_hidden_state"):
        if name in theirs:
            torch.testing.assert_close(ours[name][present], theirs[name][present], atol=1e-4, rtol=0)


def test_what_is_lost_falls_with_the_width_and_with_rows_to_look_at() -> None:
    teacher, shown = classifier("bert"), rows()
    blind, seen = (
        [
            gap(teacher, Shrink(family="electra", embedding=width).build(teacher, calibration=look)[0], shown)
            for width in (4, 8, 16, 31)
        ]
        for look in (Calibration(), shown)
    )
    assert seen == sorted(seen, reverse=True)
    assert blind == sorted(blind, reverse=True)
    assert all(mine < theirs for mine, theirs in zip(seen, blind, strict=True))
    assert seen[-1] < 1e-3  # 20 words and 9 positions have 28 directions and a mean


def test_the_head_is_fitted_to_the_teachers_logits() -> None:
    torch.manual_seed(0)
    teacher, shown = hf.BertForSequenceClassification(hf.BertConfig(**COMMON, **SIZES)).eval(), rows(40)
    with torch.no_grad():  # so that tanh bends, and texts differ
        teacher.bert.pooler.dense.weight *= 20
        teacher.classifier.weight *= 20
    student, inheritance = Shrink(family="electra", embedding=32).build(teacher, calibration=shown)
    plain, silent = Shrink(family="electra", embedding=32).build(teacher)
    assert "fitted" in inheritance.note
    assert not silent.note
    inputs = [dict(one.inputs) for one in shown.batches]
    with torch.no_grad():
        truth = torch.cat([teacher(**one).logits for one in inputs])
        fitted, copied = (
            (torch.cat([model(**one).logits for one in inputs]) - truth).square().mean() for model in (student, plain)
        )
    assert fitted < 0.2 * copied
    assert fitted < 0.3 * truth.var(0).mean()


def test_least_squares_that_stay_near_a_start() -> None:
    x = torch.tensor([[1.0, 0.0], [0.0, 1.0]], dtype=torch.float64)
    y, start = torch.tensor([[2.0], [4.0]], dtype=torch.float64), torch.zeros(2, 1, dtype=torch.float64)
    assert near(start, x.T @ x, x.T @ y, 0.0).flatten().tolist() == [2.0, 4.0]
    assert near(start, x.T @ x, x.T @ y, 1.0).flatten().tolist() == [1.0, 2.0]  # (2 + pull · 0) / (1 + pull)
    assert near(start + 8, x.T @ x, x.T @ y, 1.0).flatten().tolist() == [5.0, 6.0]


def test_neurons_are_chosen_by_what_they_do() -> None:
    """Of four neurons: strong and silent, weak and busy, middling, and strong but leading nowhere."""
    weights = {
        "layer.0.in.weight": torch.tensor([[9.0], [1.0], [2.0], [9.0]]),
        "layer.0.out.weight": torch.tensor([[9.0, 2.0, 2.0, 0.1]]),
    }
    axes = {"layer.0.in.weight": {0: Axis("feed_forward")}, "layer.0.out.weight": {1: Axis("feed_forward")}}
    assert strongest_neurons(weights, axes, 2) == {"layer.0": [0, 2]}
    active = {"layer.0.out.weight": torch.tensor([0.0, 5.0, 1.0, 5.0])}
    assert strongest_neurons(weights, axes, 2, active) == {"layer.0": [1, 2]}


def test_mean_activations_leave_padding_out() -> None:
    from limbeck.students.inherit import learn_axes

    teacher, shown = classifier("bert"), rows(3)
    found = mean_activations(teacher, learn_axes(teacher), shown)
    assert set(found) == {f"bert.encoder.layer.{layer}.output.dense.weight" for layer in range(4)}
    total, tokens = torch.zeros(64), 0
    layer = teacher.bert.encoder.layer[0]
    for one in shown.batches:
        present = one.inputs["attention_mask"].bool()
        seen: list[torch.Tensor] = []
        hook = layer.intermediate.register_forward_hook(lambda module, inputs, out, seen=seen: seen.append(out))
        with torch.no_grad():
            teacher(**one.inputs)
        hook.remove()
        total, tokens = total + seen[0][present].abs().sum(0), tokens + int(present.sum())
    torch.testing.assert_close(found["bert.encoder.layer.0.output.dense.weight"], total / tokens)


@pytest.mark.parametrize("family", ["same", "electra"])
def test_with_rows_the_neurons_that_do_nothing_on_them_go(family: str) -> None:
    """Half of the neurons have large weights, but never fire."""
    teacher = classifier("bert")
    with torch.no_grad():
        for layer in teacher.bert.encoder.layer:
            layer.intermediate.dense.bias[::2] = -60.0
            layer.output.dense.weight[:, ::2] *= 50.0
    shape = Shrink(family=family, keep="every-1", feed_forward=32, embedding=32 if family == "electra" else 0)
    student, _ = shape.build(teacher, calibration=rows())
    for ours, theirs in zip(states(student), states(teacher), strict=True):
        torch.testing.assert_close(ours, theirs, atol=1e-4, rtol=0)


def test_every_axis_shrinks_and_the_folder_opens_with_plain_transformers(tmp_path: Path) -> None:
    shape = Shrink(preset="small", hidden=16, dropout=0.0)
    student, inheritance = shape.build(classifier("bert"), calibration=rows())
    student.save_pretrained(tmp_path)
    found = hf.AutoModelForSequenceClassification.from_pretrained(tmp_path).eval()
    sizes = ("num_hidden_layers", "hidden_size", "num_attention_heads", "intermediate_size", "embedding_size")
    assert [getattr(found.config, name) for name in sizes] == [2, 16, 2, 16, 10]
    assert (found.config.hidden_dropout_prob, found.config.attention_probs_dropout_prob) == (0.0, 0.0)
    assert found.config.id2label == {0: "bad", 1: "fair", 2: "good"}
    assert inheritance.layers == [0, 3]
    assert not inheritance.fresh
    for ours, theirs in zip(states(found), states(student), strict=True):
        assert torch.equal(ours, theirs)


def test_what_cannot_be_an_electra_is_refused_and_keeps_its_architecture_in_a_preset() -> None:
    lasting = [name for name in CONFIGS if name not in EXACT]
    teachers = {name: classifier(name) for name in lasting}
    assert not any(map(can_be_electra, teachers.values()))
    with pytest.raises(ModelError, match=r"not from ModernBertForSequenceClassification\n.*family same"):
        Shrink(family="electra").build(teachers["modernbert"])
    student, _ = Shrink(preset="small").build(teachers["modernbert"], calibration=rows())
    assert student.config.model_type == "limbeck-shared-modernbert"
    assert (student.config.factorised_embedding, student.config.intermediate_size) == (10, 16)
    student, _ = Shrink(preset="tiny").build(teachers["eurobert"])
    assert (student.config.model_type, student.config.num_hidden_layers) == ("eurobert", 1)
    with pytest.raises(KnobError, match=r"embeddings of 33 .* width 32\n.*2 to 32"):
        Shrink(family="electra", embedding=33).build(classifier("bert"))
