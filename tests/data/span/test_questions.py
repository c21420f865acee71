"""Questions and the places of their answers: from files to windows of tokens."""

import gzip
import json

import numpy as np
import pandas
import pytest

from limbeck.core.errors import DataError
from limbeck.data.settings import DataSettings, WindowSettings
from limbeck.data.span.questions import read_questions
from limbeck.data.span.windows import encode_questions
from tiny import make_tokenizer
from tiny_language import byte_level, wordpiece
from tiny_places import make_questions

TEXT = "The film was very good, and the story was bad."


def load(data=None, tokenizer=None, places=None, **settings):
    settings, windows = DataSettings(**settings), WindowSettings(**(places or {}))
    return encode_questions(read_questions(settings, windows, data), tokenizer or wordpiece(), settings, windows)


def everywhere(*rows):
    return {"train": list(rows), "dev": list(rows), "test": list(rows)}


def row(answers, question="the film", context=TEXT, **more):
    return {"question": question, "context": context, "answers": answers, **more}


def spelt(corpus, split="train"):
    """What each window's label points at, in the text; None without a label."""
    found = []
    for window in corpus.splits[split].windows:
        context = corpus.items(split)[window.item].context
        start, end = window.labels
        found.append(context[window.where[start, 0] : window.where[end, 1]] if window.has_label.all() else None)
    return found


def squad(*questions, context=TEXT):
    return {"version": "x", "data": [{"title": "t", "paragraphs": [{"context": context, "qas": list(questions)}]}]}


def test_a_squad_file(tmp_path):
    asked = {"id": "q1", "question": "the film", "answers": [{"text": "very good", "answer_start": 13}]}
    for name, indent in (("train-v1.1.json", None), ("dev-v1.1.json", 1)):
        (tmp_path / name).write_text(json.dumps(squad(asked), indent=indent))
    (tmp_path / "test-v1.1.json.gz").write_bytes(gzip.compress(json.dumps(squad(asked)).encode()))
    found = load(train=str(tmp_path))
    assert [spelt(found, split) for split in ("train", "dev", "test")] == [["very good"]] * 3
    assert not found.rows.nullable
    assert found.task.labels == ("start", "end")
    assert "(id q1)" in found.items("train")[0].where


def test_version_two_points_to_place_zero_where_there_is_no_answer(tmp_path):
    good = {
        "id": "a",
        "question": "the film",
        "answers": [{"text": "good", "answer_start": 18}],
        "is_impossible": False,
    }
    none = {
        "id": "b",
        "question": "the play",
        "answers": [],
        "is_impossible": True,
        "plausible_answers": [{"text": "bad", "answer_start": 42}],
    }
    (tmp_path / "a.json").write_text(json.dumps(squad(good, none)))
    place = str(tmp_path / "a.json")
    found = load(train=place, dev=place, test=place)
    assert found.rows.nullable
    assert [window.labels.tolist() for window in found.train.windows][1] == [0, 0]
    assert found.train.has_label.all()
    assert all(window.predicted[0] for window in found.train.windows)
    assert found.items("train")[1].impossible


@pytest.mark.parametrize(
    ("broken", "message"),
    [
        ({"data": {}}, r"a\.json: data is a dict, not a list"),
        ({"data": [{"title": "t"}]}, r"data\[0\] has no 'paragraphs'"),
        ({"data": [{"paragraphs": [{"qas": []}]}]}, r"data\[0\]\.paragraphs\[0\] has no 'context'"),
        ({"data": [{"paragraphs": [{"context": "x", "qas": [{}]}]}]}, r"paragraphs\[0\]\.qas\[0\] has no 'question'"),
        ({"data": []}, "holds no question"),
    ],
)
def test_a_squad_file_of_another_shape(tmp_path, broken, message):
    (tmp_path / "a.json").write_text(json.dumps(broken))
    with pytest.raises(DataError, match=message):
        load(train=str(tmp_path / "a.json"))


@pytest.mark.parametrize(
    "answers",
    [
        "very good",
        ["very good"],
        {"text": ["very good"], "answer_start": [13]},
        {"text": ["very good"]},
        [{"text": "very good", "answer_start": 13}],
        " very good ",
    ],
)
def test_the_forms_an_answer_may_have(answers):
    assert spelt(load(everywhere(row(answers)))) == ["very good"]


def test_an_answer_and_its_start_in_columns_of_their_own(tmp_path):
    (tmp_path / "a.jsonl").write_text(
        json.dumps({"query": "the story", "passage": TEXT, "answer": "was", "answer_start": 38}) + "\n"
    )
    place = str(tmp_path / "a.jsonl")
    found = load(train=place, dev=place, test=place)
    assert found.items("train")[0].spans == ((38, 41),)
    assert found.card.columns == {
        "question": "query",
        "context": "passage",
        "answer": "answer",
        "start": "answer_start",
    }


