"""What a model is shown, and what it showed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from limbeck.core.task import TaskInfo
from limbeck.core.topk import Sampled, Top
from limbeck.core.want import Want

if TYPE_CHECKING:
    import torch
    from torch import Tensor, nn

OF_LAYERS = ("hidden", "pooled", "attention", "queries", "keys", "values")


def _nothing() -> Tensor:
    import torch

    return torch.empty(0)


@dataclass(frozen=True)
class Projection:
    """Logits of the asked tokens, not multiplied out: features · weightᵀ + bias.

    Without a weight the features are the logits themselves."""

    features: Tensor = field(default_factory=_nothing)  # [tokens, width]
    weight: Tensor = field(default_factory=_nothing)  # [vocabulary, width], or empty
    bias: Tensor = field(default_factory=_nothing)  # [vocabulary], or empty

    def __len__(self) -> int:
        return len(self.features)

    @property
    def vocabulary(self) -> int:
        return len(self.weight) if self.weight.numel() else self.features.shape[-1]

    def logits(self, tokens: slice = slice(None)) -> Tensor:
        """[tokens, vocabulary]: large; ask for few tokens at a time."""
        found = self.features[tokens]
        if self.weight.numel():
            found = found @ self.weight.T
        return found + self.bias if self.bias.numel() else found


@dataclass(frozen=True)
class Trace:
    """What a model showed for one batch. Absent is empty, never None."""

    logits: Tensor = field(default_factory=_nothing)  # [rows, outputs]
    # Of layers: the embeddings first, then one per layer, empty where it was not asked for.
    hidden: tuple[Tensor, ...] = ()  # [batch, length, width]
    pooled: tuple[Tensor, ...] = ()  # [batch, width]
    attention: tuple[Tensor, ...] = ()  # [batch, heads, length, length] scaled scores before mask and softmax
    queries: tuple[Tensor, ...] = ()  # [batch, heads, length, width / heads]
    keys: tuple[Tensor, ...] = ()  # the same
    values: tuple[Tensor, ...] = ()  # the same
    bridges: Mapping[str, nn.Module] = field(default_factory=dict)  # of a student: learned ways to the teacher's width
    tokens: Projection = field(default_factory=Projection)  # of the asked tokens
    top: Top = field(default_factory=Top)  # of the asked tokens
    sampled: Sampled = field(default_factory=Sampled)  # of the asked tokens

    @property
    def layers(self) -> int:
        """Of the model, if anything of its layers was asked for."""
        return max(len(getattr(self, name)) for name in OF_LAYERS) - 1

    def through(self, bridge: str, states: Tensor) -> Tensor:
        """States as the teacher would see them; unchanged where no bridge is needed."""
        if bridge not in self.bridges:
            return states
        found: Tensor = self.bridges[bridge](states)
        return found

    @property
    def has(self) -> Want:
        shown = Want.LOGITS if self.logits.numel() or self.tokens.features.numel() else Want.NOTHING
        for part, want in (
            (self.hidden, Want.HIDDEN),
            (self.pooled, Want.POOLED),
            (self.attention, Want.ATTENTION),
            (self.queries, Want.QUERIES),
            (self.keys, Want.KEYS),
            (self.values, Want.VALUES),
            (self.top.ids.numel(), Want.TOP),
            (self.sampled.ids.numel(), Want.SAMPLED),
        ):
            if part:
                shown |= want
        return shown


@dataclass(frozen=True)
class Batch:
    """Examples as tensors. `uids` name them wherever they go.

    A row is what one label is of. Of texts it is the text. Of words it is a token: then labels, labelled and asked are
    [batch, length]. In `tag` it is a word's first token, one row for each place that `asked` marks. In `answer` a text
    has two rows, where the answer starts and where it ends, and `asked` marks the places it may lie in."""

    task: TaskInfo
    uids: Tensor  # [batch] int64
    labels: Tensor  # class ids, 0/1 per label, numbers, or token ids; anything where not labelled
    has_label: Tensor  # bool: the row has a label
    inputs: Mapping[str, Tensor] = field(default_factory=dict)  # what the model's forward takes
    predicted: Tensor = field(default_factory=_nothing)  # bool: the rows both models speak of; empty for all
    next_sentence_label: Tensor = field(
        default_factory=_nothing
    )  # [batch] 0 where the second sentence follows the first, else 1

    @property
    def in_loss(self) -> Tensor:
        """bool: the rows a soft term speaks of. Of texts and places, every one; of tokens, those asked about."""
        import torch

        return (
            self.predicted if self.task.over_vocabulary and self.predicted.numel() else torch.ones_like(self.has_label)
        )

    def to(self, device: torch.device) -> Batch:
        """The same, with what models read, and which of their answers are asked, on `device`."""
        inputs = {name: tensor.to(device) for name, tensor in self.inputs.items()}
        return replace(
            self,
            inputs=inputs,
            predicted=self.predicted.to(device),
            next_sentence_label=self.next_sentence_label.to(device),
        )
