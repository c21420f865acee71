"""A teacher's answers in columns of the data: as logits, and what is refused."""

import json
from math import log

import numpy as np
import pytest

from limbeck.core.errors import DataError, KnobError
from limbeck.data.settings import DataSettings
from limbeck.data.text.answers import class_names
from limbeck.data.text.examples import read_texts
from limbeck.jobs.settings import PredictRun, Run, TrainRun
from tiny import make_rows, write_csv

COUNT = 120


def rows_with(column="gpt", value=lambda row, number: row["label"], count=COUNT, **changed):
    rows = make_rows(count)
    for number, row in enumerate(rows):
        row[column] = value(row, number)
        row |= {name: change(row, number) for name, change in changed.items()}
    return rows


def read(rows, teacher="gpt", **settings):
    return read_texts(DataSettings(teacher_column=teacher, **settings), rows)


def answers_of(corpus):
    """(text) → logits."""
    logits = dict(zip(corpus.answers.uids.tolist(), corpus.answers.logits, strict=True))
    return {
        text: logits[uid]
        for part in corpus.splits.values()
        for uid, text in zip(part.uids.tolist(), part.texts, strict=True)
    }


def test_a_class_is_smoothed_over_all():
    rows = rows_with(count=COUNT)
    corpus = read(rows, teacher_smoothing=0.1)
    assert corpus.task.labels == ("negative", "positive")
    found = answers_of(corpus)
    for row in rows:  # (1 − ε)·[k = y] + ε/K
        wanted = [log(0.95), log(0.05)] if row["label"] == "negative" else [log(0.05), log(0.95)]
        assert found[row["text"]].tolist() == pytest.approx(wanted, abs=1e-12)
    assert corpus.answers.logits.dtype == np.float64
    assert not len(corpus.train.answered)  # all are


@pytest.mark.parametrize("spelled", [str.upper, str.title, "  {} ".format])
def test_names_are_found_whatever_their_case(spelled):
    rows = rows_with(value=lambda row, number: spelled(row["label"]))
    logits = answers_of(read(rows))
    assert all(logits[row["text"]].argmax() == (row["label"] == "positive") for row in rows)


def test_three_classes_have_their_share_of_the_smoothing():
    rows = rows_with(value=lambda row, number: row["label"])
    for row in rows[::3]:
        row["label"] = "neutral"
    found = answers_of(read(rows, teacher_smoothing=0.3))
    assert np.exp(found[rows[1]["text"]]).sum() == pytest.approx(1)
    assert sorted(np.exp(found[rows[1]["text"]])) == pytest.approx([0.1, 0.1, 0.8])


def soft(form, count=COUNT):
    """Rows with a probability of 'positive' of their own; `form` writes them."""
    rows = make_rows(count)
    chance = np.random.default_rng(0).uniform(0, 1, count).round(3)
    for row, p in zip(rows, chance.tolist(), strict=True):
        row |= form(round(1 - p, 3), p)
    return rows, {row["text"]: p for row, p in zip(rows, chance, strict=True)}


FORMS = {
    "columns": (lambda n, p: {"p_positive": str(p), "p_negative": str(n)}, "p_positive,p_negative", {}),
    "endings": (lambda n, p: {"positive_p": p, "negative_p": n}, "positive_p, negative_p", {}),
    "names": (lambda n, p: {"Negative": n, "Positive": p}, "Negative,Positive", {}),
    "order": (lambda n, p: {"a": n, "b": p}, "a,b", {"classes": "negative,positive"}),
    "list": (lambda n, p: {"gpt": [n, p]}, "gpt", {"classes": "negative,positive"}),
    "json list": (lambda n, p: {"gpt": json.dumps([n, p])}, "gpt", {"classes": "negative,positive"}),
    "object": (lambda n, p: {"gpt": {"positive": p, "negative": n}}, "gpt", {}),
    "json object": (lambda n, p: {"gpt": json.dumps({"Positive": p, "negative": n})}, "gpt", {}),
    "array": (lambda n, p: {"gpt": np.array([n, p])}, "gpt", {"classes": "negative,positive"}),
}


@pytest.mark.parametrize("form", FORMS)
def test_probabilities_in_every_form(form):
    write, column, settings = FORMS[form]
    rows, chance = soft(write)
    corpus = read(rows, column, **settings)
    assert corpus.task.labels == ("negative", "positive")
    for text, logits in answers_of(corpus).items():
        p = min(max(chance[text], 1e-6), 1 - 1e-6)
        assert np.exp(logits).tolist() == pytest.approx([1 - p, p], abs=2e-6)


