"""A model without layers, heads or a tokenizer, a perceptron on vectors, learns through the same loop."""

import numpy as np
import pytest
import torch
from torch import nn
from transformers import PretrainedConfig, PreTrainedModel
from transformers.modeling_outputs import SequenceClassifierOutput

from limbeck.core.errors import ModelError
from limbeck.core.task import TaskInfo
from limbeck.core.trace import NoTeacher
from limbeck.objectives import Labels, SoftTargets
from limbeck.students.shrink import Shrink
from limbeck.students.sizes import shape_of
from limbeck.teachers.live import LiveTeacher
from limbeck.training.schedule import Schedule
from limbeck.training.trainer import Distiller

pytestmark = pytest.mark.slow

TASK = TaskInfo(kind="classify", labels=("no", "yes", "maybe"))
PIXELS = 12


class PerceptronConfig(PretrainedConfig):
    model_type = "perceptron"

    def __init__(self, neurons=16, **others):
        self.neurons = neurons
        super().__init__(**others)


class Perceptron(PreTrainedModel):
    config_class = PerceptronConfig
    main_input_name = "pixel_values"

    def __init__(self, config):
        super().__init__(config)
        self.hidden = nn.Linear(PIXELS, config.neurons)
        self.classifier = nn.Linear(config.neurons, config.num_labels)
        self.post_init()

    def _init_weights(self, module):
        if isinstance(module, nn.Linear):
            module.reset_parameters()

    def forward(self, pixel_values):
        return SequenceClassifierOutput(logits=self.classifier(self.hidden(pixel_values).relu()))


class Vectors:
    """Rows of a fixed length; the class is the largest of the first three numbers."""

    def __init__(self, count, seed):
        self.vectors = torch.randn(count, PIXELS, generator=torch.Generator().manual_seed(seed))
        self.labels = self.vectors[:, :3].argmax(1)
        self.lengths = [1] * count

    def __len__(self):
        return len(self.lengths)

    def __getitem__(self, index):
        return {
            "pixel_values": self.vectors[index],
            "labels": self.labels[index],
            "uids": index,
            "has_label": True,
        }


def collate(rows):
    return {name: torch.stack([torch.as_tensor(row[name]) for row in rows]) for name in rows[0]}


def perceptron(neurons=16, seed=0):
    torch.manual_seed(seed)
    return Perceptron(PerceptronConfig(neurons, num_labels=3))


def accuracy(prediction):
    labels = prediction.label_ids[0] if isinstance(prediction.label_ids, tuple) else prediction.label_ids
    return {"accuracy": float((prediction.predictions.argmax(1) == labels).mean())}


def distiller(folder, objective, teacher, **schedule):
    return Distiller(
        perceptron(),
        objective=objective,
        teacher=teacher,
        task=TASK,
        schedule=Schedule(**{"epochs": 6, "batch_size": 16} | schedule),
        train=Vectors(320, seed=1),
        dev=Vectors(100, seed=2),
        collate=collate,
        folder=folder,
        seed=0,
        compute_metrics=accuracy,
    )


@pytest.mark.parametrize("accumulate", [1, 2])
@pytest.mark.parametrize("taught", [False, True], ids=["labels", "soft targets"])
def test_a_perceptron_learns(tmp_path, taught, accumulate):
    objective, teacher = 1.0 * Labels(), NoTeacher()
    if taught:
        large = distiller(tmp_path / "teacher", Labels(), NoTeacher(), learning_rate=1e-2)
        large.train()
        objective, teacher = 1.0 * SoftTargets(), LiveTeacher(large.model)
    trainer = distiller(
        tmp_path / "student", objective, teacher, accumulate=accumulate, batch_size=16 // accumulate, epochs=12
    )
    before = trainer.evaluate()["eval_accuracy"]
    trainer.train()
    after = trainer.evaluate()["eval_accuracy"]
    assert after > before + 0.2
    assert np.isfinite([point.loss for point in trainer.curve() if point.loss is not None]).all()


def test_its_learning_rate_is_the_one_for_models_without_a_width(tmp_path):
    assert distiller(tmp_path, Labels(), NoTeacher()).args.learning_rate == 1e-3
    assert distiller(tmp_path, Labels(), NoTeacher(), learning_rate=0.5).args.learning_rate == 0.5
    assert Schedule().at_width(768, TASK).learning_rate == 5e-5


def test_it_has_a_shape_but_no_sizes_to_shrink():
    shape = shape_of(perceptron())
    assert (shape.architecture, shape.layers, shape.hidden, shape.heads, shape.feed_forward) == ("perceptron", *[0] * 4)
    nameless = perceptron()
    nameless.config.model_type = ""
    assert shape_of(nameless).architecture == "Perceptron"
    with pytest.raises(ModelError, match="does not say its num_hidden_layers"):
        Shrink(layers=1).build(perceptron())
