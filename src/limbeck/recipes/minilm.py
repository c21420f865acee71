"""MiniLM and MiniLMv2: first the teacher's last attention, then its answers.

Stages. `relations`: the student learns the relations of one layer of the teacher, the objective `minilm` or `minilmv2`
alone; its classifier learns nothing yet. Main: labels and the teacher's softened distribution, half and half, at T = 4
(a number has none: there the teacher's number itself).

minilm compares heads one to one, so the student keeps as many heads as the teacher; minilmv2 does not.

Where it departs from the papers. They distil without a task, from pre-training text, and fine-tune afterwards on labels
alone; here the stage `relations` reads the task's own texts, and the main stage hears the teacher too. More text in the
training file, unlabelled too, serves both stages. The stage takes the epochs and learning rate of the main stage: the
papers' belong to pre-training and do not carry over.

Published (MiniLM, 6 layers × 384 from BERT-base): MNLI 83.3 and SST-2 91.5, where the teacher has 84.5 and 93.2.

Cost: a second run over the training texts, in which the teacher is asked for one layer. minilm computes that layer's
attention without the fused kernel; minilmv2 keeps it, and makes a [length, length] map per relation head.
"""

from limbeck.core.task import TEXT_KINDS, WINDOW_KINDS
from limbeck.objectives.minilm import WANG_2020, MiniLM
from limbeck.objectives.minilmv2 import WANG_2021, MiniLMv2
from limbeck.recipes.defaults import half_and_half
from limbeck.recipes.recipe import Recipe, Train, recipe

MINILM = recipe(
    Recipe(
        "minilm",
        "the teacher's last attention and the relations of its values, then labels and its answers",
        WANG_2020,
        lambda task: (Train(1.0 * MiniLM(), "relations"), Train(half_and_half(task))),
        tasks=(*TEXT_KINDS, *WINDOW_KINDS),
    )
)
MINILMV2 = recipe(
    Recipe(
        "minilmv2",
        "the relations of the teacher's last queries, keys and values, then labels and its answers; any width or heads",
        WANG_2021,
        lambda task: (Train(1.0 * MiniLMv2(), "relations"), Train(half_and_half(task))),
        tasks=(*TEXT_KINDS, *WINDOW_KINDS),
    )
)
