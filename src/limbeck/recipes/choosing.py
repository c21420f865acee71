"""Which recipe to take, by what a person has: `limbeck methods` lists it, docs/choosing.md has the figures beside."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Situation:
    title: str  # what a person has, or wants
    flags: str  # beside --teacher, --data and --out
    why: str


SITUATIONS = (
    Situation(
        "few labels, many texts without",
        "--unlabelled texts.txt --student.layers 3",
        "Only the teacher can say something about a text without a label, so here its answers have most to add. The "
        "recipe is `hinton`, or `logits` for a number; both learn from such texts as they are. Let it learn long: with "
        "the teacher's answers on disk an epoch costs no more than one without a teacher.",
    ),
    Situation(
        "no labels at all",
        "--unlabelled texts.txt",
        "Leave `--data` out. Dev and test are cut from the texts, the student is judged by how often it agrees with "
        "the teacher, and the report says that nobody knows how often both are wrong. A file of labelled rows as "
        "`--data.test` tells.",
    ),
    Situation(
        "a column with the answers of a language model",
        "--teacher-column answer",
        "A name, a number or probabilities in a column stand for the teacher; no `--teacher` is needed. Hidden states "
        "are not to be had, so recipes that look at them are refused.",
    ),
    Situation(
        "labels for all texts, one small fast file",
        "--preset tiny --export onnx-int8",
        "A narrow student starts from parts of the teacher that no longer fit together. The recipe `small` lets it "
        "learn hidden states first, then answers, on your rows and on joins of two. `--preset small` takes less away. "
        "What both keep is measured in [small, fast files](small-files.md#measured).",
    ),
    Situation(
        "labels for all texts, half the layers",
        "--student.layers 3",
        "A student cut from its teacher knows already what the labels say; soft targets, `pkd-skip` and `minilmv2` are "
        "worth a comparison on your data, not an assumption: `limbeck compare --recipes finetune,hinton,pkd-skip`.",
    ),
    Situation(
        "microseconds, without torch",
        "--recipe static --export numpy-int8",
        "Vectors of word pieces, filters over five neighbours, one hidden layer. It is also the floor: where it is as "
        "good as a transformer, none is needed.",
    ),
    Situation(
        "translation or summaries",
        "--recipe seq-kd --preset deep-shallow",
        "The teacher's own translations are easier to learn than people's. Sources without targets teach too "
        "(`--unlabelled`).",
    ),
    Situation(
        "a language model",
        "--recipe truncated",
        "The top of the teacher's distribution is kept on disk instead of all of it; how much to keep is measured in "
        "[truncated softmax](truncated.md).",
    ),
)
