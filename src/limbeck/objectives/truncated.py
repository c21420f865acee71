"""Truncated softmax: the student learns the k most probable words of the teacher, which a cache can keep.

    p, q   teacher and student over the whole vocabulary, S the k most probable words of p (equals by the lower id),
    m      = Σ p over S, all softened by the temperature T

    tail          L = T² · [ Σ_S p log(p/q) + (1 − m) log((1 − m) / (1 − Σ_S q)) ]
    renorm        L = T² · Σ_S (p/m) log((p/m) / q)
    renorm-both   L = T² · Σ_S (p/m) log((p/m) / (q / Σ_S q))
    raw           L = −T² · Σ_S p log q

Which to take: `tail`. Everything outside S becomes one more word, so the student learns both the top and how much the
teacher leaves to the rest. It is a lower bound of the full KL that grows to it with k, and it is 0 for the student that
has both right.

The others are there to compare and to reproduce papers:

- `renorm` is the classic form (top-k logits put through a softmax). At its minimum the student gives every kept word
  p/m and every other word nothing: too sure of itself by 1/m. At k = 1 it is training on the teacher's first choice.
- `renorm-both` compares ratios inside S only and leaves the mass outside to the other terms. At k = 1 it is always 0.
- `raw` is renorm times m: the same minimum, and weak where the teacher is unsure. It is a cross-entropy, not 0 there.

How large a k: the measured curve of k against quality, bytes and time is in docs/truncated.md.

Temperature: the top is chosen on the logits, then softened. The renorm forms are exact at any T, whatever T a cache was
made at. `tail` and `raw` need the whole sum over the vocabulary at T, which a cache keeps for T = 1 and for one more T.

Example:

    import torch
    import limbeck

    student, teacher = torch.randn(6, 100), torch.randn(6, 100)  # [tokens, vocabulary]
    limbeck.loss(limbeck.Truncated(k=10), student, teacher)
"""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, Literal

from limbeck import functional
from limbeck.core.card import Paper, method
from limbeck.core.errors import MismatchError
from limbeck.core.knob import knob
from limbeck.core.objective import TokenObjective
from limbeck.core.trace import Chunk, Top, Want

if TYPE_CHECKING:
    from torch import Tensor

TAN_2019 = Paper(
    "Multilingual Neural Machine Translation with Knowledge Distillation",
    "Xu Tan and Yi Ren and Di He and Tao Qin and Zhou Zhao and Tie-Yan Liu",
    2019,
    "ICLR 2019, arXiv:1902.10461",
    "tan2019multilingual",
    "https://arxiv.org/abs/1902.10461",
)

LIVE_K = 50  # of a teacher that could show everything, when nobody says how many


@method("truncated", TAN_2019)
class Truncated(TokenObjective):
    """KL over the teacher's k most probable tokens and the rest."""

    wants: ClassVar[Want] = Want.TOP
    name: ClassVar[str] = "truncated"

    form: Literal["tail", "renorm", "renorm-both", "raw"] = knob(
        "tail", "what becomes of the words outside the top", source="lower bound of the full KL"
    )
    k: int = knob(0, "words kept; 0 takes all a cache holds", at_least=0, source=f"{LIVE_K} of a live teacher")
    temperature: float = knob(
        1.0, "softens both distributions; 1 leaves them as they are", above=0, source="no softening"
    )

    def each(self, chunk: Chunk) -> Tensor:
        log_q = chunk.log_q(self.temperature)
        return self.temperature**2 * functional.truncated_loss(self.form, self._top(chunk), log_q, self.temperature)

    def _top(self, chunk: Chunk) -> Top:
        if len(chunk.top):
            return chunk.top.first(self.k) if self.k else chunk.top
        return functional.top_of(chunk.teacher_logits(), self.k or LIVE_K, self.temperature)

    def fits(self, k: int, temperature: float) -> None:
        """Refuses answers that hold `k` words and were made for this temperature, if they cannot serve these knobs."""
        if self.k > k:
            raise MismatchError(
                f"'truncated' asks for the {self.k} most probable words, but the cache holds {k}",
                f"set objective.truncated.k to {k} or less (0: all), or make the cache again with --top {self.k}",
            )
        if self.form in ("tail", "raw") and self.temperature not in (1.0, temperature):
            raise MismatchError(
                f"form '{self.form}' at temperature {self.temperature:g} needs the sum over the whole vocabulary at "
                f"that temperature, but the cache keeps it for {_either(temperature)}",
                f"set objective.truncated.temperature to {_either(temperature)}, use the form 'renorm', or make the "
                f"cache again at temperature {self.temperature:g}",
            )


def _either(temperature: float) -> str:
    return "1" if temperature == 1 else f"1 or {temperature:g}"
