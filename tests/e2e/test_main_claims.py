"""What a person must be able to rely on: who learns from what, what is chosen by what, and what a seed decides."""

import json
from pathlib import Path
from typing import NamedTuple

import pytest
import torch
from safetensors.torch import load_file

import limbeck
from limbeck import Model, Shrink
from limbeck.core.record import Record
from running import limbeck as command
from tiny import BAD, FILLER, GOOD, make_classifier, make_rows, make_tokenizer, write_csv
from tiny_language import make_masked, make_text
from tiny_places import make_sentences, make_tagger
from tongues import write_pairs
from untaught import BRIEF, make_teacher, of_files, program

FAST = {"measure": {"speed": False, "bootstrap": 200}}
QUICK = {**FAST, "train": {"epochs": 1, "learning_rate": 1e-3, "batch_size": 16}}
WORDS = {"blocks": {"length": 16}, "reading": {"task": "mask-fill"}}


class Ended(NamedTuple):
    record: Record
    folder: Path


def weights(model):
    return {name: tensor.clone() for name, tensor in model.state_dict().items()}


def same(a, b):
    return a.keys() == b.keys() and all(torch.equal(a[name], b[name]) for name in a)


def of_arm(result, name):
    """The weights that an arm of one seed ended with."""
    (file,) = (
        path
        for path in result.folder.rglob("model.safetensors")
        if any(part.startswith(name) for part in path.relative_to(result.folder).parts)
    )
    return load_file(file)


def course(result, name):
    """Losses and dev figures of an arm, step by step."""
    return [(point.step, point.loss, point.dev) for point in result.record.arm(name).runs[0].curve]


def texts(seed=0):
    splits = {"train": (48, 0), "dev": (16, 1), "test": (24, seed)}
    return {name: make_rows(count, seed=which) for name, (count, which) in splits.items()}


# Without a teacher means without a teacher.


@pytest.mark.parametrize("live", [False, True])
def test_the_baseline_does_not_learn_from_the_teacher(tmp_path, live):
    """The same student beside two teachers of opposite opinions."""
    found = []
    for seed in (5, 6):
        teacher = make_classifier(seed=seed)
        with torch.no_grad():
            teacher.classifier.weight.mul_(40)
        start = Model(make_classifier(layers=1, hidden=16, seed=9), make_tokenizer())
        out = tmp_path / str(seed)
        given = {"tokenizer": make_tokenizer(), "teacher_cache": {"live": live}, "out": out, **QUICK}
        found.append(limbeck.distill(teacher, texts(seed=2), student=start, **given))
    plain, distilled = ([of_arm(result, name) for result in found] for name in ("plain", "distilled"))
    assert same(*plain)
    assert course(found[0], "plain") == course(found[1], "plain")
    assert not same(*distilled)
    assert not same(plain[0], distilled[0])


def test_the_baseline_of_words_does_not_learn_from_the_teacher(tmp_path):
    found = []
    for seed in (5, 6):
        teacher = make_masked(seed=seed)
        with torch.no_grad():
            teacher.get_output_embeddings().weight.mul_(20)
        start = Model(make_masked(layers=1, seed=9), make_tokenizer())
        given = {"tokenizer": make_tokenizer(), "out": tmp_path / str(seed), **WORDS, **QUICK}
        found.append(limbeck.distill(teacher, make_text(24), student=start, **given))
    plain, distilled = ([of_arm(result, name) for result in found] for name in ("plain", "distilled"))
    assert same(*plain)
    assert course(found[0], "plain") == course(found[1], "plain")
    assert not same(*distilled)


def test_the_baseline_of_translators_does_not_learn_from_the_teacher(tmp_path):
    """Beside a program that translates and one that also turns the sentence round."""
    source, found = write_pairs(tmp_path / "pairs", 120), []
    texts = [line for file in (source, source.with_suffix(".de")) for line in file.read_text("utf-8").splitlines()]
    torch.manual_seed(9)
    start = make_teacher(tmp_path / "start", texts)
    for name, order in (("forth", 1), ("back", -1)):
        (tmp_path / name).mkdir()
        body = f"print(*(' '.join(translate(source).split()[::{order}]) for source in sources), sep='\\n')"
        teacher, out = program(tmp_path / name, body), tmp_path / name / "run"
        brief = [word for word in BRIEF if word != "--no-baseline"]
        said = command(
            "distill", *of_files(source), "--translate.command", teacher, "--student-from", start, "--out", out, *brief
        )
        assert said.code == 0, said.err
        found.append(Ended(Record.load(out), out))
    plain, distilled = ([of_arm(result, name) for result in found] for name in ("plain", "distilled"))
    assert same(*plain)
    assert course(found[0], "plain") == course(found[1], "plain")
    assert not same(*distilled)


# The test split is for the last measurement only.


def told(test):
    """Runs that differ in the test split alone, for every way of looking at text."""
    if test == "classify":
        ours, other = texts(seed=2), texts(seed=2)
        turned = {"positive": "negative", "negative": "positive"}
        other["test"] = [{**row, "label": turned[row["label"]]} for row in other["test"]]
        return make_classifier(seed=5), {"seeds": 2}, ours, other
    if test == "tag":
        ours = {name: make_sentences(count, seed) for name, count, seed in (("train", 32, 0), ("dev", 16, 1))}
        both = ({**ours, "test": make_sentences(16, 2)}, {**ours, "test": make_sentences(16, 3)})
        return make_tagger(seed=5), {"reading": {"task": "tag"}}, *both
    ours = {"train": make_text(16), "dev": make_text(6, seed=1), "test": make_text(6, seed=2)}
    other = {**ours, "test": [" ".join(reversed(text.split())) for text in make_text(6, seed=3)]}
    return make_masked(seed=5), WORDS, ours, other


