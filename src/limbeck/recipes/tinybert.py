"""TinyBERT: first the layers, then the answers, on augmented text.

Stages of `tinybert`, for a task with labels:

1. intermediate: embeddings, hidden states and attention scores, weight 1 each, 10 epochs at a constant rate.
2. main: the teacher's distribution alone, T = 1, 3 epochs at a falling rate. Labels are not used.

`tinybert-general` is the stage before both: the same three comparisons on running text without labels, by
`--task mask-fill`. Its student is what `tinybert` starts from, by --student-from. No word is hidden, as in the corpus
that came with the code.

Defaults and their sources: the paper's intermediate stage has 20 epochs, 10 for large sets and 50 for CoLA; its rate is
5e-5, constant, and 1e-5 to 3e-5 in the prediction stage, with batches of 32. The table of epochs in the code (50, 20,
10, 5) never takes effect, since it is stored under misspelt names. Here the rate is the run's own in both stages, which
is higher for narrower students. The general stage of the paper has 3 epochs with batches of 256.

The paper's student has 4 layers of width 312 with 12 heads and 1200 feed-forward neurons (14,350,248 parameters;
14,590,632 with the bridge while it learns): --student.layers 4 --student.hidden 312 --student.heads 12
--student.feed-forward 1200. Keep the teacher's number of heads, or set objective.tinybert.attention to 0. Here the
student starts with weights of the teacher; the paper's starts at random, in the general stage.

Where official code departs from the paper, and what stands here:

- The teacher is left in training mode, with dropout on. Here it never is.
- The prediction loss is a cross-entropy divided by the number of classes too. Here it is the KL, a mean over texts: the
  same gradient but for that factor.
- STS-B, a number: the code fits the gold labels and ignores the teacher. Here 'logits' fits the teacher's number.
- Padding and bridges: `limbeck methods tinybert` says how they differ.

What it costs: two stages, and augmented text multiplies every epoch. What matters, in points of the paper's ablation:
augmentation and task distillation about 7 each, the general stage 3, attention 5, hidden states 3, embeddings 1.5.
"""

from limbeck.core.task import TEXT_KINDS, WINDOW_KINDS
from limbeck.objectives.tinybert import JIAO_2020, TinyBERT
from limbeck.recipes.defaults import soft
from limbeck.recipes.recipe import Recipe, StageSettings, Train, recipe

TINYBERT = recipe(
    Recipe(
        "tinybert",
        "embeddings, hidden states and attention scores first, then the teacher's answers; on augmented text",
        JIAO_2020,
        lambda task: (
            Train(1.0 * TinyBERT(), "intermediate", StageSettings(epochs=10.0, decay="constant")),
            Train(soft(task, temperature=1.0)),
        ),
        tasks=(*TEXT_KINDS, *WINDOW_KINDS),
        defaults={"train": {"epochs": 3.0}, "augment": {"kind": "tinybert"}},
    )
)
TINYBERT_GENERAL = recipe(
    Recipe(
        "tinybert-general",
        "embeddings, hidden states and attention scores on running text; a start for 'tinybert'",
        JIAO_2020,
        lambda task: (Train(1.0 * TinyBERT()),),
        tasks=("mask-fill",),
        defaults={"train": {"epochs": 3.0}, "mask": {"hidden": 0.0, "random": 0.0}},
    )
)
