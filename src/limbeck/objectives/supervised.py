"""What people gave, without a teacher: labels, or the tokens of the text; what students are compared with."""

from __future__ import annotations

from limbeck.core.objective import Objective
from limbeck.core.task import TaskInfo
from limbeck.objectives.labels import Labels
from limbeck.objectives.language import LanguageModeling


def supervised(task: TaskInfo, labels: Labels = Labels()) -> Objective:  # noqa: B008
    return 1.0 * (LanguageModeling() if task.over_vocabulary else labels)
