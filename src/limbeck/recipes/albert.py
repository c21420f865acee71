"""ALBERT's student: layers that share one set of weights, and narrow word embeddings; Hinton's objective.

The student is a transformers ALBERT made from a BERT. By default all its layers are one (--student.groups 1) and words
have 128 coordinates that a map widens to the hidden size (--student.embedding 128). The shared layer starts from the
middle one of the teacher, the embeddings from its leading directions. Of other encoders, --student.groups shares the
layers without changing the architecture, and --student.embedding factorises the words.

What it buys: the file and the memory of the weights. BERT-base has 109,482,240 parameters, ALBERT-base of 30,000 words
11,683,584, whatever its depth. What it does not buy: time. Every layer is still computed, so an ALBERT of 12 layers
answers as slowly as the BERT of 12 layers it came from; take layers away too (--student.layers) to be faster.

Stages: one, half labels and half the teacher's distribution at T = 4, as in `hinton`. The paper itself distils nothing:
it trains from scratch, on masked n-grams and the order of sentences, which is not done here.

Defaults and their sources: groups and embedding from the paper's base model, the objective from `hinton`. The paper's
code, in its second version, trains without dropout; here the teacher's dropout stays, though an ALBERT layer has none
after its feed-forward block.
"""

from limbeck.core.card import Paper
from limbeck.core.task import TEXT_KINDS, WINDOW_KINDS
from limbeck.recipes.defaults import half_and_half
from limbeck.recipes.recipe import Recipe, Train, recipe

LAN_2020 = Paper(
    "ALBERT: A Lite BERT for Self-supervised Learning of Language Representations",
    "Zhenzhong Lan and Mingda Chen and Sebastian Goodman and Kevin Gimpel and Piyush Sharma and Radu Soricut",
    2020,
    "ICLR 2020, arXiv:1909.11942",
    "lan2020albert",
    "https://arxiv.org/abs/1909.11942",
)

ALBERT = recipe(
    Recipe(
        "albert",
        "a student whose layers share their weights; labels and softened teacher distribution, half and half",
        LAN_2020,
        lambda task: (Train(half_and_half(task)),),
        tasks=(*TEXT_KINDS, *WINDOW_KINDS),
        defaults={"student": {"family": "albert"}},
    )
)
