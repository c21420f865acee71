"""Distilled BiLSTM: a one-layer LSTM learns the logits of a large encoder, on many times as many texts.

Tang et al. 2019, "Distilling Task-Specific Knowledge from BERT into Simple Neural Networks".

One stage: the squared difference of the logits, no labels (the paper's best, α = 0), on the training texts and new ones
made from them, which the teacher answers.

    student      two embedding channels of 300 (one frozen), LSTM of 150 per direction, hidden layer of 200; of pairs
                 [h₁; h₂; |h₁ − h₂|; h₁ ⊙ h₂]                        the paper's smaller sizes
    new texts    20 per text, 10 per pair: 10 % of the words masked, 10 % replaced by part of speech, a quarter of the
                 texts cut to 1 to 5 words                           the paper
    training     AdamW, rate 5e-4, batches of 50                     the released configurations; the paper: Adadelta
                 5 passes over old and new texts                     ours; the released configurations: 20 to 30

Where the published code departs from the paper: it adds labels and logits with weight 1 each, compares pairs by KL at
T = 3 without T², leaves n-grams out unless asked, and never takes the last window of a text. Not so here.

Where this recipe departs from the paper: the student reads the teacher's word pieces through the teacher's embeddings
(reduced to 300 by their principal components) instead of words through word2vec, so that both models see one
tokenizer; dropout is 0.1; part-of-speech tags come from HanTa and are English (`--augment.pos 0` for other languages).

Costs: 0.96 million parameters besides the embeddings, and two tables of vocabulary × 300, 18 million for BERT's. The
teacher answers up to 21 times as many texts, once. Needs `pip install 'limbeck[augment]'`.
"""

from limbeck.core.card import Paper
from limbeck.objectives.labels import Labels
from limbeck.objectives.logits import LogitRegression
from limbeck.recipes.recipe import Recipe, Train, recipe

TANG_2019 = Paper(
    "Distilling Task-Specific Knowledge from BERT into Simple Neural Networks",
    "Raphael Tang and Yao Lu and Linqing Liu and Lili Mou and Olga Vechtomova and Jimmy Lin",
    2019,
    "arXiv:1903.12136",
    "tang2019distilling",
    "https://arxiv.org/abs/1903.12136",
)

BILSTM = recipe(
    Recipe(
        "bilstm",
        "a one-layer LSTM learns the teacher's raw scores, on augmented texts",
        TANG_2019,
        lambda task: (Train(0.0 * Labels() + 1.0 * LogitRegression()),),
        defaults={
            "student": {"family": "bilstm"},
            "augment": {"kind": "bilstm"},
            "train": {"epochs": 5.0, "batch_size": 50, "learning_rate": 5e-4},
        },
    )
)
