"""Word-level distillation: half the text itself, half the teacher's whole distribution over the vocabulary, live."""

from limbeck.core.task import OF_TOKENS
from limbeck.objectives import Language, WordKD
from limbeck.objectives.papers import KIM_RUSH_2016
from limbeck.recipes.recipe import Recipe, recipe

WORD_KD = recipe(
    Recipe(
        "word-kd",
        "words and the teacher's whole distribution, half and half; asks the teacher at every step",
        KIM_RUSH_2016,
        lambda task: 0.5 * Language() + 0.5 * WordKD(),
        serves=OF_TOKENS,
    )
)
