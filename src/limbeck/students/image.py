"""Networks for images, which start from random weights: the shape of a new one, and how transformers opens them."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Literal

from pydantic import field_validator

from limbeck.core.errors import KnobError
from limbeck.core.image_processor import ImageProcessor, size_text
from limbeck.core.knob import Settings, knob, table
from limbeck.core.task import IMAGE_KINDS, TaskInfo

if TYPE_CHECKING:
    from transformers import PreTrainedModel

LEAST = 16  # pixels of a side that leave LeNet-5 something to pool


@table("network", "the network of a new image model or student", IMAGE_KINDS)
class NetworkSettings(Settings):
    name: Literal["mlp", "lenet"] = knob(
        "mlp",
        "the network; mlp: fully connected layers; lenet: LeNet-5, with convolutions, as Caffe has it",
        short="--network",
    )
    hidden: str = knob(
        "300,100",
        "units of the hidden layers of an mlp, comma-separated; with 784 inputs, 1200,1200 is Hinton's teacher, "
        "800,800 his student, 300,100 the LeNet of the lottery ticket",
        source="Frankle 2019",
    )
    input_dropout: float = knob(0.0, "share of the pixels dropped in training", at_least=0, below=1)
    dropout: float = knob(0.0, "share of the hidden units dropped in training", at_least=0, below=1)
    max_norm: float = knob(
        0.0,
        "most length of a hidden unit's incoming weights; held after every step; 0: any",
        at_least=0,
        source="Hinton et al. 2012, dropout",
    )

    @field_validator("hidden")
    @classmethod
    def _check_hidden(cls, value: str) -> str:
        parts = [part.strip() for part in value.split(",")]
        if not all(part.isdecimal() and int(part) for part in parts):
            raise ValueError("numbers of units above 0, comma-separated, as in 300,100")
        return ",".join(parts)


@cache
def register() -> None:
    """Makes the Auto classes of transformers know the networks."""
    from transformers import AutoConfig, AutoModelForImageClassification

    from limbeck.students.networks.lenet import LeNetConfig, LeNetForImageClassification
    from limbeck.students.networks.mlp import MLPConfig, MLPForImageClassification

    for config, model in ((MLPConfig, MLPForImageClassification), (LeNetConfig, LeNetForImageClassification)):
        AutoConfig.register(config.model_type, config, exist_ok=True)
        AutoModelForImageClassification.register(config, model, exist_ok=True)
        # So that save_pretrained copies the file beside the weights.
        config.register_for_auto_class()
        model.register_for_auto_class("AutoModelForImageClassification")


def new_image_network(settings: NetworkSettings, processor: ImageProcessor, info: TaskInfo) -> PreTrainedModel:
    """An untrained network in eval mode, its weights from torch's current seed."""
    from limbeck.students.load import name_outputs
    from limbeck.students.networks.lenet import LeNetConfig, LeNetForImageClassification
    from limbeck.students.networks.mlp import MLPConfig, MLPForImageClassification

    register()
    size = processor.height, processor.width
    shared = settings.model_dump(include={"input_dropout", "dropout", "max_norm"})
    if settings.name == "mlp":
        config = MLPConfig(size, [int(units) for units in settings.hidden.split(",")], **shared)
        name_outputs(config, info)
        return MLPForImageClassification(config).eval()
    if min(size) < LEAST:
        raise KnobError(
            f"the images are of {size_text(size)} pixels, too small for LeNet-5, which needs {LEAST} on a side",
            "use --network mlp",
        )
    if "hidden" in settings.model_fields_set and settings.hidden != NetworkSettings().hidden:
        raise KnobError("'network.hidden' has no effect with --network lenet", "leave it out, or use --network mlp")
    config = LeNetConfig(size, **shared)
    name_outputs(config, info)
    return LeNetForImageClassification(config).eval()
