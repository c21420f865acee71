"""DistilBERT: soft words, masked words and the direction of the last hidden state, 5 : 2 : 1 at T = 2.

As its code has it: rare tokens are masked more often, the soft term speaks of every token, the student keeps every
other layer and has neither segments nor a pooler.
"""

from limbeck.objectives.distilbert import SANH_2019, Cosine
from limbeck.objectives.language import LanguageModeling
from limbeck.objectives.word_kd import WordKD
from limbeck.recipes.recipe import Recipe, Train, recipe

DISTILBERT = recipe(
    Recipe(
        "distilbert",
        "masked words, the teacher's whole distribution and its last hidden states, 2 : 5 : 1",
        SANH_2019,
        lambda task: (Train(2.0 * LanguageModeling() + 5.0 * WordKD(temperature=2.0) + 1.0 * Cosine()),),
        tasks=("mask-fill",),
        defaults={"mask": {"kind": "rare", "ask": "all"}, "student": {"family": "distilbert"}},
    )
)
