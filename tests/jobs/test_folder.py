"""The folder of a run: one at a time, never over another's."""

import json

import pytest
from transformers import AutoTokenizer

from limbeck.core.checksum import read_sealed
from limbeck.core.errors import LimbeckError, MismatchError
from limbeck.jobs.compare_settings import CompareRun
from limbeck.jobs.folder import ensure_saved, locked, publish, write_or_match_run
from limbeck.jobs.settings import Run, read_run
from limbeck.students.model_folder import save_folder
from limbeck.tasks.base import Model
from tiny import make_classifier, make_tokenizer

PRINTS = {"teacher": "t", "data": "d"}


def test_a_folder_is_made_and_an_unused_one_is_taken_away(tmp_path):
    with locked(tmp_path / "a" / "b", resume=False) as folder:
        (folder / "kept").touch()
    assert [path.name for path in folder.iterdir()] == ["kept"]
    with locked(tmp_path / "c", resume=False) as folder:
        assert folder.is_dir()
    assert not folder.exists()


def test_a_folder_that_was_there_stays(tmp_path):
    (tmp_path / "mine").mkdir()
    with pytest.raises(ZeroDivisionError), locked(tmp_path / "mine", resume=False):
        raise ZeroDivisionError
    assert list((tmp_path / "mine").iterdir()) == []


def test_one_run_at_a_time(tmp_path):
    out = tmp_path / "run"
    with locked(out, resume=False):
        for resume in (False, True):
            with pytest.raises(LimbeckError, match="another run is writing"), locked(out, resume=resume):
                pytest.fail("entered twice")
        assert (out / ".lock").exists()
    with locked(out, resume=True):
        pass


@pytest.mark.parametrize(("done", "words"), [(False, "an unfinished run\n.*--resume"), (True, "a finished run")])
def test_what_is_there_is_not_overwritten(tmp_path, done, words):
    (tmp_path / "run.toml").touch()
    if done:
        (tmp_path / "record.json").touch()
    with pytest.raises(LimbeckError, match=words), locked(tmp_path, resume=False):
        pytest.fail("entered")
    with locked(tmp_path, resume=True):
        pass


def test_a_run_is_written_down_once_and_compared_after(tmp_path):
    run = Run(teacher="t", out=str(tmp_path))
    write_or_match_run(tmp_path, run, PRINTS)
    assert Run(**read_run(tmp_path / "run.toml")) == run
    write_or_match_run(tmp_path, run, PRINTS)
    write_or_match_run(tmp_path, run.but(out="moved"), PRINTS)
    with pytest.raises(MismatchError, match=r"other knobs \(seeds: 1 → 3\)\n.*same ones"):
        write_or_match_run(tmp_path, run.but(seeds=3), PRINTS)
    with pytest.raises(MismatchError, match="its data changed"):
        write_or_match_run(tmp_path, run, {**PRINTS, "data": "e"})


def test_what_was_not_read_before_is_a_change(tmp_path):
    write_or_match_run(tmp_path, Run(), PRINTS)
    with pytest.raises(MismatchError, match="its student changed"):
        write_or_match_run(tmp_path, Run(), {**PRINTS, "student": "s"})


def column(learning_rate=0.0, pool="auto", **train):
    knobs = {"epochs": 2.0, **({"learning_rate": learning_rate} if learning_rate else {}), **train}
    stage = {"learning_rate": 0.0, "objective": {"pkd": {"weight": 1.0, "pool": pool}}}
    return CompareRun(
        recipes="finetune,long", columns={"long": {"recipe": "pkd-skip", "train": knobs, "stages": {"warm": stage}}}
    )


def read(folder):
    return CompareRun(**read_run(folder / "run.toml"))


def test_a_column_that_could_not_be_built_is_settled_when_it_can(tmp_path):
    write_or_match_run(tmp_path, column(), PRINTS)
    whole, more = column(1e-3, "cls"), {**PRINTS, "augmented of long": "a"}
    write_or_match_run(tmp_path, whole, more)
    assert read(tmp_path) == whole
    prints = read_sealed(tmp_path / "fingerprints.json")
    assert len(prints.pop("run.toml")) == 2  # as begun and as settled: a kill may come between the two files
    assert prints == more
    write_or_match_run(tmp_path, column(), PRINTS)  # and once it cannot
    assert read(tmp_path) == whole
    with pytest.raises(MismatchError, match=r"learning_rate: 0.001 → 0.002"):
        write_or_match_run(tmp_path, column(2e-3, "cls"), more)
    with pytest.raises(MismatchError, match="pool: cls → mean"):
        write_or_match_run(tmp_path, column(1e-3, "mean"), more)
    with pytest.raises(MismatchError, match="its augmented of long changed"):
        write_or_match_run(tmp_path, whole, {**more, "augmented of long": "b"})


