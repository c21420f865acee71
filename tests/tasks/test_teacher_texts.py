"""What students learn of what a teacher wrote."""

import numpy as np
import pytest

from limbeck.core.errors import DataError, MismatchError
from limbeck.core.fingerprint import fingerprint
from limbeck.data.seq2seq.pairs import Parallel
from limbeck.engines.base import Engine, Hypothesis
from limbeck.students.load import load
from limbeck.tasks.base import Model
from limbeck.tasks.seq2seq import generation_fingerprint
from limbeck.tasks.teacher_texts import TeacherTexts, cached_texts
from limbeck.teachers.settings import TranslateSettings
from limbeck.teachers.texts import TextCache
from untaught import make_teacher

ROWS = Parallel(
    ["<2de> ein kleines haus", "<2de> der rote hund", "<2de> zwei alte bäume"],
    ["a small house", "", "two old trees"],
    np.array([7, 8, 9]),
)
BEST = {
    "ein kleines haus": [Hypothesis("a little house", -1.0), Hypothesis("a small house", -2.0)],
    "der rote hund": [Hypothesis("the red", -1.0, cut=True), Hypothesis("the red dog", -3.0)],
    "zwei alte bäume": [Hypothesis("zwei alte bäume", -1.0), Hypothesis("two old tree", -4.0, cut=True)],
}


class Known(Engine):
    name = "known"

    def translate(self, sources, beam=1, nbest=1):
        return [BEST[source.removeprefix("<2de> ")][:nbest] for source in sources]


@pytest.fixture
def written(tmp_path):
    kept = TextCache(tmp_path, {})
    kept.fill(Known(), ROWS.sources, ROWS.uids, 2, 2)
    return TeacherTexts(TranslateSettings(), "<2de> ", ROWS, kept)


def test_cut_and_copied_translations_are_left_out_and_counted(written):
    rows, targets, note = written.targets("beam")
    assert (rows, targets) == ([0], ["a little house"])
    assert "1 of the teacher's 3 best translations are learnt from" in note
    assert "1 (cut off before its end), 1 (copies its source)" in note


def test_cut_ones_are_learnt_from_where_that_is_asked_for(written):
    settings = written.settings.but(cut=True)
    rows, targets, _ = TeacherTexts(settings, written.prefix, ROWS, written.cache).targets("beam")
    assert (rows, targets) == ([0, 1], ["a little house", "the red"])


def test_of_the_closest_too_and_rows_without_a_target_have_none(written):
    rows, targets, note = written.targets("closest")
    assert (rows, targets) == ([0], ["a small house"])
    assert note.startswith("1 of the teacher's 2 ")
    assert "closest to the given targets are learnt from. Left out: 1 (cut off before its end)." in note


def test_a_teacher_of_whom_nothing_can_be_learnt_is_refused(written):
    last = ROWS.take([2])
    with pytest.raises(DataError, match=r"left out: 1 \(copies its source\)"):
        TeacherTexts(written.settings, written.prefix, last, written.cache).targets("beam")


def test_translations_of_a_teacher_that_writes_otherwise_now_are_not_taken(tmp_path):
    """The weights are the same; a first word is forced, as a language code is."""
    teacher = Model(*load(make_teacher(tmp_path / "teacher", ROWS.sources), "translate"))

    def kept() -> TextCache:
        prints = {"teacher": fingerprint(teacher.network), "writing": generation_fingerprint(teacher)}
        return cached_texts(TranslateSettings(), prints, Known(), 2, tmp_path / "kept")

    kept().fill(Known(), ROWS.sources, ROWS.uids, 2, 2)
    assert len(kept()) == 3
    teacher.network.generation_config.forced_bos_token_id = 20
    with pytest.raises(MismatchError, match="writing"):
        kept()
