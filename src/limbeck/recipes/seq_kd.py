"""Sequence-level distillation: the student learns to write what the teacher writes, not what people wrote.

The teacher translates the training set once, by beam search (5). What it writes is kept under its source's name; what
is empty, a mere copy, cut off, much too long or short, or repeats itself is left out and counted.

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
from limbeck.core.task import SEQ2SEQ_KINDS, TaskInfo
from limbeck.objectives.language import LanguageModeling
from limbeck.objectives.word_kd import KIM_RUSH_2016
from limbeck.recipes.recipe import Recipe, StageSettings, Step, Train, recipe
from limbeck.recipes.word_kd import words_and_teacher

TUNING = StageSettings(epochs=3.0, rate=0.1, targets="closest")


def _paper(name: str, summary: str, *, words: bool = False, tuned: bool = False, beam: bool = True) -> Recipe:
    """`words`: the teacher's distribution at each token too; `tuned`: on the closest translations afterwards; `beam`:
    the main step's targets are the teacher's translations."""

    def objective(task: TaskInfo) -> Objective:
        return words_and_teacher(task) if words else 1.0 * LanguageModeling()

    def steps(task: TaskInfo) -> tuple[Step, ...]:
        main = Train(objective(task))
        return (main, Train(objective(task), "interpolate", TUNING)) if tuned else (main,)

    defaults = {"translate": {"targets": "beam"}} if beam else {}
    return recipe(Recipe(name, summary, KIM_RUSH_2016, steps, SEQ2SEQ_KINDS, defaults))


SEQ_KD = _paper("seq-kd", "the teacher's translations as targets")
SEQ_INTER = _paper(
    "seq-inter",
    "the plain student, tuned on the teacher's translations closest to the given ones",
    tuned=True,
    beam=False,
)
SEQ_KD_SEQ_INTER = _paper(
    "seq-kd+seq-inter", "the teacher's translations as targets, then those closest to the given ones", tuned=True
)
SEQ_KD_WORD_KD = _paper(
    "seq-kd+word-kd", "the teacher's translations as targets, and its distribution at each of their words", words=True
)
ALL_THREE = _paper(
    "seq-kd+seq-inter+word-kd",
    "all three: translations, distributions, then the translations closest to the given ones",
    words=True,
    tuned=True,
)
