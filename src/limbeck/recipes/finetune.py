"""Plain fine-tuning: labels only, or the words themselves. What every distilled student is measured against."""

from limbeck.core.objective import Objective
from limbeck.core.task import OF_PLACES, OF_SEQUENCES, OF_TEXTS, OF_TOKENS, Task
from limbeck.objectives import Labels, Language
from limbeck.objectives.papers import DEVLIN_2019
from limbeck.recipes.recipe import Recipe, recipe


def without_teacher(task: Task) -> Objective:
    return 1.0 * Language() if task.of_tokens else 1.0 * Labels()


FINETUNE = recipe(
    Recipe(
        "finetune",
        "labels only, no teacher",
        DEVLIN_2019,
        without_teacher,
        serves=(*OF_TEXTS, *OF_PLACES, *OF_TOKENS, *OF_SEQUENCES),
    )
)
