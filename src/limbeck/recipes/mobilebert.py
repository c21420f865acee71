"""MobileBERT: a deep and thin student with bottlenecks, taught layer by layer, then by answers.

Stages:

1. transfer: the teacher's states and where its heads look, one layer after another from the first; finished layers go
   on at a tenth of the rate, those above wait. The stage's epochs are divided evenly among the layers.
2. main: labels and the teacher's distribution, half and half, T = 1.

The student is as deep as the teacher unless --student.layers says otherwise, has its width between the layers and a
quarter of it inside (--student.bottleneck), and four feed-forward blocks in a layer (--student.feed-forwards).
Attention is compared head by head, so it keeps the teacher's heads. Embeddings, pooler and head come from the teacher.

Defaults and their sources: the shape is the published one where the teacher has 512 coordinates and 4 heads
(24,581,888 parameters without a pooler; the paper says 25.3M, which its own config does not give). Half and half is the
paper's α = 0.5. The paper transfers on running text, 10,000 steps of 2,048 texts per layer, and trains 500,000 more;
here the same stages run on the task's own text, 10 epochs for the transfer, a choice of this project, or on running
text with --task mask-fill.

The paper's teacher is made for the purpose: IB-BERT, 1024 wide inside its layers and 512 between them. Any teacher
serves here, since its width between layers is what the student takes; `limbeck.students.mobilebert.ib_teacher` gives
the config of an inverted bottleneck to train one. With a BERT of 768 the student is larger than the published one.

Where official code departs from the paper, and what stands here:

- Its transfer weighs features 100, means 5000, variances 5; its means and variances are compared with those of all the
  teacher's layers at once. Here the weights are 1, and each layer has its own targets.
- Its flag for the temperature multiplies the teacher's state instead of dividing it. Here T divides, and is 1.
- Its student learns without dropout. Here dropout is the teacher's own.

What it costs: two stages. New layers start from nothing, so a small task's text is little to learn them from; a student
cut from its teacher (`hinton`, `tinybert`) needs less. What it buys: time on a phone, where the paper has 62 ms against
342 of BERT-base; without NoNorm and ReLU, 192.
"""

from limbeck.core.objective import Objective
from limbeck.core.task import TEXT_KINDS, WINDOW_KINDS, TaskInfo
from limbeck.objectives.language import LanguageModeling
from limbeck.objectives.mobilebert import SUN_2020, MobileBERTTransfer
from limbeck.objectives.word_kd import WordKD
from limbeck.recipes.defaults import half_and_half
from limbeck.recipes.recipe import Recipe, StageSettings, Train, recipe


def _answers(task: TaskInfo) -> Objective:
    if task.over_vocabulary:
        return 0.5 * LanguageModeling() + 0.5 * WordKD(temperature=1.0)
    return half_and_half(task, temperature=1.0)


MOBILEBERT = recipe(
    Recipe(
        "mobilebert",
        "a thin, deep student with bottlenecks: states and attention layer by layer, then labels and soft answers",
        SUN_2020,
        lambda task: (
            Train(1.0 * MobileBERTTransfer(), "transfer", StageSettings(epochs=10.0, progressive=True)),
            Train(_answers(task)),
        ),
        tasks=(*TEXT_KINDS, *WINDOW_KINDS, "mask-fill"),
        defaults={"student": {"family": "mobilebert"}},
    )
)
