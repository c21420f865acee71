"""A small student in three epochs: the teacher's hidden states first, then its answers, on texts of the right length.

Steps:

1. vocabulary: pieces that no training row has go, before anything is learnt; single characters stay, so that every word
   can be spelled. On the training rows the tokens, and with them the teacher's outputs, are the same.
2. hidden: embeddings and hidden states of every layer against the teacher's, as in TinyBERT without attention scores;
   each layer learns from the one it was cut from, the last from the last. One epoch.
3. main: the teacher's distribution at T = 1 (a number: its raw score), and the hidden states still. Two epochs.

The student is that of `--preset small`: half the layers, a quarter of the feed-forward neurons, word vectors of a third
of the width, said as an ordinary ELECTRA where the teacher can be one. All of it starts from the teacher's weights, so
the first stage only mends what cutting tore. `--preset tiny` is smaller. Labels are not used; the student without a
teacher has them.

The transfer set is the training rows and joins of two of them, as long as the texts of dev: SST-2's rows are phrases of
9 words, its test sentences have 19. Tags and spans have no joins.

Defaults and their sources: a probe on SST-2 with MiniLM-L6 (89.8 % on test) as the teacher, 3 layers of 384 neurons and
vectors of 128, 35,000 rows and as many joins: 88.7 %; on rows and logits alone the same student stays at 81 to 82 % on
dev. The learning rate, 5e-4, is high since nothing is new in the student and it is narrow; no dropout, since it
underfits and never sees a label. Not searched further.

Cost: hidden states are cached on disk, two bytes for each of (layers + 1) × width numbers of a token, so that an epoch
is as cheap as plain training: 2.4 GB for a million tokens, three layers and a width of 384. The size is said before it
is written, and refused where the disk is too small; --data.limit and --augment.limit make it smaller.
"""

from limbeck.core.task import TEXT_KINDS, WINDOW_KINDS
from limbeck.functional.layermap import KEPT
from limbeck.objectives.tinybert import JIAO_2020, TinyBERT
from limbeck.passes.vocabulary import Vocabulary
from limbeck.recipes.defaults import soft
from limbeck.recipes.recipe import Apply, Recipe, StageSettings, Train, recipe

STATES = TinyBERT(attention=0.0, layers=KEPT)

SMALL = recipe(
    Recipe(
        "small",
        "a student small by design: hidden states first, then the teacher's answers, on joined texts too",
        JIAO_2020,
        lambda task: (
            Apply(Vocabulary()),
            Train(1.0 * STATES, "hidden", StageSettings(epochs=1.0)),
            Train(soft(task, temperature=1.0) + 1.0 * STATES),
        ),
        tasks=(*TEXT_KINDS, *WINDOW_KINDS),
        defaults={
            "student": {"preset": "small", "dropout": 0.0},
            "augment": {"kind": "joins"},
            "train": {"epochs": 2.0, "batch_size": 64, "learning_rate": 5e-4},
        },
    )
)
