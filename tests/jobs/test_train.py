"""Training without a teacher: what a run is before its first step."""

import pytest

from limbeck.core.errors import KnobError
from limbeck.core.progress import Silent
from limbeck.jobs.settings import TrainRun
from limbeck.jobs.train import plan_training
from tongues import sentences, translate
from untaught import SHAPE

PAIRS = [{"source": source, "target": translate(source)} for source in sentences(150)]


@pytest.mark.parametrize(("train", "epochs"), [({"batch_size": 8}, 20), ({"batch_size": 8, "epochs": 2.0}, 2)])
def test_a_translator_from_nothing_has_more_epochs_unless_told(train, epochs):
    run, arm, _ = plan_training(TrainRun(data={"task": "translate"}, seq2seq=SHAPE, train=train), PAIRS, Silent())
    assert (run.train.epochs, run.train.batch_size) == (epochs, 8)
    assert arm.main.schedule == run.train
    assert arm.start.origin == "The model starts from random weights."


def test_other_models_need_a_start():
    with pytest.raises(KnobError, match=r"no model was given\n.*--model"):
        plan_training(TrainRun(), [{"text": "good", "label": "a"}], Silent())