@pytest.mark.parametrize("kind", ["classify", "tag", "mask-fill"])
def test_nothing_is_chosen_by_the_test_split(kind, tmp_path):
    teacher, how, *both = told(kind)
    schedule = {"epochs": 2, "learning_rate": 5e-3, "batch_size": 8, "evals_per_epoch": 2}
    given = {"tokenizer": make_tokenizer(), "baseline": False, **how, **FAST, "train": schedule}
    found = []
    for number, data in enumerate(both):
        found.append(limbeck.distill(teacher, data, Shrink(layers=1), out=tmp_path / str(number), **given))
    assert same(*(weights(result.student) for result in found))
    arms = [result.record.arm("distilled") for result in found]
    assert [run.best_step for run in arms[0].runs] == [run.best_step for run in arms[1].runs]
    assert course(found[0], "distilled") == course(found[1], "distilled")
    assert [run.quality for run in arms[0].runs] != [run.quality for run in arms[1].runs]
    if kind == "classify":  # the figure of a run is of its test rows: with every label turned, what was right is wrong
        for ours, turned in zip(arms[0].runs, arms[1].runs, strict=True):
            assert ours.quality["accuracy"] == pytest.approx(1 - turned.quality["accuracy"])


def test_the_figure_that_is_told_is_of_the_test_rows(tmp_path):
    data = texts(seed=2)
    given = {"tokenizer": make_tokenizer(), "out": tmp_path / "run", "baseline": False, **QUICK}
    result = limbeck.distill(make_classifier(seed=5), data, Shrink(layers=1), **given)
    names = result.student.config.id2label
    right = 0
    with torch.no_grad():
        for row in data["test"]:
            said = result.student.eval()(**result.tokenizer(row["text"], return_tensors="pt")).logits
            right += names[int(said.argmax())] == row["label"]
    assert result.record.arm("distilled").runs[0].quality["accuracy"] == pytest.approx(right / len(data["test"]))


@pytest.mark.parametrize("kind", ["bilstm", "tinybert"])
def test_texts_are_made_up_from_training_rows_alone(kind, teacher_folder, tmp_path):
    """A word that only dev or only test holds is in nothing that is made."""
    only = {"train": "walrus", "dev": "zebra", "test": "quokka"}
    files = {}
    for name, rows in texts(seed=2).items():
        marked = [{**row, "text": f"{only[name]} {row['text']} {only[name]}"} for row in rows]
        files[name] = write_csv(tmp_path / f"{name}.csv", marked)
    said = command(
        "distill", "--recipe", "hinton", "--teacher", teacher_folder, "--data", files["train"],
        "--data.dev", files["dev"], "--data.test", files["test"], "--out", tmp_path / "run",
        "--augment.kind", kind, "--augment.copies", 3, "--no-baseline", "--epochs", 1,
        "--measure.no-speed", "--measure.bootstrap", 200,
    )  # fmt: skip
    assert said.code == 0, said.err
    (file,) = (tmp_path / "run").rglob("augmented-*.jsonl")
    made = [json.loads(line)["text"] for line in file.read_text(encoding="utf-8").splitlines()]
    assert len(made) > 48
    words = {word for text in made for word in text.split()}
    assert "walrus" in words
    assert not words & {"zebra", "quokka"}
    assert words & {*GOOD, *BAD, *FILLER}


# A seed decides, and nothing else.


NEW = {
    "layers": (Shrink(family="bilstm", hidden=8), {"recipe": "hinton"}),
    "bridges": (  # maps from a narrower student to the teacher's width
        Shrink(layers=1, hidden=16, heads=4),
        {"recipe": "tinybert", "augment": {"kind": "none"}, "stages": {"intermediate": {"epochs": 1}}},
    ),
}


@pytest.mark.parametrize("new", NEW)
def test_new_layers_and_bridges_come_from_the_seed_alone(tmp_path, new):
    """Neither what was drawn before nor the arm trained before shows; another seed does."""

    def student(name, seed, drawn, **how):
        teacher, data = make_classifier(layers=2, seed=5), texts(seed=2)
        torch.manual_seed(drawn)
        torch.rand(drawn)
        shape, knobs = NEW[new]
        given = {"tokenizer": make_tokenizer(), "out": tmp_path / name, "seed": seed, **QUICK, **knobs, **how}
        return weights(limbeck.distill(teacher, data, shape, **given).student)

    first = student("a", 3, drawn=1, baseline=False)
    assert same(first, student("b", 3, drawn=20, baseline=True))
    if new == "layers":
        assert not same(first, student("c", 4, drawn=1, baseline=False))


def test_of_several_seeds_the_one_of_lowest_dev_perplexity_is_kept(tmp_path):
    teacher = make_masked(seed=5)
    with torch.no_grad():
        teacher.get_output_embeddings().weight.mul_(20)

    def run(name, **seeds):
        given = {"tokenizer": make_tokenizer(), "out": tmp_path / name, "baseline": False, **WORDS, **QUICK, **seeds}
        return limbeck.distill(teacher, make_text(24), Shrink(layers=1), **given)

    def dev(result):
        return min(point.dev["perplexity"] for point in result.record.arm("distilled").runs[0].curve if point.dev)

    alone = [run(str(seed), seed=seed) for seed in (0, 1)]
    best, worst = sorted(alone, key=dev)
    assert dev(best) < dev(worst)
    kept = weights(run("both", seed=0, seeds=2).student)
    assert same(kept, weights(best.student))
    assert not same(kept, weights(worst.student))
