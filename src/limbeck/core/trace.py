"""What models are asked, what they are shown and what they show: all that objectives and teachers speak of.

An objective says with a Want what it needs, a teacher what it has. A model answers a Batch with a Trace.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import Flag, auto
from functools import cache
from typing import TYPE_CHECKING, Literal

from limbeck.core.errors import MismatchError
from limbeck.core.task import TaskInfo

if TYPE_CHECKING:
    import torch
    from torch import Tensor, nn

Pool = Literal["cls", "mean"]
_LOGITS = ("logits", 1.0)  # of a teacher, among what a Chunk has made
OF_LAYERS = ("hidden", "pooled", "attention", "queries", "keys", "values")


class Want(Flag):
    NOTHING = 0
    LOGITS = auto()
    TOP = auto()
    SAMPLED = auto()
    HIDDEN = auto()  # every token's state after a layer
    POOLED = auto()  # one state for the whole text
    ATTENTION = auto()  # scores before the softmax
    QUERIES = auto()
    KEYS = auto()
    VALUES = auto()

    def __str__(self) -> str:
        return ", ".join(flag.name.lower() for flag in Want if flag in self and flag.name) or "nothing"


# What is said of the whole text, not per token: it does not depend on how the text was cut into tokens.
PER_TEXT = Want.LOGITS | Want.POOLED
ATTENTION_PARTS = Want.ATTENTION | Want.QUERIES | Want.KEYS | Want.VALUES


@dataclass(frozen=True)
class Request:
    """Exactly what is asked of one model. Layers are counted from 1, and 0 is the embeddings."""

    want: Want = Want.LOGITS
    hidden: tuple[int, ...] = ()  # layers whose HIDDEN is asked
    pooled: tuple[int, ...] = ()  # layers whose POOLED is asked
    heads: tuple[int, ...] = ()  # layers whose ATTENTION, QUERIES, KEYS or VALUES are asked
    pool: Pool = "cls"  # what stands for a text: the state of its first token, or the mean over its tokens

    def __or__(self, other: Request) -> Request:
        if self.pooled and other.pooled and self.pool != other.pool:
            raise MismatchError(
                "two terms let different things stand for a text (cls and mean)", "give both the same knob 'pool'"
            )
        return Request(
            self.want | other.want,
            tuple(sorted({*self.hidden, *other.hidden})),
            tuple(sorted({*self.pooled, *other.pooled})),
            tuple(sorted({*self.heads, *other.heads})),
            other.pool if other.pooled else self.pool,
        )


ONLY_LOGITS, NOTHING = Request(), Request(Want.NOTHING)


@cache
def _nothing() -> Tensor:
    """One for all: making a dozen for every batch takes longer than the loss of a small model."""
    import torch

    with torch.inference_mode(False):  # else who asks first, in a teacher's pass, would make it unfit for training
        return torch.empty(0)


# What is kept of a teacher's distribution over a vocabulary: its top, or ids drawn from it. Both speak of a flat list
# of tokens: the predicted positions of a batch, row by row. The full log-sum-exp is kept beside the top, so that the
# mass of the rest is known and logits can be had back.


@dataclass(frozen=True)
class Top:
    """The k most probable ids of each token, most probable first; equals by the lower id."""

    ids: Tensor = field(default_factory=_nothing)  # [tokens, k] int64
    log_p: Tensor = field(default_factory=_nothing)  # [tokens, k] log-probabilities under the whole softmax, at T = 1
    log_sum: Tensor = field(default_factory=_nothing)  # [tokens] log Σ exp(logits) over the whole vocabulary
    # [tokens] log Σ p^(1/T) over the whole vocabulary, for the T below: log p_T(i) = log_p(i) / T − softened
    softened: Tensor = field(default_factory=_nothing)
    temperature: float = 1.0

    def __len__(self) -> int:
        return len(self.ids)

    def rows(self, tokens: slice) -> Top:
        return Top(self.ids[tokens], self.log_p[tokens], self.log_sum[tokens], self.softened[tokens], self.temperature)

    def first(self, k: int) -> Top:
        return Top(self.ids[:, :k], self.log_p[:, :k], self.log_sum, self.softened, self.temperature)


@dataclass(frozen=True)
class Sampled:
    """Ids drawn from softmax(logits / T) with replacement. The weights count / draws are an unbiased target."""

    ids: Tensor = field(default_factory=_nothing)  # [tokens, most] int64, distinct; unused places 0
    weights: Tensor = field(default_factory=_nothing)  # [tokens, most] sum to 1; unused places 0
    temperature: float = 1.0

    def __len__(self) -> int:
        return len(self.ids)

    def rows(self, tokens: slice) -> Sampled:
        return Sampled(self.ids[tokens], self.weights[tokens], self.temperature)


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
            found = found.to(self.weight.dtype) @ self.weight.T  # of a model in mixed precision they are half ones
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
        shown |= Want.TOP if self.top.ids.numel() else Want.NOTHING
        shown |= Want.SAMPLED if self.sampled.ids.numel() else Want.NOTHING
        for name in OF_LAYERS:
            shown |= Want[name.upper()] if getattr(self, name) else Want.NOTHING
        return shown


@dataclass(frozen=True)
class Batch:
    """Examples as tensors. `uids` name them wherever they go.

    A row is what one label is of. Of texts it is the text. Of running text it is a token: labels, has_label and
    predicted are [batch, length]. In `tag` it is a word's first token, one row for each that `predicted` marks. In
    `answer` a text has two rows, where the answer starts and where it ends; `predicted` marks where it may lie. Of
    whole texts it marks those that the teacher has an answer to."""

    task: TaskInfo
    uids: Tensor  # [batch] int64
    labels: Tensor  # class ids, 0/1 per label, numbers, or token ids; anything where not labelled
    has_label: Tensor  # bool: the row has a label
    inputs: Mapping[str, Tensor] = field(default_factory=dict)  # what the model's forward takes
    predicted: Tensor = field(default_factory=_nothing)  # bool: the rows both models speak of; empty for all
    # [batch] 0 where the second sentence follows the first, else 1
    next_sentence_label: Tensor = field(default_factory=_nothing)

    @property
    def in_loss(self) -> Tensor:
        """bool: the rows a soft term speaks of. Of places, every one; of texts, those the teacher has an answer to; of
        tokens, those asked about."""
        import torch

        chosen = self.predicted.numel() and not self.task.in_windows
        return self.predicted if chosen else torch.ones_like(self.has_label)

    def to(self, device: torch.device) -> Batch:
        """The same, with what models read, and which of their answers are asked, on `device`."""
        inputs = {name: tensor.to(device) for name, tensor in self.inputs.items()}
        predicted, next_sentence_label = self.predicted.to(device), self.next_sentence_label.to(device)
        return replace(self, inputs=inputs, predicted=predicted, next_sentence_label=next_sentence_label)


class Teacher(ABC):
    has: Want  # what it can show

    @abstractmethod
    def answer(self, batch: Batch) -> Trace:
        """What the teacher says of these examples, on the batch's device, without gradient."""


