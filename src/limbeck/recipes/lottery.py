"""The lottery ticket: train, prune the smallest weights, rewind the rest to where they began, again and again.

    θ₀ → [ train → keep the 80 % largest |w| of each layer → back to θ₀ ] × rounds → train

Frankle and Carbin find that the pruned network, trained from its own start, reaches the accuracy of the whole one with
a tenth of the weights; trained from another start it does not. No teacher: the student learns from labels alone.

Steps: a snapshot of the start, rounds of training, pruning and rewinding, and a last training. Weights of linear and
convolution layers are pruned, layer by layer; biases, norms and embeddings stay whole. What is pruned stays 0. Weights
may also be rewound to an early step instead of the very start, or not at all (only the learning rate begins anew).

Sources: the paper, 20 % per round and layer, the output layer of its LeNet at half that rate.
"""

from collections.abc import Mapping, Sequence
from types import MappingProxyType

from limbeck.core.card import Paper
from limbeck.core.task import WHOLE_KINDS, WINDOW_KINDS, TaskInfo
from limbeck.objectives.supervised import supervised
from limbeck.passes.magnitude import Magnitude
from limbeck.recipes.recipe import Apply, Recipe, Repeat, Rewind, Snapshot, StageSettings, Step, Train, recipe

HEAD, EARLY = "head", "early"  # trainings before the weights that are rewound to: of a new head alone, of all
NOTHING_BEFORE: Mapping[str, float] = MappingProxyType({})
START = "start"  # the name of these weights
TRAINED = "trained"  # what one-shot pruning judges all weights by
FRANKLE_2019 = Paper(
    "The Lottery Ticket Hypothesis: Finding Sparse, Trainable Neural Networks",
    "Jonathan Frankle, Michael Carbin",
    2019,
    "ICLR 2019",
    "frankle2019lottery",
    "https://arxiv.org/abs/1803.03635",
)


def ticket_steps(
    task: TaskInfo,
    rounds: int,
    prune: Magnitude,
    *,
    rewind: bool = True,
    before: Mapping[str, float] = NOTHING_BEFORE,
    by_start: bool = False,
) -> tuple[Step, ...]:
    """The plan of every search for a ticket; `before` has the epochs of trainings before what is rewound to.

    With `by_start` it prunes behind the rewind: the magnitudes of the start itself decide."""
    learn, cut = Train(supervised(task)), Apply(prune)
    first = [Train(supervised(task), name, StageSettings(epochs=epochs)) for name, epochs in before.items() if epochs]
    turn = (Rewind(START), cut) if by_start else (cut, Rewind(START)) if rewind else (cut,)
    return (*first, Snapshot(START), Repeat(rounds, (learn, *turn)), learn)


def one_shot_steps(task: TaskInfo, rounds: Sequence[int], prune: Magnitude) -> tuple[Step, ...]:
    """One training of the whole model, and a ticket of as many weights as each number of rounds leaves.

    Weights are judged as that training left them; what fewer rounds prune of these, more rounds prune too."""
    learn, steps, before = Train(supervised(task)), list[Step](), 0
    for more in rounds:
        again = (Rewind(TRAINED),) if before else ()
        steps += [*again, *[Apply(prune)] * (more - before), Rewind(START), learn]
        before = more
    return (Snapshot(START), learn, Snapshot(TRAINED), *steps)


LOTTERY = recipe(
    Recipe(
        "lottery",
        "iterative magnitude pruning with rewinding: labels only, a sparse student",
        FRANKLE_2019,
        lambda task: ticket_steps(task, 10, Magnitude(fraction=0.2)),
        tasks=(*WHOLE_KINDS, *WINDOW_KINDS),
        defaults={"student": {"keep": "every-1"}},  # all layers of the model it starts from
    )
)
