"""A teacher asked once about a batch answers the same from memory, unless that is too large."""

import subprocess
import sys

import torch

from limbeck.core.task import TaskInfo
from limbeck.core.trace import Batch, Projection, Teacher, Trace, Want
from limbeck.teachers.live import MemoryTeacher

TASK = TaskInfo(kind="mask-fill", vocab_size=7)


class Counting(Teacher):
    has = Want.LOGITS

    def __init__(self, weight):
        self.weight, self.asked = weight, 0

    def answer(self, batch):
        self.asked += 1
        return Trace(tokens=Projection(torch.full((3, 4), self.asked), self.weight))


def batch(*uids):
    return Batch(TASK, torch.tensor(uids), torch.zeros(len(uids)), torch.zeros(len(uids), dtype=torch.bool))


def test_a_projection_is_remembered_by_its_examples():
    network = Counting(torch.ones(7, 4))
    teacher = MemoryTeacher(network)
    assert teacher.has == Want.LOGITS
    first = teacher.answer(batch(1, 2))
    assert teacher.answer(batch(1, 2)) is first
    assert teacher.answer(batch(2, 1)) is not first
    assert (network.asked, teacher.forgets) == (2, False)


def test_whole_logits_are_asked_for_again():
    network = Counting(torch.empty(0))
    teacher = MemoryTeacher(network)
    for _ in range(2):
        teacher.answer(batch(1, 2))
    assert (network.asked, teacher.forgets) == (2, True)


def test_settings_need_no_torch():
    code = "import sys, limbeck.teachers.settings; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
