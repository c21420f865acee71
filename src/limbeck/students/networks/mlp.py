"""A multi-layer perceptron that classifies grey images: fully connected layers with ReLU, dropout before each.

    784-1200-1200-10   Hinton et al. 2015, the teacher; 2,395,210 parameters
    784-800-800-10     its student; 1,276,810
    784-300-100-10     LeCun et al. 1998, the lottery ticket's LeNet; 266,200 weights and 410 biases

Weights start from a normal distribution of variance 2 / (inputs + outputs) (Glorot and Bengio 2010), biases from 0.

save_pretrained copies this file beside the weights, so that they open without Limbeck: it imports nothing of Limbeck.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from torch import Tensor, nn
from transformers import PretrainedConfig, PreTrainedModel
from transformers.modeling_outputs import ImageClassifierOutput


class MLPConfig(PretrainedConfig):
    model_type = "limbeck-mlp"

    def __init__(
        self,
        image_size: Sequence[int] = (28, 28),  # height, width
        hidden_sizes: Sequence[int] = (300, 100),
        input_dropout: float = 0.0,
        dropout: float = 0.0,  # of hidden units
        max_norm: float = 0.0,  # training holds the incoming weights of each hidden unit to this length; 0: free
        **others: Any,
    ) -> None:
        self.image_size = list(image_size)
        self.hidden_sizes = list(hidden_sizes)
        self.input_dropout = input_dropout
        self.dropout = dropout
        self.max_norm = max_norm
        self.num_hidden_layers = len(self.hidden_sizes)
        super().__init__(**others)

    @property
    def shape_text(self) -> str:
        """For people: 784-300-100-10."""
        height, width = self.image_size
        return "-".join(map(str, (height * width, *self.hidden_sizes, self.num_labels)))


class MLPForImageClassification(PreTrainedModel):
    config_class = MLPConfig
    base_model_prefix = "body"
    main_input_name = "pixel_values"

    def __init__(self, config: MLPConfig) -> None:
        super().__init__(config)
        height, width = config.image_size
        sizes = [height * width, *config.hidden_sizes]
        self.input_dropout = nn.Dropout(config.input_dropout)
        self.body = nn.ModuleList(map(nn.Linear, sizes[:-1], sizes[1:]))
        self.dropout = nn.Dropout(config.dropout)
        self.classifier = nn.Linear(sizes[-1], config.num_labels)
        self.post_init()

    def _init_weights(self, module: nn.Module) -> None:
        if isinstance(module, nn.Linear):
            nn.init.xavier_normal_(module.weight)
            nn.init.zeros_(module.bias)

    def forward(
        self,
        pixel_values: Tensor,  # [batch, 1, height, width]
        labels: Tensor | None = None,
        **others: Any,
    ) -> ImageClassifierOutput:
        states = self.input_dropout(pixel_values.flatten(1))
        for layer in self.body:
            states = self.dropout(layer(states).relu())
        logits = self.classifier(states)
        loss = None if labels is None else nn.functional.cross_entropy(logits, labels)
        return ImageClassifierOutput(loss=loss, logits=logits)
