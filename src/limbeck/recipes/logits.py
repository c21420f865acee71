"""Logit regression: the teacher's scores themselves, beside the labels. The choice for regression tasks."""

from limbeck.core.task import WHOLE_KINDS, WINDOW_KINDS
from limbeck.objectives.labels import Labels
from limbeck.objectives.logits import BA_CARUANA_2014, LogitRegression
from limbeck.recipes.recipe import Recipe, Train, recipe

LOGITS = recipe(
    Recipe(
        "logits",
        "labels and the teacher's raw scores, half and half; serves regression",
        BA_CARUANA_2014,
        lambda task: (Train(0.5 * Labels() + 0.5 * LogitRegression()),),
        tasks=(*WHOLE_KINDS, *WINDOW_KINDS),
    )
)
