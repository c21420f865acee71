"""LeNet-5 as Caffe has it: two convolutions of 5 × 5, each with max-pooling by 2, and a hidden layer with ReLU.

    20 maps, 50 maps, 500 units: 431,080 parameters for ten classes of 28 × 28 pixels
    (520 + 25,050 + 400,500 + 5,010)

LeCun et al. 1998 had 6 and 16 maps with trained pooling, partial connections and radial-basis outputs: about 60,000.
Weights start from a normal distribution of variance 2 / (inputs + outputs) (Glorot and Bengio 2010), biases from 0.

save_pretrained copies this file beside the weights, so that they open without Limbeck: it imports nothing of Limbeck.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from torch import Tensor, nn
from transformers import PretrainedConfig, PreTrainedModel
from transformers.modeling_outputs import ImageClassifierOutput


class LeNetConfig(PretrainedConfig):
    model_type = "limbeck-lenet"

    def __init__(
        self,
        image_size: Sequence[int] = (28, 28),  # height, width
        maps: Sequence[int] = (20, 50),  # of the two convolutions
        units: int = 500,
        input_dropout: float = 0.0,
        dropout: float = 0.0,  # of hidden units
        max_norm: float = 0.0,  # training holds the incoming weights of each hidden unit or map to this length; 0: free
        **others: Any,
    ) -> None:
        self.image_size = list(image_size)
        self.maps = list(maps)
        self.units = units
        self.input_dropout = input_dropout
        self.dropout = dropout
        self.max_norm = max_norm
        self.num_hidden_layers = 3
        super().__init__(**others)

    @property
    def shape_text(self) -> str:
        """For people."""
        return f"LeNet-5 ({'-'.join(map(str, (*self.maps, self.units, self.num_labels)))})"


class Body(nn.Module):
    def __init__(self, config: LeNetConfig) -> None:
        super().__init__()
        first, second = config.maps
        height, width = (((side - 4) // 2 - 4) // 2 for side in config.image_size)
        self.conv1 = nn.Conv2d(1, first, 5)
        self.conv2 = nn.Conv2d(first, second, 5)
        self.hidden = nn.Linear(second * height * width, config.units)

    def forward(self, images: Tensor) -> Tensor:
        """[batch, 1, height, width] → [batch, units]"""
        states = nn.functional.max_pool2d(self.conv1(images), 2)
        states = nn.functional.max_pool2d(self.conv2(states), 2)
        return self.hidden(states.flatten(1)).relu()


class LeNetForImageClassification(PreTrainedModel):
    config_class = LeNetConfig
    base_model_prefix = "body"
    main_input_name = "pixel_values"

    def __init__(self, config: LeNetConfig) -> None:
        super().__init__(config)
        self.input_dropout = nn.Dropout(config.input_dropout)
        self.body = Body(config)
        self.dropout = nn.Dropout(config.dropout)
        self.classifier = nn.Linear(config.units, config.num_labels)
        self.post_init()

    def _init_weights(self, module: nn.Module) -> None:
        if isinstance(module, nn.Linear | nn.Conv2d):
            nn.init.xavier_normal_(module.weight)
            if module.bias is not None:
                nn.init.zeros_(module.bias)

    def forward(
        self,
        pixel_values: Tensor,  # [batch, 1, height, width]
        labels: Tensor | None = None,
        **others: Any,
    ) -> ImageClassifierOutput:
        logits = self.classifier(self.dropout(self.body(self.input_dropout(pixel_values))))
        loss = None if labels is None else nn.functional.cross_entropy(logits, labels)
        return ImageClassifierOutput(loss=loss, logits=logits)
