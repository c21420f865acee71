"""Plain fine-tuning: labels only, or the words themselves. What every distilled student is measured against."""

from limbeck.core.task import LANGUAGE_KINDS, SEQ2SEQ_KINDS, WHOLE_KINDS, WINDOW_KINDS
from limbeck.objectives.labels import DEVLIN_2019
from limbeck.objectives.supervised import supervised
from limbeck.recipes.recipe import Recipe, Train, recipe

FINETUNE = recipe(
    Recipe(
        "finetune",
        "labels only, no teacher",
        DEVLIN_2019,
        lambda task: (Train(supervised(task)),),
        tasks=(*WHOLE_KINDS, *WINDOW_KINDS, *LANGUAGE_KINDS, *SEQ2SEQ_KINDS),
    )
)
