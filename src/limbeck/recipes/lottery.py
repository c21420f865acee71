"""The lottery ticket: train, prune the smallest weights, rewind the rest to where they began, again and again.

    θ₀ → [ train → keep the 80 % largest |w| of each layer → back to θ₀ ] × rounds → train

Frankle and Carbin find that the pruned network, trained from its own start, reaches the accuracy of the whole one with
a tenth of the weights; trained from another start it does not. No teacher: the student learns from labels alone.

Steps: a snapshot of the start, 10 rounds of training, pruning and rewinding, and a last training. Weights of linear and
convolution layers are pruned, layer by layer; biases, norms and embeddings stay whole. What is pruned stays 0.

Sources: the paper, 20 % per round and layer. Its LeNet prunes the output layer at half the rate; here it is as others.
"""

from limbeck.core.card import Paper
from limbeck.core.task import TEXT_KINDS, WINDOW_KINDS
from limbeck.objectives.supervised import supervised
from limbeck.passes.magnitude import Magnitude
from limbeck.recipes.recipe import Apply, Recipe, Repeat, Rewind, Snapshot, Train, recipe

FRANKLE_2019 = Paper(
    "The Lottery Ticket Hypothesis: Finding Sparse, Trainable Neural Networks",
    "Jonathan Frankle, Michael Carbin",
    2019,
    "ICLR 2019",
    "frankle2019lottery",
    "https://arxiv.org/abs/1803.03635",
)

LOTTERY = recipe(
    Recipe(
        "lottery",
        "iterative magnitude pruning with rewinding: labels only, a sparse student",
        FRANKLE_2019,
        lambda task: (
            Snapshot("start"),
            Repeat(10, (Train(supervised(task)), Apply(Magnitude(fraction=0.2)), Rewind("start"))),
            Train(supervised(task)),
        ),
        tasks=(*TEXT_KINDS, *WINDOW_KINDS),
        defaults={"student": {"keep": "every-1"}},  # all layers of the model it starts from
    )
)
