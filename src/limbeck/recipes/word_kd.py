"""Word-level distillation: half the text itself, half the teacher's distribution over the vocabulary, word by word.

Both models read the same prefix: the running text, or in translate the given target (teacher forcing).

Of running text the teacher is asked at every step with its whole softmax. Of translations its answers are kept, the 50
most probable words of each and the mass of the rest, which is within a thousandth of a nat of the whole:
`limbeck distill --task translate --recipe word-kd --top 50`. Exact and live: `--objective.truncated.weight 0
--objective.word-kd.weight 0.5`.

Sources: the paper, weight 0.5 of each half and no temperature. A teacher trained with label smoothing has a flatter
distribution to pass on.
"""

from limbeck.core.objective import Objective
from limbeck.core.task import LANGUAGE_KINDS, SEQ2SEQ_KINDS, TaskInfo
from limbeck.objectives.language import LanguageModeling
from limbeck.objectives.truncated import Truncated
from limbeck.objectives.word_kd import KIM_RUSH_2016, WordKD
from limbeck.recipes.recipe import Recipe, Train, recipe


def words_and_teacher(task: TaskInfo) -> Objective:
    return 0.5 * LanguageModeling() + 0.5 * (Truncated() if task.is_seq2seq else WordKD())


WORD_KD = recipe(
    Recipe(
        "word-kd",
        "words and the teacher's distribution, half and half; of running text live, of translations kept",
        KIM_RUSH_2016,
        lambda task: (Train(words_and_teacher(task)),),
        tasks=(*LANGUAGE_KINDS, *SEQ2SEQ_KINDS),
    )
)
