"""Patient knowledge distillation: labels, the teacher's softened distribution, and its view of the text layer by layer.

    L = (1 − α) · labels + α · T²·KL + β · patience        α = 0.5, T = 10, β = 100

pkd-skip compares every other layer of the teacher (12→6: 2, 4, 6, 8, 10; 12→3: 4, 8), pkd-last the ones below its last
(12→6: 7 to 11). Skip is a little better in the paper: 6 layers, SST-2 92.0 against 91.9, MNLI-m 81.5 against 80.9,
QNLI 89.0 against 88.2.

Student: the first k layers of the teacher. The paper takes them from BERT before fine-tuning, with a new classifier;
to do the same, cut a student from that and give it with --student-from. In `limbeck compare` all columns start from the
same layers, this one too, unless --starts recipe leaves it its own.

Defaults: 4 epochs. α, T and β are those of SST-2 at 6 layers in the official repository, which searched α in
{0.2, 0.5, 0.7} and T in {5, 10, 20} first, without patience, and then β in {10, 100, 500, 1000}. Its learning rates are
5e-5, 2e-5 and 1e-5.

Numbers, regression: 'logits' stands where the softened distribution does; the paper has no such task.

Where official code and paper differ, and what stands here:

- The code divides the KL by the number of classes too; here it is a mean over texts alone, so α is as many times
  stronger. For the code's balance divide objective.hinton.weight by the number of classes.
- The paper prints patience as a sum, the code computes a mean over layers and width. β = 100 belongs to the mean, which
  stands here; `limbeck methods pkd` has the conversion.
- The paper normalises the states. The repository's best runs on MNLI, QNLI, QQP and RACE do not: set
  objective.pkd.normalise to false to follow them.
- The paper's students of 3 layers are Skip; the repository's script for them names layers 10 and 11, which is Last.
- The code never shuffles, since its cached answers are found by position. Here they are found by the example.

What to expect: 0.5 to 1.3 points over plain distillation at 6 layers on most of GLUE. On MRPC it is 1.2 points of F1
below it (85.0 against 86.2). It costs one vector per text and layer of the cache, and hardly any time.
"""

from limbeck.core.task import TaskInfo
from limbeck.objectives.labels import Labels
from limbeck.objectives.pkd import PKD, SUN_2019
from limbeck.recipes.defaults import soft
from limbeck.recipes.recipe import Recipe, Step, Train, recipe

ALPHA, BETA = 0.5, 100.0


def _paper(layers: str, summary: str) -> Recipe:
    def steps(task: TaskInfo) -> tuple[Step, ...]:
        answers = (1 - ALPHA) * Labels() + ALPHA * soft(task, temperature=10.0)
        return (Train(answers + BETA * PKD(layers=layers)),)

    defaults = {"student": {"keep": "first"}, "train": {"epochs": 4.0}}
    return recipe(Recipe(f"pkd-{layers}", summary, SUN_2019, steps, defaults=defaults))


PKD_SKIP = _paper("skip", "labels, softened distribution, and the text as every other layer of the teacher sees it")
PKD_LAST = _paper("last", "labels, softened distribution, and the text as the upper layers of the teacher see it")
