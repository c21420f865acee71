"""Truncated softmax: the student learns the k most probable tokens of the teacher, which a cache can store.

    p, q   teacher and student over the whole vocabulary, S the k most probable tokens of p (ties: the lower id),
    m      = Σ p over S, all softened by the temperature T

    tail          L = T² · [ Σ_S p log(p/q) + (1 − m) log((1 − m) / (1 − Σ_S q)) ]
    renorm        L = T² · Σ_S (p/m) log((p/m) / q)
    renorm-both   L = T² · Σ_S (p/m) log((p/m) / (q / Σ_S q))
    raw           L = −T² · Σ_S p log q

Which to take: `tail`. It treats everything outside S as one more token, so the student learns both the top and the mass
that the teacher leaves to the rest. It is a lower bound of the full KL, approaches it as k grows, and is 0 for a
student that has both right.

The other forms serve comparisons and reproduce papers:

- `renorm` is the classic form (a softmax over the top-k logits). At its minimum the student gives every token of S p/m
  and every other token nothing: it is overconfident by 1/m. At k = 1 it is training on the teacher's first choice.
- `renorm-both` compares ratios inside S only and leaves the mass outside to the other terms. At k = 1 it is always 0.
- `raw` is renorm times m: the same minimum, and weak where the teacher is unsure. It is a cross-entropy, not 0 there.

How large a k: docs/truncated.md has the measured curve of k against quality, bytes and time.

Temperature: the top is selected on the logits, then softened. The renorm forms are exact at any T, whatever the T of a
cache. `tail` and `raw` need the sum over the whole vocabulary at T, which a cache stores for T = 1 and one other T.

Example:

    import torch
    import limbeck

    student, teacher = torch.randn(6, 100), torch.randn(6, 100)  # [tokens, vocabulary]
    limbeck.loss(limbeck.Truncated(k=10), student, teacher)
"""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, Literal

from limbeck.core.card import Paper, method
from limbeck.core.errors import MismatchError
from limbeck.core.knob import knob
from limbeck.core.objective import TokenObjective
from limbeck.core.trace import Chunk, Want

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

LIVE_K = 50  # of a live teacher, when the knob k is 0


@method("truncated", TAN_2019)
class Truncated(TokenObjective):
    """KL over the teacher's k most probable tokens and the rest."""

    wants: ClassVar[Want] = Want.TOP
    name: ClassVar[str] = "truncated"

    form: Literal["tail", "renorm", "renorm-both", "raw"] = knob(
        "tail", "what becomes of the tokens outside the top", source="lower bound of the full KL"
    )
    k: int = knob(0, "tokens of the top; 0 takes all a cache holds", at_least=0, source=f"{LIVE_K} of a live teacher")
    temperature: float = knob(
        1.0, "softens both distributions; 1 leaves them as they are", above=0, source="no softening"
    )

    def each(self, chunk: Chunk) -> Tensor:
        from limbeck.functional.truncated import top_of, truncated_loss

        top = chunk.top
        if not len(top):
            top = top_of(chunk.teacher_logits(), self.k or LIVE_K, self.temperature)
        elif self.k:
            top = top.first(self.k)
        log_q = chunk.log_q(self.temperature)
        return self.temperature**2 * truncated_loss(self.form, top, log_q, self.temperature)

    def fits(self, k: int, temperature: float) -> None:
        """Refuses a cache of the top `k` at a temperature that cannot serve these knobs."""
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