def sheet(path, *lines, tab=False):
    """A table whose cells are text, whatever they mean."""
    text = "\n".join(("question,context,answer,answer_start,is_impossible", *lines)) + "\n"
    path.write_text(text.replace(",", "\t") if tab else text)
    return {"train": str(path), "dev": str(path), "test": str(path)}


@pytest.mark.parametrize(("name", "start"), [("a.csv", "9"), ("a.csv", "9.0"), ("a.tsv", " 9 "), ("a.tsv", "+9")])
def test_a_start_in_a_sheet_is_a_number(tmp_path, name, start):
    found = load(**sheet(tmp_path / name, f"which is last?,red blue red,red,{start},", tab=name == "a.tsv"))
    assert found.items("train")[0].spans == ((9, 12),)
    assert not any("several times" in note for note in found.card.notes)


def test_an_empty_start_in_a_sheet_is_none(tmp_path):
    found = load(**sheet(tmp_path / "a.csv", "which is last?,red blue red,red,,"))
    assert found.items("train")[0].spans == ((0, 3),)
    assert any(note.startswith("3 answers without a start occur several times") for note in found.card.notes)


@pytest.mark.parametrize(
    ("yes", "no"),
    [("true", "false"), ("TRUE", "FALSE"), ("True", ""), ("1", "0"), ("1.0", "0.0"), ("yes", "no"), (" Yes ", " No ")],
)
def test_a_sheet_says_which_questions_have_no_answer(tmp_path, yes, no):
    given = sheet(tmp_path / "a.csv", f"which?,red blue,red,0,{no}", f"who?,red blue,,,{yes}")
    found = load(**given)
    assert [(one.impossible, one.has_label) for one in found.items("train")] == [(False, True), (True, True)]
    assert found.rows.nullable


@pytest.mark.parametrize(
    ("cells", "message"),
    [
        ("nine,", "line 2: column 'answer_start' holds 'nine', not a whole number"),
        ("9.5,", "line 2: column 'answer_start' holds '9.5', not a whole number"),
        ("0,perhaps", "line 2: column 'is_impossible' holds 'perhaps', which is neither yes nor no"),
        ("0,2", "line 2: column 'is_impossible' holds '2', which is neither yes nor no"),
    ],
)
def test_a_cell_of_a_sheet_that_means_nothing_is_refused(tmp_path, cells, message):
    with pytest.raises(DataError, match=f"{message}(.|\n)*→"):
        load(**sheet(tmp_path / "a.csv", f"which is last?,red blue red,red,{cells}"))


def test_numbers_and_flags_of_other_sources():
    frame = pandas.DataFrame(
        {
            "question": ["which is last?"] * 3,
            "context": ["red blue red", "blue", "green green"],
            "answers": [
                {"text": np.array(["red"], dtype=object), "answer_start": np.array([9])},
                {"text": ["blue"], "answer_start": ["0"]},
                {"text": ["green"], "answer_start": [6.0]},
            ],
            "is_impossible": [0.0, 1.0, np.nan],
        }
    )
    found = load({"train": frame, "dev": frame, "test": frame})
    assert [one.spans for one in found.items("train")] == [((9, 12),), (), ((6, 11),)]
    assert [one.impossible for one in found.items("train")] == [False, True, False]
    with pytest.raises(DataError, match="row 1: column 'answer_start' holds 'inf', not a whole number"):
        load(everywhere(row({"text": ["was"], "answer_start": [float("inf")]})))


def test_an_answer_without_a_start_is_looked_for_and_doubts_are_said():
    found = load(everywhere(row("was")))
    assert found.items("train")[0].spans == ((9, 12),)
    assert any(note.startswith("3 answers without a start occur several times") for note in found.card.notes)


def test_a_wrong_start_moves_to_the_nearest_place_and_is_said():
    found = load(everywhere(row({"text": ["was"], "answer_start": [37]})))
    assert found.items("train")[0].spans == ((38, 41),)
    assert any(note.startswith("3 answers do not stand where") for note in found.card.notes)


def test_an_answer_that_does_not_occur_is_dropped_and_counted():
    found = load(everywhere(row("very good"), row("excellent"), row("", context="  ")))
    assert found.card.dropped == {"answer that does not occur in its text": 3, "empty question or text": 3}
    assert len(found.items("test")) == 1
    with pytest.raises(DataError, match="no row of it can be used"):
        load(everywhere(row("excellent")))


def test_an_empty_answer_is_no_label_and_an_empty_list_is_none():
    found = load(everywhere(row("very good"), row(""), row(None)))
    assert [window.has_label.tolist() for window in found.train.windows] == [[True] * 2, [False] * 2, [False] * 2]
    assert any(note.startswith("3 questions have an empty answer") for note in found.card.notes)
    assert not found.rows.nullable
    assert load(everywhere(row("very good"), row([]))).rows.nullable


