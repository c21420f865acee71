"""A mask held in a stock transformers.Trainer: no optimiser, momentum or decay revives a weight."""

import pytest
import torch
from safetensors.torch import load_file
from transformers import Trainer, TrainerCallback, TrainingArguments

from limbeck.core.compress import Mask
from limbeck.passes.magnitude import Magnitude
from limbeck.training.callbacks import HoldMask
from tiny import make_classifier, make_rows, make_tokenizer

OPTIMISERS = {
    "sgd": lambda weights: torch.optim.SGD(weights, lr=0.1, momentum=0.9, nesterov=True),
    "adamw": lambda weights: torch.optim.AdamW(weights, lr=1e-2, weight_decay=0.1),
}


class Dead(TrainerCallback):
    """What the weights that went are at the end of every step."""

    def __init__(self, mask):
        self.mask, self.sums = mask, []

    def on_step_end(self, args, state, control, model=None, **_):
        weights = dict(model.named_parameters())
        self.sums.append(sum(weights[name][~live].abs().sum().item() for name, live in self.mask.live.items()))


def rows():
    tokenizer = make_tokenizer()
    found = [{**tokenizer(row["text"]), "labels": int(row["label"] == "positive")} for row in make_rows(64)]
    return tokenizer, found


def trained(folder, optimiser, mask, held=True, prepare=True, **how):
    model = make_classifier(layers=1, hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0)
    if prepare:
        mask.hold(model)
    tokenizer, data = rows()
    dead = Dead(mask)
    settings = {"num_train_epochs": 2, "per_device_train_batch_size": 8, "disable_tqdm": True, "save_strategy": "no"}
    trainer = Trainer(
        model,
        TrainingArguments(str(folder), use_cpu=True, logging_strategy="no", **settings | how),
        train_dataset=data,
        processing_class=tokenizer,
        optimizers=(OPTIMISERS[optimiser](model.parameters()), None),
        callbacks=[*([HoldMask(mask)] if held else []), dead],
    )
    trainer.train()
    return model, dead.sums


@pytest.fixture(scope="module")
def mask():
    return Magnitude(fraction=0.5).apply(make_classifier(layers=1), Mask()).mask


@pytest.mark.parametrize("optimiser", OPTIMISERS)
def test_no_weight_is_revived(optimiser, mask, tmp_path):
    model, sums = trained(tmp_path, optimiser, mask)
    assert sums == [0.0] * 16
    weights, start = dict(model.named_parameters()), dict(make_classifier(layers=1).named_parameters())
    for name, live in mask.live.items():
        assert (weights[name][~live] == 0).all()
        assert not torch.equal(weights[name][live], start[name][live]), "what lives learns"


@pytest.mark.parametrize("optimiser", OPTIMISERS)
def test_without_it_they_are(optimiser, mask, tmp_path):
    _, sums = trained(tmp_path, optimiser, mask, held=False)
    assert all(total > 0 for total in sums)


def test_weights_alive_at_the_start_are_out_before_the_first_forward_pass(mask, tmp_path):
    begun, _ = trained(tmp_path, "sgd", mask, prepare=False)
    clean, _ = trained(tmp_path, "sgd", mask)
    assert all(
        torch.equal(one, other)
        for one, other in zip(begun.state_dict().values(), clean.state_dict().values(), strict=True)
    )


def test_checkpoints_and_micro_batches_hold_it_too(mask, tmp_path):
    how = {"save_strategy": "steps", "save_steps": 2, "gradient_accumulation_steps": 2, "num_train_epochs": 1}
    _, sums = trained(tmp_path, "adamw", mask, **how)
    assert sums == [0.0] * 4
    saved = [load_file(path) for path in sorted(tmp_path.glob("checkpoint-*/model.safetensors"))]
    assert len(saved) == 2
    assert all((weights[name][~live] == 0).all() for weights in saved for name, live in mask.live.items())