def test_lists_of_numbered_classes_need_no_names():
    rows, chance = soft(lambda n, p: {"gpt": [n, p]})
    for row in rows:
        row["label"] = int(row["label"] == "positive")
    found = answers_of(read(rows))
    assert all(np.exp(found[text][1]) == pytest.approx(p, abs=2e-6) for text, p in chance.items())


def test_a_certain_teacher_has_finite_logits_and_rounding_is_divided_out():
    rows = rows_with(value=lambda row, number: [1.0, 0.0] if number else [0.6006, 0.4003])
    found = answers_of(read(rows, classes="negative,positive"))
    assert found[rows[1]["text"]].tolist() == pytest.approx([log(1 / (1 + 1e-6)), log(1e-6 / (1 + 1e-6))])
    assert np.exp(found[rows[0]["text"]]).tolist() == pytest.approx([0.6006 / 1.0009, 0.4003 / 1.0009])


@pytest.mark.parametrize("ids", [int, str, float, lambda place: f"{place}.0"])
def test_ids_are_those_of_listed_classes(ids):
    rows = rows_with(value=lambda row, number: ids(int(row["label"] == "positive")))
    logits = answers_of(read(rows, classes="negative,positive"))
    assert all(logits[row["text"]].argmax() == (row["label"] == "positive") for row in rows)
    with pytest.raises(DataError, match="names classes that are not among negative, positive"):
        read(rows)  # nothing says which of them is 0


def test_numbers_that_are_names_are_no_places():
    rows = rows_with(value=lambda row, number: 2.0 if number else 0, label=lambda row, number: 1 + number % 2)
    with pytest.raises(DataError, match=r"not among 1, 2: '0' \(1 row"):
        read(rows)
    rows[0]["gpt"] = "1"
    assert answers_of(read(rows))[rows[1]["text"]].argmax() == 1


def test_several_labels():
    names = ("war", "love", "food")
    rows = [{**row, "label": names[n % 3]} for n, row in enumerate(rows_with(value=lambda row, n: "war|love"))]
    rows[0]["label"] = "war|food"
    rows[1]["gpt"] = "food"
    found = answers_of(read(rows, teacher_smoothing=0.1))
    far = log(0.95 / 0.05)  # 1 − ε/2 against ε/2; the labels are in the order of their names
    assert found[rows[0]["text"]].tolist() == pytest.approx([-far, far, far])
    assert found[rows[1]["text"]].tolist() == pytest.approx([far, -far, -far])
    for row in rows:
        row |= {"war": 0.9, "love": "0.9", "food": 0.25}
    found = answers_of(read(rows, "war,love,food"))
    assert found[rows[5]["text"]].tolist() == pytest.approx([log(1 / 3), log(9), log(9)])


def test_numbers():
    rows = rows_with(value=lambda row, number: str(number / 8), label=lambda row, number: number / 10)
    corpus = read(rows)
    assert corpus.task.kind == "regress"
    assert answers_of(corpus)[rows[3]["text"]].tolist() == [0.375]


def test_rows_without_an_answer_are_marked_and_rows_with_nothing_are_dropped():
    rows = rows_with(value=lambda row, number: "" if number % 4 == 0 else row["label"])
    for row in rows[::8]:
        row["label"] = ""
    corpus = read(rows)
    assert corpus.card.dropped == {"neither a label nor a teacher's answer": 15}
    assert sum(map(len, corpus.splits.values())) == 105
    lacking = {row["text"] for row in rows[4::8]}
    for part in corpus.splits.values():
        known = part.answered if len(part.answered) else np.ones(len(part), dtype=bool)
        assert {part.texts[row] for row in np.flatnonzero(~known)} == lacking & {*part.texts}
        assert part.has_label[~known].all()
    some = corpus.train.take([3, 0])
    assert some.answered.tolist() == corpus.train.answered[[3, 0]].tolist()
    note = next(note for note in corpus.card.notes if "the teacher's answers are those in column 'gpt'" in note)
    count = len(corpus.train) - int(corpus.train.answered.sum())
    assert f"{count} training rows without one are learnt from their labels alone" in note
    assert corpus.card.columns["teacher's answer"] == "gpt"


