"""The teacher's answers as a term of the loss, by task, for every recipe whose paper does not say otherwise.

Temperature and weights are those that docs/encoders.md has the table for.
"""

from limbeck.core.objective import Objective
from limbeck.core.task import TaskInfo
from limbeck.objectives.hinton import SoftTargets
from limbeck.objectives.labels import Labels
from limbeck.objectives.logits import LogitRegression

TEMPERATURE = 4.0


def soft(task: TaskInfo, temperature: float = TEMPERATURE) -> Objective:
    """A number has no distribution to soften: there the student learns the teacher's raw score."""
    return 1.0 * (LogitRegression() if task.kind == "regress" else SoftTargets(temperature=temperature))


def half_and_half(task: TaskInfo, temperature: float = TEMPERATURE) -> Objective:
    return 0.5 * Labels() + 0.5 * soft(task, temperature)
