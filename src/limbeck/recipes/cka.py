"""CKA: labels, the teacher's softened distribution, and how its hidden states lie to one another, in any width.

    L = 0.5 · labels + 0.5 · T²·KL + 1 · (1 − CKA)        T = 4

The choice when the student is narrower than the teacher and no bridge is wanted. The paper distils in pre-training and
in fine-tuning, with BERT, BART and T5; weights and temperature here are our own, those of 'hinton' with CKA beside it.
The term is between 0 and 1, or a little above, whatever the models: its weight need not be searched far from 1.

CKA is a statistic of the batch, so the batch size matters: 32 texts of some tokens each are enough of rows, and
accumulated micro-batches do not make a larger one. The plain estimator, which most code has, rewards a student for
nothing when a batch has fewer rows than the states have coordinates; here the unbiased one is the default.

Numbers, regression: 'logits' stands where the softened distribution does. The teacher's hidden states are asked for,
of every mapped layer and token: live they cost its forward pass, in a cache far more room than answers.
"""

from limbeck.core.task import TEXT_KINDS, WINDOW_KINDS
from limbeck.objectives.cka import CKA as Alignment
from limbeck.objectives.cka import DASGUPTA_COHN_2025
from limbeck.recipes.defaults import half_and_half
from limbeck.recipes.recipe import Recipe, Train, recipe

CKA = recipe(
    Recipe(
        "cka",
        "labels, softened distribution, and the shape of the teacher's hidden states; students of any width",
        DASGUPTA_COHN_2025,
        lambda task: (Train(half_and_half(task) + 1.0 * Alignment()),),
        tasks=(*TEXT_KINDS, *WINDOW_KINDS),
    )
)
