"""The vocabularies of two models side by side. Rows of a projection beyond the tokenizer's last token are padding."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from limbeck.core.errors import MismatchError
from limbeck.core.fingerprint import tokenizers_equal

if TYPE_CHECKING:
    from transformers import PreTrainedModel, PreTrainedTokenizerBase

_REMEDY = (
    "take a student of the teacher's family, or shrink the teacher itself; "
    "predictions of tokens cannot be carried over to another tokenizer"
)


@dataclass(frozen=True)
class CommonVocab:
    """The tokens both models have, which are the first of each."""

    size: int
    tokenizer: PreTrainedTokenizerBase  # gives no others
    note: str = ""  # for people, where the two differ


def vocab_size_of(model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase, whose: str = "model") -> int:
    """The tokens of a model's tokenizer, without the rows that pad its projection to a round number."""
    tokens = max(tokenizer.get_vocab().values()) + 1
    if rows_of(model) < tokens:
        raise MismatchError(
            f"the tokenizer has {tokens:,} tokens, but the {whose} has embeddings for only {rows_of(model):,}",
            "resize its embeddings to the tokenizer, or use the tokenizer it was trained with",
        )
    return tokens


def common_vocab(
    teacher: PreTrainedModel,
    student: PreTrainedModel,
    teacher_tokenizer: PreTrainedTokenizerBase,
    student_tokenizer: PreTrainedTokenizerBase,
) -> CommonVocab:
    """The vocabulary to compare on, token by token; tokenizers that split text differently are refused."""
    _alike(teacher_tokenizer, student_tokenizer)
    t, s = vocab_size_of(teacher, teacher_tokenizer, "teacher"), vocab_size_of(student, student_tokenizer, "student")
    size, tokenizer = min(t, s), teacher_tokenizer if t < s else student_tokenizer
    t, s = rows_of(teacher), rows_of(student)
    if t == s:
        return CommonVocab(size, tokenizer)
    sizes = f"the teacher has {t:,} output rows and the student {s:,}"
    note = f"{sizes}: both are compared on the {size:,} tokens they share; the rest is padding"
    return CommonVocab(size, tokenizer, note)


def rows_of(model: PreTrainedModel) -> int:
    """Rows of the output projection."""
    return int(model.get_output_embeddings().weight.shape[0])


def _alike(teacher: PreTrainedTokenizerBase, student: PreTrainedTokenizerBase) -> None:
    """The same tokenizer, or one that only adds tokens at the end of the other's."""
    a, b = (tokenizer.get_vocab() for tokenizer in (teacher, student))
    if a == b:
        if not tokenizers_equal(teacher, student):
            raise MismatchError(
                "student and teacher use different tokenizers, so token positions do not line up", _REMEDY
            )
        return
    small, large = sorted((a, b), key=len)
    moved = [token for token, number in small.items() if large.get(token) != number]
    added = [number for token, number in large.items() if token not in small]
    if moved or min(added) <= max(small.values()):
        what = f"'{moved[0]}' is another token" if moved else "their numbers interleave"
        raise MismatchError(f"teacher and student have different tokenizers ({what})", _REMEDY)
