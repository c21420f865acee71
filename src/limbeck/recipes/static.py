"""Static student: vectors of word pieces and filters over neighbouring ones learn the teacher's raw scores.

Ye et al. 2022, "Sparse Distillation: Speeding Up Text Classification by Using Bigger Student Models": a student that
looks n-grams up and averages them keeps most of a transformer's accuracy on whole texts. Theirs has a vector for each
of a million n-grams and up to billions of parameters; this one has the vectors of Model2Vec, finds n-grams by filters
over five neighbouring pieces, of which the largest value counts (Kim 2014), and takes 1 to 5 MB.

One stage: the squared difference of the logits, no labels, as in `bilstm`.

    student      128 per word piece, started from what the teacher makes of each piece alone, by principal components
                 and SIF weights                                                            Model2Vec; width: here
                 128 filters over 5 pieces: ReLU, the largest of a text                     Kim: 100 each over 3, 4, 5
                 beside them the mean vector, a hidden layer of 128, ReLU; of pairs [a; b; |a − b|; a ⊙ b]
    training     AdamW, rate 3e-3, batches of 64, 10 passes, early stopping after 8    here
                 three of ten pieces are not seen in a step    here

What it buys: a text takes a few look-ups and small products besides tokenising, in NumPy (`--export numpy-int8`).
What it costs: the order of words shows no farther than five pieces. It learns from many texts: rows without a label
teach too, and so does `--augment.kind`.

Where this recipe departs from the paper: filters instead of a table of n-grams, squared error of logits instead of KL,
no large unlabelled corpus unless you bring one, and word pieces in the place of words.

The start takes one forward pass of the teacher for each piece of its vocabulary; `--student.vectors embeddings` does
without. Sizes: `--student.embedding`, `filters`, `window`, `feed_forward`.
"""

from limbeck.core.card import Paper
from limbeck.objectives.labels import Labels
from limbeck.objectives.logits import LogitRegression
from limbeck.recipes.recipe import Recipe, Train, recipe

YE_2022 = Paper(
    "Sparse Distillation: Speeding Up Text Classification by Using Bigger Student Models",
    "Qinyuan Ye and Madian Khabsa and Mike Lewis and Sinong Wang and Xiang Ren and Aaron Jaech",
    2022,
    "NAACL 2022, arXiv:2110.08536",
    "ye2022sparse",
    "https://arxiv.org/abs/2110.08536",
)

STATIC = recipe(
    Recipe(
        "static",
        "vectors of pieces and filters over a few learn the teacher's raw scores; answers without torch",
        YE_2022,
        lambda task: (Train(0.0 * Labels() + 1.0 * LogitRegression()),),
        defaults={
            "student": {"family": "static"},
            "train": {"epochs": 10.0, "batch_size": 64, "learning_rate": 3e-3, "patience": 8},
        },
    )
)
