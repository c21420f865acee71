"""Plain fine-tuning: labels only, or the words themselves. What every distilled student is measured against."""

from limbeck.core.objective import Objective
from limbeck.core.task import LANGUAGE_KINDS, SEQ2SEQ_KINDS, TEXT_KINDS, WINDOW_KINDS, TaskInfo
from limbeck.objectives.labels import DEVLIN_2019, Labels
from limbeck.objectives.language import LanguageModeling
from limbeck.recipes.recipe import Recipe, recipe


def without_teacher(task: TaskInfo) -> Objective:
    return 1.0 * LanguageModeling() if task.over_vocabulary else 1.0 * Labels()


FINETUNE = recipe(
    Recipe(
        "finetune",
        "labels only, no teacher",
        DEVLIN_2019,
        without_teacher,
        serves=(*TEXT_KINDS, *WINDOW_KINDS, *LANGUAGE_KINDS, *SEQ2SEQ_KINDS),
    )
)