class NoTeacher(Teacher):
    """For objectives that want nothing: the student learns from labels alone."""

    has = Want.NOTHING

    def answer(self, batch: Batch) -> Trace:
        return Trace()


@dataclass(frozen=True)
class Chunk:
    """Some tokens of a batch, and what both models say of them: all that a term over tokens may look at.

    The [tokens, vocabulary] tensors of a chunk are made when asked for and shared between terms."""

    logits: Tensor  # [n, vocabulary] the student's
    labels: Tensor  # [n] token ids; anything where not labelled
    has_label: Tensor  # [n] bool
    teacher: Trace  # of the whole batch
    tokens: slice  # which of its asked tokens these are
    _made: dict[tuple[str, float], Tensor] = field(default_factory=dict)

    def log_q(self, temperature: float = 1.0) -> Tensor:
        """[n, vocabulary] the student's log-probabilities."""
        return self._log_softmax("student", temperature)

    def log_p(self, temperature: float = 1.0) -> Tensor:
        """[n, vocabulary] the log-probabilities of a live teacher."""
        return self._log_softmax("teacher", temperature)

    def teacher_logits(self) -> Tensor:
        """[n, vocabulary] of a live teacher."""
        return self._made.setdefault(_LOGITS, self._teacher_logits())

    @property
    def top(self) -> Top:
        """Of a cached teacher; empty if it is live."""
        return self.teacher.top.rows(self.tokens) if len(self.teacher.top) else self.teacher.top

    @property
    def sampled(self) -> Sampled:
        return self.teacher.sampled.rows(self.tokens) if len(self.teacher.sampled) else self.teacher.sampled

    def _teacher_logits(self) -> Tensor:
        """Not kept unless a term looks at them: the log-probabilities are as large."""
        if _LOGITS in self._made:
            return self._made[_LOGITS]
        return _wide(self.teacher.tokens.logits(self.tokens)).detach()

    def _log_softmax(self, whose: str, temperature: float) -> Tensor:
        key = (whose, temperature)
        if key not in self._made:
            logits = _wide(self.logits) if whose == "student" else self._teacher_logits()
            self._made[key] = (logits if temperature == 1 else logits / temperature).log_softmax(-1)
        return self._made[key]


def _wide(x: Tensor) -> Tensor:
    """At least float32: T < 1 and large vocabularies overflow half precision."""
    return x.float() if x.dtype.itemsize < 4 else x
