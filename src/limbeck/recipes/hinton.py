"""Hinton's recipe: half the labels, half the teacher's softened distribution.

The paper finds any T above 8 alike for a wide student and 2.5 to 4 best for a narrow one; a small encoder is narrow.
"""

from limbeck.core.task import WHOLE_KINDS, WINDOW_KINDS
from limbeck.objectives.hinton import HINTON_2015, SoftTargets
from limbeck.objectives.labels import Labels
from limbeck.recipes.defaults import TEMPERATURE
from limbeck.recipes.recipe import Recipe, Train, recipe

HINTON = recipe(
    Recipe(
        "hinton",
        "labels and softened teacher distribution, half and half",
        HINTON_2015,
        lambda task: (Train(0.5 * Labels() + 0.5 * SoftTargets(temperature=TEMPERATURE)),),
        tasks=(*WHOLE_KINDS, *WINDOW_KINDS),
    )
)
