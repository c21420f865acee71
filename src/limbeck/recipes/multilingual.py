"""One student of several translators: each direction's rows are taught by its own teacher, until it is passed.

    L = (1 − λ) · smoothed −log q(word)  +  λ · KL(top of the row's teacher ‖ student)        λ = 0.5, smoothing 0.1

Directions stand in a run file, and `limbeck distill run.toml --recipe multilingual --out runs/both` reads it:

    [data]
    task = "translate"
    [directions.en-de]
    teacher = "runs/en-de/model"
    train = "train.en"
    target = "train.de"
    [directions.de-en]
    teacher = "runs/de-en/model"
    train = "train.de"
    target = "train.en"

Before every source stands the tag of the language to write, <2de>. Teachers are trained with the same tags and one
vocabulary: `limbeck train --task translate --tag de --tags de,en …`, the others with `--tag en --vocabulary-from
runs/en-de/model`. The student is the first teacher shrunk, or --student-from. Rows are mixed as they are;
`repeat` in a direction's table shows its rows more often. A training row that stands, turned round, in another
direction's dev or test is dropped and counted. One direction alone: `limbeck eval … --parallel.prefix "<2de> "`.

The switch: at every evaluation on dev, greedy BLEU of student and teacher are compared, direction by direction. While
the student is 1 BLEU ahead (--switch.margin), its teacher there is sure of the given word, and both terms are
−log q(word), half of it smoothed. `--switch.strategy adaptive` halves the teacher's weight for every BLEU from 2 below
its own, and `fixed` leaves it. Without directions the one teacher of --teacher is switched alike.

Sources: the paper, λ 0.5, 1 BLEU, its 8 most probable words (here 50; `--top 8`). Its public code has λ 0.9
and softmaxes the 4 largest logits at T 0.6, times T²: `--objective.language.weight 0.1 --objective.truncated.weight 0.9
--objective.truncated.form renorm --objective.truncated.temperature 0.6 --objective.truncated.k 4`. T² below 1 shrinks
the term, to 0.36. The adaptive weight is then the code's 0.9 · 0.5^(s − t + 2); of a teacher that is off, the term is
T² times −log q(word) at that T.

Cost: every teacher is asked once about the given targets; dev is translated by each once, by the student at every
evaluation.
"""

from limbeck.core.task import SEQ2SEQ_KINDS
from limbeck.objectives.language import LanguageModeling
from limbeck.objectives.truncated import TAN_2019, Truncated
from limbeck.recipes.recipe import Recipe, Train, recipe

MULTILINGUAL = recipe(
    Recipe(
        "multilingual",
        "one student of several translators, each switched off where it is passed",
        TAN_2019,
        lambda task: (Train(0.5 * LanguageModeling(smoothing=0.1) + 0.5 * Truncated()),),
        tasks=SEQ2SEQ_KINDS,
        defaults={"switch": {"strategy": "threshold"}},
    )
)
