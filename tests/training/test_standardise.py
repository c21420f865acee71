"""Numbers are learnt in standard units; what is saved answers in those of the labels."""

import json

import numpy as np
import pytest
import torch
from tests.tiny import GOOD, make_classifier, make_rows, make_tokenizer
from transformers import (
    AlbertConfig,
    AutoModelForSequenceClassification,
    BartConfig,
    BertConfig,
    DebertaV2Config,
    DistilBertConfig,
    ElectraConfig,
    GPT2Config,
    ModernBertConfig,
    MPNetConfig,
    RobertaConfig,
    pipeline,
)

import limbeck
from limbeck.training.standardise import Scale, final_linear, restore_units, standardised, start_at_mean

SIZES = {"vocab_size": 40, "num_labels": 1, "pad_token_id": 0}
BERT = {"hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 32}
FAMILIES = [
    *(cls(**SIZES, **BERT) for cls in (BertConfig, RobertaConfig, ElectraConfig, MPNetConfig, DebertaV2Config)),
    AlbertConfig(**SIZES, **BERT, embedding_size=8),
    ModernBertConfig(**SIZES, **BERT, cls_token_id=2, sep_token_id=3),
    DistilBertConfig(**SIZES, dim=16, n_layers=1, n_heads=2, hidden_dim=32),
    BartConfig(
        **SIZES, d_model=16, encoder_layers=1, decoder_layers=1, encoder_attention_heads=2, decoder_attention_heads=2,
        encoder_ffn_dim=32, decoder_ffn_dim=32, eos_token_id=3, bos_token_id=2,
    ),
]  # fmt: skip


@pytest.mark.parametrize("config", FAMILIES, ids=lambda config: config.model_type)
def test_the_head_of_every_family_takes_and_gives_back_the_units(config):
    torch.manual_seed(0)
    model = AutoModelForSequenceClassification.from_config(config).eval()
    with torch.no_grad():
        final_linear(model).bias.fill_(0.3)  # as if it were trained
    inputs = {"input_ids": torch.tensor([[2, 7, 9, 3], [2, 8, 5, 3]])}
    scale = Scale(1900.0, 40.0)
    with torch.no_grad():
        plain = model(**inputs).logits
        with standardised(model, scale):
            torch.testing.assert_close(model(**inputs).logits, (plain - 1900) / 40)
        torch.testing.assert_close(model(**inputs).logits, plain, rtol=1e-3, atol=1e-3)
        restore_units(model, scale)
        torch.testing.assert_close(model(**inputs).logits, plain * 40 + 1900)


def test_a_head_without_a_bias_cannot_shift():
    model = AutoModelForSequenceClassification.from_config(GPT2Config(**SIZES, n_embd=16, n_layer=1, n_head=2))
    assert final_linear(model) is None
    assert not start_at_mean(model, Scale(5.0, 2.0))


def test_a_new_head_starts_at_the_mean_and_a_trained_one_where_it_is():
    model = make_classifier(("0",), layers=1, problem_type="regression")
    ids = torch.tensor([[2, 7, 9, 3]])
    assert start_at_mean(model, Scale(1900.0, 1.0))
    answer = model(input_ids=ids).logits.item()
    assert answer == pytest.approx(1900, abs=3)
    start_at_mean(model, Scale(7.0, 100.0))
    assert model(input_ids=ids).logits.item() == answer


def test_constant_and_missing_labels_have_a_scale():
    assert Scale.of(np.array([4.0, 4.0])) == Scale(4.0, 1.0)
    assert Scale.of(np.empty(0)) == Scale(0.0, 1.0)


def numbers(count=300, seed=0):
    """The number of a text is far from 0: 1,900, and 40 more for a good adjective."""
    rows = make_rows(count, seed)
    return [{"text": r["text"], "label": 1900.0 + 40 * any(w in GOOD for w in r["text"].split())} for r in rows]


def run(out, kind, *arguments, **knobs):
    how = {"train": {"learning_rate": 4e-3, "batch_size": 16, "patience": 0}, "measure": {"speed": False}}
    return kind(*arguments, numbers(), out=out, task="regress", epochs=6, **how, **knobs)


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    folder = tmp_path_factory.mktemp("numbers")
    torch.manual_seed(0)
    make_classifier(layers=2).save_pretrained(folder / "start")
    make_tokenizer().save_pretrained(folder / "start")
    return run(folder / "teacher", limbeck.train, folder / "start")


@pytest.mark.slow
def test_a_regression_far_from_0_is_learnt_and_answers_in_its_units(trained):
    result = trained.record.arms[0].runs[0]
    assert result.quality["pearson"] > 0.9
    assert result.quality["rmse"] == pytest.approx(result.quality["mse"] ** 0.5)
    assert result.quality["rmse"] < 12  # the labels' own standard deviation is 20
    assert all(1800 < 1900 + point.dev["mae"] < 1930 for point in result.curve if point.dev)
    asked = pipeline("text-classification", str(trained.folder / "model"), function_to_apply="none", device="cpu")
    good, bad = (asked(f"the film is {word}")[0]["score"] for word in ("good", "bad"))
    assert 1890 < bad < 1915 < good < 1950


@pytest.mark.slow
def test_before_training_the_record_has_dev_at_the_mean(trained):
    before = trained.record.arms[0].runs[0].before
    assert before["rmse"] == pytest.approx(20, abs=3)  # the mean's own error
    assert "loss" not in before


@pytest.mark.slow
def test_a_teacher_in_the_labels_units_teaches_and_a_killed_run_goes_on_bitwise(trained, tmp_path):
    class Killed(Exception):
        pass

    class Kill(limbeck.training.callbacks.TrainerCallback):
        def on_step_end(self, args, state, control, **_):
            if state.global_step == 20:
                raise Killed

    teach = (trained.folder / "model",)
    how = {"student": limbeck.Shrink(layers=1), "baseline": False}
    whole = run(tmp_path / "whole", limbeck.distill, *teach, **how)
    assert whole.record.arm("distilled").runs[0].fidelity.agreement > 0.9
    with pytest.raises(Killed):
        run(tmp_path / "cut", limbeck.distill, *teach, callbacks=[Kill()], **how)
    again = run(tmp_path / "cut", limbeck.distill, *teach, resume=True, **how)
    ours, theirs = whole.student.state_dict(), again.student.state_dict()
    assert all(torch.equal(ours[name], theirs[name]) for name in ours)
    file = json.loads((tmp_path / "whole" / "record.json").read_text())
    assert file["arms"][1]["runs"][0]["before"]["pearson"] < 1
