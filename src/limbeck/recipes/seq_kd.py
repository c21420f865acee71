"""Sequence-level distillation: the student learns to write what the teacher writes, not what people wrote.

The teacher translates the training set once, by beam search (5). What it writes is kept under its source's name; what
is empty, a mere copy, much too long or short, or repeats itself is left out and counted.

    seq-kd                      the teacher's best translation is the target
    seq-inter                   the plain student, then tuned on the one of the n best closest to the given target, by
                                smoothed sentence BLEU as sacrebleu has it; equals go to the one the teacher prefers
    seq-kd+seq-inter            the same, tuning a student of seq-kd
    seq-kd+word-kd              the teacher's translations as targets, and its distribution at each of their words
    seq-kd+seq-inter+word-kd    all three, in both stages

The best checkpoint is chosen by BLEU on dev, against what people wrote: perplexity on that text rises while BLEU does
too, since the student spreads less of its mass (paper: 8.2 to 22.7, at +1.4 BLEU). Greedy decoding comes close to a
beam, and that is where most of the speed lies.

Sources: beam 5 of the paper; it takes the closest of 35, `--translate.beam 35 --translate.nbest 35`. Tuning: 3 epochs
at a tenth of the rate (ours; the paper says a small rate and about half the data). The paper's own code scores
hypotheses with their start and end signs against bare references; here both are bare.

Cost: one pass of beam search over the training set; training is as cheap as without a teacher.
"""

from limbeck.core.objective import Objective
from limbeck.core.task import OF_SEQUENCES, Task
from limbeck.objectives import Language
from limbeck.objectives.papers import KIM_RUSH_2016
from limbeck.recipes.recipe import Recipe, Stage, recipe, to_table
from limbeck.recipes.word_kd import words_and_teacher

_OF_TEACHER = {"translate": {"targets": "beam"}}


def _words(task: Task) -> Objective:
    return 1.0 * Language()


def _tuned(objective: Objective) -> dict[str, Stage]:
    return {
        "interpolate": Stage(epochs=3.0, rate=0.1, after=True, targets="closest", objective=to_table(objective)),
    }


SEQ_KD = recipe(
    Recipe(
        "seq-kd",
        "the teacher's translations as targets",
        KIM_RUSH_2016,
        _words,
        serves=OF_SEQUENCES,
        defaults=_OF_TEACHER,
    )
)
SEQ_INTER = recipe(
    Recipe(
        "seq-inter",
        "the plain student, tuned on the teacher's translations closest to the given ones",
        KIM_RUSH_2016,
        _words,
        stages=lambda task: _tuned(_words(task)),
        serves=OF_SEQUENCES,
    )
)
SEQ_KD_SEQ_INTER = recipe(
    Recipe(
        "seq-kd+seq-inter",
        "the teacher's translations as targets, then those closest to the given ones",
        KIM_RUSH_2016,
        _words,
        stages=lambda task: _tuned(_words(task)),
        serves=OF_SEQUENCES,
        defaults=_OF_TEACHER,
    )
)
SEQ_KD_WORD_KD = recipe(
    Recipe(
        "seq-kd+word-kd",
        "the teacher's translations as targets, and its distribution at each of their words",
        KIM_RUSH_2016,
        words_and_teacher,
        serves=OF_SEQUENCES,
        defaults=_OF_TEACHER,
    )
)
ALL_THREE = recipe(
    Recipe(
        "seq-kd+seq-inter+word-kd",
        "all three: translations, distributions, then the translations closest to the given ones",
        KIM_RUSH_2016,
        words_and_teacher,
        stages=lambda task: _tuned(words_and_teacher(task)),
        serves=OF_SEQUENCES,
        defaults=_OF_TEACHER,
    )
)
