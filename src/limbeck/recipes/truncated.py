"""Words from a teacher asked once: half the text itself, half the top of the teacher's distribution."""

from limbeck.core.task import LANGUAGE_KINDS
from limbeck.objectives.language import LanguageModeling
from limbeck.objectives.truncated import TAN_2019, Truncated
from limbeck.recipes.recipe import Recipe, Train, recipe

TRUNCATED = recipe(
    Recipe(
        "truncated",
        "words and the top of the teacher's distribution, half and half; from a cache or live",
        TAN_2019,
        lambda task: (Train(0.5 * LanguageModeling() + 0.5 * Truncated()),),
        tasks=LANGUAGE_KINDS,
    )
)
