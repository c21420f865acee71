"""The switch in training: every evaluation moves it, a resumed run finds it where it stood, a new one finds it on."""

import numpy as np
import pytest
import torch
from transformers import TrainerCallback

from limbeck.core.objective import requests
from limbeck.core.task import TaskInfo
from limbeck.core.trace import Request, Want
from limbeck.data.batches import Collator, batches
from limbeck.data.seq2seq.sequences import encode_sequences
from limbeck.recipes.multilingual import MULTILINGUAL
from limbeck.students.sizes import shape_of
from limbeck.teachers.live import LiveTeacher
from limbeck.teachers.settings import SwitchSettings
from limbeck.teachers.switch import DirectionIndex, Switch
from limbeck.teachers.topk import Manifest, TopKCache, TopKTeacher
from limbeck.training.callbacks import Switching, switching
from limbeck.training.schedule import Schedule
from limbeck.training.trainer import Distiller
from tiny_reverser import make_marian, make_tokenizer
from tiny_sources import make_sources, mirrored

TOKENIZER = make_tokenizer()
TASK = TaskInfo(kind="translate", vocab_size=len(TOKENIZER))
DEV = {
    4: (10.0, 10.0),
    8: (25.0, 10.0),
    12: (26.0, 40.0),
    16: (20.0, 40.0),
    20: (0.0, 0.0),
}  # step → BLEU of a-b and b-a
STANDS = {4: (1, 1), 8: (0, 1), 12: (0, 0), 16: (1, 0)}  # from then on


@pytest.fixture(scope="module")
def rows():
    sources = make_sources(48, seed=1, longest=6)
    return encode_sequences(sources, [mirrored(one) for one in sources], TOKENIZER, len(TOKENIZER) - 1, 32)


@pytest.fixture(scope="module")
def kept(rows, tmp_path_factory):
    store = TopKCache(tmp_path_factory.mktemp("store"), Manifest(k=8, vocabulary=TASK.vocab_size), write=True)
    present = LiveTeacher(make_marian(seed=4), Request(Want.LOGITS | Want.TOP), TASK.vocab_size)
    store.fill(present, batches(rows, Collator(TOKENIZER.pad_token_id, TASK), 16), lambda done: None)
    return TopKTeacher(store)


class Seen(TrainerCallback):
    """Where the switch stood at every step; ends the training after one of them."""

    def __init__(self, switch, last=0):
        self.switch, self.last, self.stood = switch, last, {}

    def on_step_begin(self, args, state, control, **_):
        self.stood[state.global_step + 1] = tuple(self.switch.shares.values())

    def on_step_end(self, args, state, control, **_):
        if state.global_step == self.last:
            raise KeyboardInterrupt


def make_switch(rows, kept, strategy="threshold"):
    owners = DirectionIndex.of(("a-b", "b-a"), rows.uids, np.arange(len(rows)) % 2)
    return Switch(kept, owners, {"a-b": 24.0, "b-a": 20.0}, SwitchSettings(strategy=strategy))


def trainer(folder, rows, switch, last=0):
    model = make_marian(seed=1, scale=1.0)
    objective = MULTILINGUAL.objective(TASK)
    seen = Seen(switch, last)

    def dev_metrics(model):
        step = made.state.global_step
        both = dict(zip(("bleu of a-b", "bleu of b-a"), DEV[step], strict=True))
        return {"loss": 1.0, "bleu": float(step), **both}

    made = Distiller(
        model,
        objective=objective,
        teacher=switch,
        task=TASK,
        schedule=Schedule(epochs=5, evals_per_epoch=1, batch_size=12, learning_rate=1e-3, patience=0),
        train=rows,
        dev=rows,
        collate=Collator(TOKENIZER.pad_token_id, TASK),
        folder=folder,
        seed=2,
        request=requests(objective, shape_of(model), shape_of(model))[0],
        dev_metrics=dev_metrics,
        callbacks=[*switching(switch), seen],
    )
    return made, seen


def weights(made):
    return torch.cat([weight.detach().flatten() for weight in made.model.parameters()])


@pytest.fixture(scope="module")
def unbroken(rows, kept, tmp_path_factory):
    made, seen = trainer(tmp_path_factory.mktemp("whole"), rows, make_switch(rows, kept))
    made.train()
    return made, seen


def test_every_evaluation_moves_the_switch(unbroken):
    _, seen = unbroken
    expected = {step: STANDS.get((step - 1) // 4 * 4, (1, 1)) for step in range(1, 21)}
    assert seen.stood == expected


def test_a_run_resumed_between_evaluations_ends_like_an_unbroken_one(unbroken, rows, kept, tmp_path):
    whole, expected = unbroken
    broken, _ = trainer(tmp_path, rows, make_switch(rows, kept), last=10)
    with pytest.raises(KeyboardInterrupt):
        broken.train()
    resumed, seen = trainer(tmp_path, rows, make_switch(rows, kept))
    checkpoint = resumed.last_complete_checkpoint()
    assert checkpoint.endswith("checkpoint-8")
    resumed.train(resume_from_checkpoint=checkpoint)
    assert seen.stood == {step: stood for step, stood in expected.stood.items() if step > 8}
    assert seen.stood[9] == (0, 1)
    assert torch.equal(weights(resumed), weights(whole))


def test_a_new_run_begins_with_every_teacher_on(unbroken, rows, kept, tmp_path):
    """One switch serves all seeds, one after another."""
    switch = make_switch(rows, kept)
    switch.update({"bleu of a-b": 90.0, "bleu of b-a": 90.0})
    made, seen = trainer(tmp_path, rows, switch, last=3)
    with pytest.raises(KeyboardInterrupt):
        made.train()
    assert set(seen.stood.values()) == {(1, 1)}


def test_the_switch_makes_a_difference(unbroken, rows, kept, tmp_path):
    made, _ = trainer(tmp_path, rows, make_switch(rows, kept, "fixed"))
    made.train()
    assert not torch.equal(weights(made), weights(unbroken[0]))


def test_other_teachers_need_no_callback(kept, rows):
    assert switching(kept) == []
    assert isinstance(switching(make_switch(rows, kept))[0], Switching)
