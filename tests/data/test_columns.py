"""Columns are found by name, said, or asked for."""

from __future__ import annotations

import shlex

import pytest

from limbeck.core.errors import DataError
from limbeck.data.columns import Roles, choose
from limbeck.data.settings import DataSettings
from limbeck.data.sources.delimited import parse
from limbeck.data.sources.tables import Table


def roles(names: str, **flags: str) -> Roles:
    return choose(Table("f.csv", {name: ["x"] for name in names.split(",")}), DataSettings(**flags))


@pytest.mark.parametrize(
    ("names", "expected"),
    [
        ("text,label", Roles("text", "", ("label",))),
        ("id,Review,Stars", Roles("Review", "", ("Stars",))),
        ("Quality,#1 ID,#2 ID,#1 String,#2 String", Roles("#1 String", "#2 String", ("Quality",))),
        ("index,sentence1,sentence2,label", Roles("sentence1", "sentence2", ("label",))),
        ("index,question,sentence,label", Roles("question", "sentence", ("label",))),
        ("premise,hypothesis,gold_label", Roles("premise", "hypothesis", ("gold_label",))),
        ("text,pair,score", Roles("text", "pair", ("score",))),
        ("text,question,answer,label", Roles("text", "", ("label",))),
        ("title,content,label", Roles("content", "", ("label",))),
        ("text,review,label,score", Roles("text", "", ("label",))),
        ("sentence", Roles("sentence")),
        (",text,label", Roles("text", "", ("label",))),  # pandas writes its index without a name
    ],
)
def test_found_by_name(names: str, expected: Roles) -> None:
    assert roles(names) == expected


def test_flags_rule() -> None:
    assert roles("sentence1,sentence2,label", text_column="sentence1") == Roles("sentence1", "", ("label",))
    assert roles("a,b,c", text_column="b", pair_column="a", label_column="c") == Roles("b", "a", ("c",))
    assert roles("text,toxic,rude", label_column="toxic, rude").labels == ("toxic", "rude")
    assert roles("review,content,label", label_column="content") == Roles("review", "", ("content",))


@pytest.mark.parametrize(
    ("names", "flags", "message"),
    [
        ("a,b", {}, "no column is known as the text; its columns: 'a', 'b'(.|\n)*--text-column"),
        ("review,comment,label", {}, r"several columns could be the text \(review, comment\)"),
        ("text,class,category", {}, "several columns could be the label(.|\n)*--label-column"),
        ("text,label", {"text_column": "txt"}, "no column 'txt'; its columns: 'text', 'label'(.|\n)*--text-column"),
        ("text,label", {"label_column": "lab"}, "no column 'lab'(.|\n)*--label-column"),
        ("text,label", {"pair_column": "p"}, "no column 'p'(.|\n)*--data.pair-column"),
    ],
)
def test_wrong_columns_are_refused_with_the_flag(names: str, flags: dict[str, str], message: str) -> None:
    with pytest.raises(DataError, match=message):
        roles(names, **flags)


def test_splits_must_agree_on_pairs() -> None:
    with pytest.raises(DataError, match="single texts, but train has pairs"):
        choose(Table("dev.csv", {"text": ["x"]}), DataSettings(), follow=Roles("sentence1", "sentence2"))


@pytest.mark.parametrize(
    ("text", "flags", "problem", "proposal"),
    [
        ("1,a good film\n0,a bad film\n1,fine by me\n", {}, "has no header", "--text-column 2 --label-column 1"),
        (
            "a good film,pos\na bad one,neg\nfine by me,pos\n",
            {},
            "reads like a row",
            "--text-column 1 --label-column 2",
        ),
        (
            "id,opinion,verdict\n1,a good film,y\n2,a bad one,n\n3,no,y\n",
            {},
            "",
            "--text-column opinion --label-column verdict",
        ),
        ("id,my opinion,verdict\n1,a good film,y\n", {"label_column": "verdict"}, "", "--text-column 'my opinion'"),
        (
            "left,right,verdict\na film that I liked a lot,a film that was liked,y\n"
            "the dog ran very far,the cat sat there now,n\n"
            "it rains as it often does,it rains today again,y\n",
            {},
            "",
            "--text-column left --label-column verdict --data.pair-column right",
        ),
    ],
)
def test_the_flags_that_are_likely_meant_are_proposed(text, flags, problem, proposal) -> None:
    """And given, they read the file, header or none."""
    with pytest.raises(DataError) as refused:
        choose(parse(text, ".csv", "f.csv", DataSettings(**flags)), DataSettings(**flags))
    assert problem in refused.value.problem
    assert refused.value.remedy == f"pass {proposal}"
    words = shlex.split(proposal)
    given = {
        flag.removeprefix("--").removeprefix("data.").replace("-", "_"): value
        for flag, value in zip(words[::2], words[1::2], strict=True)
    }
    table = parse(text, ".csv", "f.csv", DataSettings(**flags | given))
    assert choose(table, DataSettings(**flags | given)).labels
    assert len(table) == text.count("\n") - (not problem)
