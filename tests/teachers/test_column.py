"""A teacher whose answers stand in the data: found by uid, in any order."""

import numpy as np
import pytest
import torch

from limbeck.core.errors import MismatchError
from limbeck.core.task import TaskInfo
from limbeck.core.trace import Batch
from limbeck.teachers.column import ColumnTeacher

TASK = TaskInfo(kind="classify", labels=("a", "b"))
TEACHER = ColumnTeacher("gpt", np.array([7, 3, 5]), np.array([[0.1, 0.2], [np.nan, np.nan], [0.5, 0.6]]))


def batch(*uids):
    return Batch(TASK, torch.tensor(uids), torch.zeros(len(uids)), torch.zeros(len(uids), dtype=torch.bool))


def test_answers_are_found_by_uid():
    np.testing.assert_array_equal(
        TEACHER.answer(batch(5, 7, 5)).logits.numpy(), np.float32([[0.5, 0.6], [0.1, 0.2], [0.5, 0.6]])
    )


def test_a_row_without_an_answer_has_numbers_that_no_term_looks_at():
    assert TEACHER.answer(batch(3)).logits.tolist() == [[0.0, 0.0]]


@pytest.mark.parametrize("uid", [1, 4, 9])
def test_an_unknown_text_is_refused(uid):
    with pytest.raises(MismatchError, match="the teacher's column 'gpt' has no answer to some of the texts"):
        TEACHER.answer(batch(7, uid))