def test_without_labels_the_classes_are_the_teachers():
    rows = [{"text": row["text"], "gpt": row["label"]} for row in make_rows(COUNT)]
    corpus = read(rows)
    assert (corpus.task.kind, corpus.task.labels) == ("classify", ("negative", "positive"))
    assert not corpus.train.has_label.any()
    with_columns = [{"text": row["text"], "p_bad": 0.25, "p_good": 0.75} for row in make_rows(COUNT)]
    assert read(with_columns, "p_bad,p_good").task.labels == ("bad", "good")
    objects = [{"text": row["text"], "gpt": {"good": 0.75, "bad": 0.25}} for row in make_rows(COUNT)]
    objects[3]["gpt"] = {"good": 1.0}
    assert read(objects).task.labels == ("bad", "good")
    lists = [{"text": row["text"], "gpt": [0.75, number / 1000 + 0.2]} for number, row in enumerate(make_rows(50))]
    with pytest.raises(DataError, match="nothing says which number is of which class"):
        read(lists)


def test_a_split_of_its_own_may_lack_the_column(tmp_path):
    train = write_csv(tmp_path / "train.csv", rows_with())
    test = write_csv(tmp_path / "test.csv", make_rows(40, seed=1))
    corpus = read_texts(DataSettings(train=str(train), test=str(test), teacher_column="gpt"))
    assert not corpus.test.answered.any()
    assert corpus.test.has_label.all()


def test_a_known_label_name_may_be_the_teachers_column():
    rows = [{"text": row["text"], "label": row["label"], "target": row["label"]} for row in make_rows(COUNT)]
    corpus = read(rows, "target")
    assert corpus.card.columns["label"] == "label"
    assert corpus.answers.column == "target"


def test_class_names():
    assert class_names(["p_very_good", "p_very_bad"]) == ["good", "bad"]
    assert class_names(["good.p", "bad.p"]) == ["good", "bad"]
    assert class_names(["good", "goodish"]) == ["good", "goodish"]


def sums(n, p):
    return {"gpt": [n, p]}


CLASSES = {"classes": "negative,positive"}
BAD = {
    "unknown names": (
        lambda row, n: "positve" if n == 3 else "meh" if n in (5, 7) else row["label"],
        {},
        ["row 4", "'meh' (2 rows", "'positve' (1 row, nearest 'positive')", "not among negative, positive"],
    ),
    "a sum": (lambda row, n: [0.5, 0.4] if n == 6 else [0.5, 0.5], CLASSES, ["row 7", "sum to 0.9, not to 1"]),
    "percentages": (lambda row, n: [40, 60], CLASSES, ["row 1", "40", "is more than 1"]),
    "negative": (lambda row, n: [-0.5, 1.5], CLASSES, ["row 1", "-0.5", "is negative"]),
    "too many": (lambda row, n: [0.2, 0.2, 0.6], CLASSES, ["row 1", "3 probabilities", "2 classes"]),
    "not a number": (lambda row, n: ["x", "y"], CLASSES, ["not among negative, positive: 'x'"]),
    "one probability": (lambda row, n: 0.93, {}, ["'0.93' (120 rows)", "not among negative, positive"]),
    "an order": (lambda row, n: [0.5, 0.5], {}, ["nothing says which number is of which class"]),
    "nothing": (lambda row, n: "", {}, ["no training row has an answer"]),
}


@pytest.mark.parametrize("what", BAD)
def test_bad_answers_are_refused(what):
    value, settings, says = BAD[what]
    with pytest.raises(DataError) as refused:
        read(rows_with(value=value), **settings)
    assert not [words for words in says if words not in refused.value.problem], refused.value.problem
    assert refused.value.remedy


def test_bad_columns_are_refused():
    with pytest.raises(DataError, match="has no column 'gtp'; its columns: 'text', 'label', 'gpt'"):
        read(rows_with(), "gtp")
    with pytest.raises(DataError, match="the column 'label' cannot be the teacher's and the label"):
        read(rows_with(), "label", label_column="label")
    with pytest.raises(DataError, match="column 'a' is empty, and 'b' is not"):
        read(rows_with("a", lambda row, n: "" if n else 0.5, b=lambda row, n: 0.5), "a,b", **CLASSES)
    with pytest.raises(DataError, match="it is unknown which of the columns a, b is of which class"):
        read(rows_with("a", lambda row, n: 0.5, b=lambda row, n: 0.5), "a,b")
    with pytest.raises(DataError, match="is not a number, and the task is regression"):
        read(rows_with(value=lambda row, n: "much", label=lambda row, n: n / 10))


@pytest.mark.parametrize("cls", [TrainRun, PredictRun])
def test_verbs_that_do_not_distil_refuse_the_column(cls):
    with pytest.raises(KnobError, match="a teacher's column is for `limbeck distill` and `limbeck compare`"):
        cls(data={"teacher_column": "gpt"})
    assert Run(data={"teacher_column": "gpt"}).data.teacher_column == "gpt"
