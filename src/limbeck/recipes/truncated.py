"""Words from a teacher asked once: half the text itself, half the top of the teacher's distribution."""

from limbeck.core.task import OF_TOKENS
from limbeck.objectives import Language, Truncated
from limbeck.objectives.papers import TAN_2019
from limbeck.recipes.recipe import Recipe, recipe

TRUNCATED = recipe(
    Recipe(
        "truncated",
        "words and the top of the teacher's distribution, half and half; from a cache or live",
        TAN_2019,
        lambda task: 0.5 * Language() + 0.5 * Truncated(),
        serves=OF_TOKENS,
    )
)
