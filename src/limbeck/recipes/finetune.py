"""Plain fine-tuning: labels only. The baseline every distilled student is measured against."""

from limbeck.objectives import Labels
from limbeck.objectives.papers import DEVLIN_2019
from limbeck.recipes.recipe import Recipe, recipe

FINETUNE = recipe(Recipe("finetune", "labels only, no teacher", DEVLIN_2019, lambda task: 1.0 * Labels()))
