"""Some tokens of a batch, and what both models say of them: all that a term over tokens may look at.

The [tokens, vocabulary] tensors of a chunk are made when asked for and shared between terms.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from limbeck.core.topk import Sampled, Top
from limbeck.core.trace import Trace

if TYPE_CHECKING:
    from torch import Tensor

_ASKED = ("logits", 1.0)


@dataclass(frozen=True)
class Chunk:
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
        if _ASKED not in self._made:
            self._made[_ASKED] = self._asked()
        return self._made[_ASKED]

    @property
    def top(self) -> Top:
        """Of a cached teacher; empty if it is live."""
        return self.teacher.top.rows(self.tokens) if len(self.teacher.top) else self.teacher.top

    @property
    def sampled(self) -> Sampled:
        return self.teacher.sampled.rows(self.tokens) if len(self.teacher.sampled) else self.teacher.sampled

    def _asked(self) -> Tensor:
        """The teacher's logits, not kept unless a term has asked for them: its log-probabilities are as large."""
        if _ASKED in self._made:
            return self._made[_ASKED]
        return _wide(self.teacher.tokens.logits(self.tokens)).detach()

    def _log_softmax(self, whose: str, temperature: float) -> Tensor:
        key = (whose, temperature)
        if key not in self._made:
            logits = _wide(self.logits) if whose == "student" else self._asked()
            self._made[key] = (logits if temperature == 1 else logits / temperature).log_softmax(-1)
        return self._made[key]


def _wide(x: Tensor) -> Tensor:
    """At least float32: T < 1 and large vocabularies overflow half precision."""
    return x.float() if x.dtype.itemsize < 4 else x
