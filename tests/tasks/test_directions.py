"""Directions side by side: their names and tags, how rows are mixed, what must not be learnt, what is refused."""

from dataclasses import replace

import numpy as np
import pytest

from limbeck.core.errors import DataError, KnobError, MismatchError
from limbeck.core.progress import Silent
from limbeck.core.task import TaskInfo
from limbeck.data.seq2seq.directions import REVERSED, concatenate, prefix_of, tag_of, target_language, without_leaks
from limbeck.data.seq2seq.pairs import read_parallel
from limbeck.data.seq2seq.subwords import train_subwords
from limbeck.data.settings import DataSettings, ParallelSettings
from limbeck.jobs.settings import Run, resolve
from limbeck.tasks.seq2seq import Translation
from limbeck.tasks.teacher_texts import Direction, TaughtTexts, check_tag
from limbeck.teachers.settings import SwitchSettings

WHOLE = {"teacher": "t", "train": "train.en"}


def write(folder, name, left, right):
    for side, texts in (("en", left), ("de", right)):
        (folder / f"{name}.{side}").write_text("".join(f"{text}\n" for text in texts), encoding="utf-8")


@pytest.fixture
def corpora(tmp_path):
    """The pair 'b, B' is learnt in one direction and tested in the other."""
    write(tmp_path, "train", ["a", "b", "c"], ["A", "B", "C"])
    write(tmp_path, "dev", ["d", "e"], ["D", "E"])
    write(tmp_path, "one", ["f"], ["F"])
    write(tmp_path, "two", ["b", "g"], ["B", "G"])
    found = {}
    for name, test in (("en-de", "one"), ("de-en", "two")):
        here, there = name.split("-")
        data = DataSettings(
            **{
                s: str(tmp_path / f"{n}.{here}")
                for s, n in zip(("train", "dev", "test"), ("train", "dev", test), strict=True)
            }
        )
        pairs = ParallelSettings(target=str(tmp_path / f"train.{there}"), prefix=prefix_of(there))
        found[name] = read_parallel(data, pairs)
    return found


def test_a_tag_names_the_language_that_is_written():
    assert target_language("en-de") == "de"
    assert tag_of("zh_Hant") == "<2zh_Hant>"
    for slip in ("ende", "en-de-at", "en de", "", "-de", "en-"):
        with pytest.raises(KnobError, match="a direction cannot be called"):
            target_language(slip)
    with pytest.raises(KnobError, match="a language cannot be called"):
        tag_of("de,en")


def test_a_tag_that_is_spelt_is_no_tag():
    """Text with such characters teaches the vocabulary every one of them."""
    pieces = train_subwords(["a < b > c 2 d e f r"] * 3, 40, tags=["<2de>"])
    assert pieces.unk_token_id not in pieces("<2fr>")["input_ids"]
    check_tag(pieces, "de", "the teacher")
    with pytest.raises(MismatchError, match="the vocabulary of the teacher has no token <2fr>"):
        check_tag(pieces, "fr", "the teacher")


def test_rows_are_mixed_direction_after_direction(corpora):
    directions = (Direction("en-de", None, corpora["en-de"]), Direction("de-en", None, corpora["de-en"], repeat=3))
    corpus = concatenate(corpora, {"en-de": 1, "de-en": 3})
    texts = TaughtTexts(**vars(corpus), task=TaskInfo(kind="translate"), directions=directions)
    assert corpus.train.sources == ["<2de> a", "<2de> b", "<2de> c", *["<2en> A", "<2en> B", "<2en> C"] * 3]
    assert texts.owners.tolist() == [0] * 3 + [1] * 9
    assert texts.parts("test") == {"en-de": slice(0, 1), "de-en": slice(1, 3)}
    assert [corpus.test.targets[part] for part in texts.parts("test").values()] == [["F"], ["b", "g"]]
    assert (corpus.card.splits["train"].rows, corpus.card.splits["train"].labelled) == (12, 12)
    assert corpus.card.read == sum(one.card.read for one in corpora.values())
    assert any("de-en: training rows are seen 3 times" in note for note in corpus.card.notes)
    assert np.array_equal(corpus.dev.uids, np.concatenate([one.dev.uids for one in corpora.values()]))


def test_what_another_direction_is_measured_on_is_not_learnt_the_other_way_round(corpora):
    kept = without_leaks("en-de", corpora, Silent())
    assert kept.train.sources == ["<2de> a", "<2de> c"]
    assert kept.card.dropped[REVERSED] == 1
    assert kept.card.splits["train"].rows == 2
    assert without_leaks("de-en", corpora, Silent()) is corpora["de-en"]


def test_a_direction_of_which_nothing_is_left_is_refused(corpora):
    gone = {"en-de": corpora["en-de"], "de-en": corpora["de-en"]}
    gone["en-de"] = replace(corpora["en-de"], train=corpora["en-de"].train.take([1]))
    with pytest.raises(DataError, match="every training row of en-de"):
        without_leaks("en-de", gone, Silent())


@pytest.mark.parametrize(
    ("directions", "message"),
    [
        ({"ende": WHOLE}, "a direction cannot be called 'ende'"),
        ({"en-de": {"train": "x"}}, "the direction en-de has no teacher"),
        ({"en-de": {"teacher": "x"}}, "the direction en-de has no train"),
        ({"en-de": WHOLE | {"repeat": 0}}, r"knob 'directions.en-de.repeat' cannot be 0"),
    ],
)
def test_a_slip_is_refused_before_anything_is_opened(directions, message):
    def check():
        run = Run(recipe="multilingual", directions=directions)
        Translation(TaskInfo(kind="translate"), run).check_settings()

    with pytest.raises(KnobError, match=message):
        check()


def test_other_tasks_have_no_directions():
    with pytest.raises(KnobError, match=r"'directions.en-de' has no effect for --task classify"):
        resolve(Run(directions={"en-de": WHOLE}), TaskInfo(kind="classify"))


@pytest.mark.parametrize("beside", [{"teacher": "t"}, {"data": {"train": "x"}}, {"translate": {"command": "cat"}}])
def test_nothing_else_names_teachers_or_texts(beside):
    run = Run(directions={"en-de": WHOLE}, **beside)
    with pytest.raises(KnobError, match="is given beside"):
        Translation(TaskInfo(kind="translate"), run).check_settings()


def test_sources_of_no_known_direction_are_refused():
    run = Run(directions={"en-de": WHOLE}, data={"unlabelled": "mono.en"})
    with pytest.raises(KnobError, match=r"the given targets are learnt, and these texts have none") as caught:
        Translation(TaskInfo(kind="translate"), run).check_settings()
    assert "--recipe seq-kd" in caught.value.remedy


def test_the_recipe_switches_and_others_do_not():
    assert resolve(Run(recipe="multilingual"), TaskInfo(kind="translate")).table(SwitchSettings).strategy == "threshold"
    assert resolve(Run(recipe="word-kd"), TaskInfo(kind="translate")).table(SwitchSettings).strategy == "fixed"
    own = Run(recipe="multilingual", switch={"strategy": "adaptive"})
    assert resolve(own, TaskInfo(kind="translate")).table(SwitchSettings).strategy == "adaptive"
