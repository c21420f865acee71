"""Two models' words side by side. Rows of a projection beyond the tokenizer's last token are padding."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from limbeck.core.errors import MismatchError
from limbeck.core.fingerprint import tokenizers_equal

if TYPE_CHECKING:
    from transformers import PreTrainedModel

_REMEDY = (
    "take a student of the teacher's family, or shrink the teacher itself; "
    "answers about words cannot be carried over to another cut of the text"
)


@dataclass(frozen=True)
class Shared:
    """The words both models know, which are the first of each."""

    size: int
    tokenizer: Any  # gives no others
    note: str = ""  # said to people when the two differ


def own_words(model: PreTrainedModel, tokenizer: Any, whose: str = "model") -> int:
    """The words a model can say: its tokenizer's, without the rows that pad them to a round number."""
    words = max(tokenizer.get_vocab().values()) + 1
    if rows_of(model) < words:
        raise MismatchError(
            f"the tokenizer has {words:,} tokens, but the {whose} knows only {rows_of(model):,}",
            "resize its embeddings to the tokenizer, or use the tokenizer it was trained with",
        )
    return words


def shared_words(
    teacher: PreTrainedModel, student: PreTrainedModel, teacher_tokenizer: Any, student_tokenizer: Any
) -> Shared:
    """How many words to compare, token by token; tokenizers that cut text differently are refused."""
    _alike(teacher_tokenizer, student_tokenizer)
    t, s = own_words(teacher, teacher_tokenizer, "teacher"), own_words(student, student_tokenizer, "student")
    size, tokenizer = min(t, s), teacher_tokenizer if t < s else student_tokenizer
    t, s = rows_of(teacher), rows_of(student)
    if t == s:
        return Shared(size, tokenizer)
    said = f"the teacher has {t:,} words and the student {s:,}"
    return Shared(size, tokenizer, f"{said}: both are compared on the {size:,} tokens they share; the rest is padding")


def rows_of(model: PreTrainedModel) -> int:
    """Rows of the output projection."""
    return int(model.get_output_embeddings().weight.shape[0])


def _alike(teacher: Any, student: Any) -> None:
    """The same tokenizer, or one that only adds tokens at the end of the other's."""
    a, b = (tokenizer.get_vocab() for tokenizer in (teacher, student))
    if a == b:
        if not tokenizers_equal(teacher, student):
            raise MismatchError("teacher and student cut text into different tokens", _REMEDY)
        return
    small, large = sorted((a, b), key=len)
    moved = [token for token, number in small.items() if large.get(token) != number]
    added = [number for token, number in large.items() if token not in small]
    if moved or min(added) <= max(small.values()):
        what = f"'{moved[0]}' is another token" if moved else "their numbers interleave"
        raise MismatchError(f"teacher and student have different tokenizers ({what})", _REMEDY)