def test_what_a_person_sets_is_not_left_open(tmp_path):
    begun = column()
    write_or_match_run(tmp_path, begun, PRINTS)
    table = begun.columns["long"]
    rated = {"warm": {**table["stages"]["warm"], "learning_rate": 1e-3}}
    for other in (
        column(epochs=3.0),
        begun.but(train={"learning_rate": 1e-3}),
        begun.but(columns={"long": {**table, "stages": rated}}),
    ):
        with pytest.raises(MismatchError, match="other knobs"):
            write_or_match_run(tmp_path, other, PRINTS)
    assert read(tmp_path) == begun


@pytest.mark.parametrize("trial", ["long-seed0", "plain-long-seed2"])
def test_of_a_column_that_was_trained_nothing_new_is_read(tmp_path, trial):
    write_or_match_run(tmp_path, column(1e-3, "cls"), PRINTS)
    (tmp_path / "arms" / trial).mkdir(parents=True)
    with pytest.raises(MismatchError, match="its student of long changed"):
        write_or_match_run(tmp_path, column(1e-3, "cls"), {**PRINTS, "student of long": "s"})
    write_or_match_run(tmp_path, column(1e-3, "cls"), {**PRINTS, "student of other": "s"})


def test_only_the_main_process_writes(tmp_path, monkeypatch):
    (tmp_path / "model").mkdir()
    monkeypatch.setenv("RANK", "1")
    with locked(tmp_path / "run", resume=False) as folder:
        write_or_match_run(folder, Run(), PRINTS)
        publish(tmp_path / "model", folder / "student")
        assert ensure_saved(Model(make_classifier(), make_tokenizer()), folder / "teacher") == folder / "teacher"
    assert [path.name for path in tmp_path.iterdir()] == ["model"]


def test_a_run_cut_off_before_it_was_written_down_starts_anew(tmp_path):
    write_or_match_run(tmp_path, Run(seed=1), PRINTS)
    (tmp_path / "run.toml").unlink()
    write_or_match_run(tmp_path, Run(seed=2), {"data": "other"})
    write_or_match_run(tmp_path, Run(seed=2), {"data": "other"})
    assert "seed = 2" in (tmp_path / "run.toml").read_text()


def test_a_model_is_put_in_place_whole_over_what_was_there(tmp_path):
    model, place = tmp_path / "model", tmp_path / "student"
    model.mkdir()
    (model / "weights").write_text("new")
    for half in (place, tmp_path / ".student.part"):
        half.mkdir()
        (half / "old").touch()
    publish(model, place, card="# card")
    assert {path.name: path.read_text() for path in place.iterdir()} == {"weights": "new", "README.md": "# card"}
    assert sorted(path.name for path in tmp_path.iterdir()) == ["model", "student"]


def test_a_saved_tokenizer_does_not_remember_to_what_length_a_run_truncated(tmp_path):
    tokenizer = make_tokenizer()
    save_folder(make_classifier(), tokenizer, tmp_path / "one")
    tokenizer(["good film", "a very good film"], truncation=True, max_length=3, padding=True)
    save_folder(make_classifier(), tokenizer, tmp_path / "two")
    one, two = ((tmp_path / name / "tokenizer.json").read_text() for name in ("one", "two"))
    assert one == two
    assert json.loads(two)["truncation"] is None


def test_a_saved_tokenizer_does_not_remember_whether_the_hub_was_in_reach(tmp_path):
    for name in ("online", "offline"):
        make_tokenizer().save_pretrained(tmp_path / name)
        tokenizer = AutoTokenizer.from_pretrained(tmp_path / name, local_files_only=name == "offline")
        save_folder(make_classifier(), tokenizer, tmp_path / name)
    one, two = ((tmp_path / name / "tokenizer_config.json").read_text() for name in ("online", "offline"))
    assert one == two