def test_only_places_of_the_text_are_asked():
    found = load(everywhere(row("very good")))
    window = found.train.windows[0]
    pieces = wordpiece().convert_ids_to_tokens(window.inputs["input_ids"].tolist())
    second = pieces.index("[SEP]") + 1
    assert np.flatnonzero(window.predicted).tolist() == list(range(second, len(pieces) - 1))
    assert window.inputs["token_type_ids"][window.predicted].tolist() == [1] * int(window.predicted.sum())


def long(nullable):
    words = ["the"] * 40 + ["good"] + ["film"] * 40
    rows = [row("good", context=" ".join(words))] + ([row([])] if nullable else [])
    return load(everywhere(*rows), make_tokenizer(), {"stride": 6, "longest_question": 5}, max_length=32)


@pytest.mark.parametrize("nullable", [False, True])
def test_a_long_text_is_read_in_windows(nullable):
    found = long(nullable)
    windows = [window for window in found.train.windows if window.item == 0]
    assert len(windows) > 2
    assert len({window.uid for window in windows}) == len(windows)
    covered = {
        tuple(place) for window in windows for place in window.where[window.predicted & (window.where[:, 1] > 0)]
    }
    assert len(covered) == 81
    holds = [any(w.where[place].tolist() == [160, 164] for place in np.flatnonzero(w.predicted)) for w in windows]
    assert 0 < sum(holds) < len(windows)
    for window, holding in zip(windows, holds, strict=True):
        if holding:
            assert window.where[window.labels].tolist() == [[160, 164]] * 2
            assert window.has_label.all()
        else:
            assert window.labels.tolist() == [0, 0]
            assert window.has_label.tolist() == [nullable] * 2


def test_neighbouring_windows_share_the_stride():
    windows = [window for window in long(False).train.windows if window.item == 0]
    first, second = ({tuple(place) for place in window.where[window.predicted]} for window in windows[:2])
    assert len(first & second) == 6


def test_a_long_question_is_cut_and_counted():
    found = load(everywhere(row("good", question="the film " * 50)), make_tokenizer(), {"longest_question": 4})
    assert found.card.truncated == 3
    ids = found.train.windows[0].inputs["input_ids"].tolist()
    assert ids.index(make_tokenizer().sep_token_id) == 5
    assert spelt(found) == ["good"]


def test_little_room_is_shared_out_and_said():
    found = load(everywhere(row("good", question="the film " * 50)), make_tokenizer(), max_length=20)
    assert max(found.train.lengths) <= 20
    assert any("a question gets 8 at most and windows share 4" in note for note in found.card.notes)


def test_an_answer_inside_a_token_and_byte_level_tokens():
    inside = load(everywhere(row({"text": ["stand"], "answer_start": [9]}, context="the understanding film")))
    assert spelt(inside) == ["stand"]
    rows = everywhere(row("très good", context="The film was très good, été."))
    assert [text.strip() for text in spelt(load(rows, byte_level()))] == ["très good"]


def test_a_paragraph_is_never_cut_apart():
    rows = [{**asked, "question": question} for asked in make_questions(100) for question in ("the film", "the plot")]
    found = load(rows, make_tokenizer())
    texts = [{item.context for item in found.items(split)} for split in ("train", "dev", "test")]
    assert sum(map(len, texts)) == len(set.union(*texts)) == len({asked["context"] for asked in rows})
    assert all(len(found.items(split)) >= 10 for split in ("dev", "test"))
    assert "hash of the paragraph" in found.card.splits["dev"].source


def test_names_tell_windows_and_twins_apart():
    rows = make_questions(30)
    found = load({"train": [*rows, rows[0]], "dev": rows, "test": rows}, make_tokenizer())
    every = [uid for split in found.splits.values() for uid in split.uids.tolist()]
    assert len(every) == len(set(every)) == 91
    assert min(every) >= 0
    narrow = load(everywhere(*rows), make_tokenizer(), max_length=12)
    assert not set(narrow.train.uids.tolist()) & {
        uid for uid, n in zip(found.train.uids, found.train.lengths, strict=True) if n > 12
    }


def test_columns_that_are_not_there():
    with pytest.raises(DataError, match="no column is known as the context; its columns: question, body"):
        load(everywhere({"question": "a", "body": "b"}))
    with pytest.raises(DataError, match="has no column 'passage'"):
        load(everywhere(row("good")), places={"context_column": "passage"})
    with pytest.raises(DataError, match="row 1: column 'context' holds int '3', not text"):
        load(everywhere(row("good", context=3)))
    with pytest.raises(DataError, match="row 1: 2 answers, but 1 of answer_start"):
        load(everywhere(row({"text": ["a", "b"], "answer_start": [1]})))
    with pytest.raises(DataError, match="row 1: the text holds half a character"):
        load(everywhere(row("good", context="good \ud83d")))
