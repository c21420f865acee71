"""A byte flipped in any file that a resumed run reads: computed again, or refused with the remedy; never silent."""

import json
import re
import shutil

import pytest
from transformers import TrainerCallback

import limbeck
from flipping import every_flip, flip, offsets
from limbeck.core.checksum import DamagedError
from limbeck.core.errors import DataError, LimbeckError
from limbeck.core.progress import Silent
from limbeck.core.record import Record
from limbeck.jobs.folder import write_or_match_run
from limbeck.jobs.settings import Run, differences, read_run
from limbeck.jobs.trial import TrialResult
from limbeck.students.shrink import Shrink
from limbeck.training.callbacks import check_checkpoint
from tiny import make_classifier, make_rows, make_tokenizer

pytestmark = pytest.mark.slow

STAGED = {"warm": {"epochs": 1.0, "objective": {"hinton": {"temperature": 3.0}}}}
HOW = {
    "recipe": "hinton",
    "stages": STAGED,
    "augment": {"kind": "bilstm", "copies": 1, "limit": 20, "pos": 0.0},
    "train": {"epochs": 2, "batch_size": 16, "threads": 1, "learning_rate": 1e-3},
    "measure": {"speed": False, "bootstrap": 100},
}


class Cut(TrainerCallback):
    """Ctrl-C in the student's last training, after its first checkpoint."""

    def on_step_end(self, args, state, control, **_):
        if re.search(r"distilled-seed0/checkpoints-01$", args.output_dir) and state.global_step == 9:
            raise KeyboardInterrupt


class Heard(Silent):
    def __init__(self):
        self.said = []

    def say(self, text):
        self.said.append(text)


def distilled(out, **how):
    return limbeck.distill(
        make_classifier(seed=5), make_rows(160), Shrink(layers=1), tokenizer=make_tokenizer(), out=out, **{**HOW, **how}
    )


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    out = tmp_path_factory.mktemp("whole") / "run"
    return out, distilled(out)


@pytest.fixture(scope="module")
def cut(tmp_path_factory):
    """A baseline that is finished, and a student behind its first step and its first checkpoint of the second."""
    out = tmp_path_factory.mktemp("cut") / "run"
    with pytest.raises(KeyboardInterrupt):
        distilled(out, callbacks=[Cut()])
    return out


def weights(out):
    return {path.parts[-3]: path.read_bytes() for path in out.glob("arms/*/model/model.safetensors")}


def test_all_that_can_be_computed_again_is(whole, cut, tmp_path):
    """A finished trial, a finished step, a checkpoint, augmented texts and a shard, all damaged at once."""
    out = tmp_path / "run"
    shutil.copytree(cut, out)
    student = out / "arms" / "distilled-seed0"
    (checkpoint,) = (path for path in (student / "checkpoints-01").glob("checkpoint-*") if (path / "complete").exists())
    (made,), shard = out.glob("augmented-*.jsonl"), next(iter((out / "teacher-cache").glob("shard-*")))
    for file in (
        out / "arms" / "plain-seed0" / "test.safetensors",
        student / "step-00-warm" / "weights.safetensors",
        checkpoint / "optimizer.pt",
        made,
        shard,
        out / "teacher" / "model.safetensors",
    ):
        flip(file, file.stat().st_size // 2)
    heard = Heard()
    distilled(out, resume=True, watcher=heard)
    assert weights(out) == weights(whole[0])
    assert (out / "teacher" / "model.safetensors").read_bytes() == (
        whole[0] / "teacher" / "model.safetensors"
    ).read_bytes()
    told = "\n".join(heard.said)
    for words in ("is trained again", "this step is run again", "this training begins anew", "is filled again"):
        assert words in told


def test_a_checkpoint_whose_best_is_damaged_is_not_resumed(cut, tmp_path):
    shutil.copytree(cut / "arms" / "distilled-seed0" / "checkpoints-01", tmp_path / "c")
    (folder,) = (tmp_path / "c").glob("checkpoint-*")
    check_checkpoint(folder)
    best = folder.with_name("checkpoint-1")
    shutil.copytree(folder, best)
    state = json.loads((folder / "trainer_state.json").read_text())
    (folder / "trainer_state.json").write_text(json.dumps({**state, "best_model_checkpoint": str(best)}))
    (folder / "complete").write_text(json.dumps({"seconds": 1.0}))
    check_checkpoint(folder)
    flip(best / "model.safetensors", 500)
    with pytest.raises(DamagedError):
        check_checkpoint(folder)
    shutil.rmtree(best)
    with pytest.raises(DamagedError, match="is gone"):
        check_checkpoint(folder)


def test_every_file_of_a_finished_trial(whole, tmp_path):
    home = whole[0] / "arms" / "distilled-seed0"
    truth, silent = TrialResult.load(home).model_dump(), []
    for folder, where in every_flip(home, tmp_path / "flipped"):
        try:
            assert TrialResult.load(folder).model_dump() == truth, where
            silent.append(where)
        except DamagedError:
            pass
    assert all(where.startswith("result.json") for where in silent), "white space in JSON alone changes nothing"


def test_every_file_of_a_checkpoint(cut, tmp_path):
    (folder,) = (cut / "arms" / "distilled-seed0" / "checkpoints-01").glob("checkpoint-*")
    assert {"model.safetensors", "optimizer.pt", "trainer_state.json", "complete"} <= {p.name for p in folder.iterdir()}
    for flipped, where in every_flip(folder, tmp_path / folder.name, some=1):
        if not where.startswith("complete"):
            with pytest.raises(DamagedError):
                check_checkpoint(flipped)


def test_a_run_file_that_was_changed_is_refused(whole, tmp_path):
    """A bare --resume reads its knobs from this very file: nothing else tells that one is another."""
    whole_text, prints = ((whole[0] / name).read_bytes() for name in ("run.toml", "fingerprints.json"))
    file, run = tmp_path / "run.toml", Run(**read_run(whole[0] / "run.toml"))
    known = {name: value for name, value in json.loads(prints).items() if name not in ("checksum", "run.toml")}
    (tmp_path / "fingerprints.json").write_bytes(prints)
    file.write_bytes(whole_text)
    refused = 0
    for number, place in enumerate(offsets(file, some=150)):
        file.write_bytes(whole_text)
        flip(file, place, bit=number % 7)
        try:
            read = Run(**read_run(file))
            write_or_match_run(tmp_path, read, known)
            assert differences(run, read) == []  # a comment, or a knob that may change
        except LimbeckError as error:
            refused += bool(error.remedy)
    assert refused > 20
    file.write_bytes(re.sub(rb"^epochs = 2.0", b"epochs = 9.0", whole_text, flags=re.MULTILINE))
    with pytest.raises(LimbeckError, match=r"run.toml is damaged, or was changed after the run wrote it\n.*--out"):
        write_or_match_run(tmp_path, Run(**read_run(file)), known)
    file.write_bytes(re.sub(rb"^threads = 1", b"threads = 2 # faster", whole_text, flags=re.MULTILINE))
    write_or_match_run(tmp_path, Run(**read_run(file)), known)


def test_fingerprints_that_are_damaged_are_refused(whole, tmp_path):
    for name in ("run.toml", "fingerprints.json"):
        shutil.copy(whole[0] / name, tmp_path)
    file, run = tmp_path / "fingerprints.json", Run(**read_run(tmp_path / "run.toml"))
    content = file.read_bytes()
    known = {name: value for name, value in json.loads(content).items() if name not in ("checksum", "run.toml")}
    for number, place in enumerate(offsets(file, some=60)):
        flip(file, place, bit=number % 7)
        try:
            write_or_match_run(tmp_path, run, known)
            found = json.loads(file.read_text())
            assert {name: found[name] for name in known} == known
        except LimbeckError as error:
            assert "--out" in str(error)  # noqa: PT017
        file.write_bytes(content)


def test_a_record_that_is_damaged_is_refused(whole, tmp_path):
    file = whole[1].record.save(tmp_path / "record.json")
    content, refused = file.read_bytes(), 0
    for number, place in enumerate(offsets(file, some=150)):
        flip(file, place, bit=number % 7)
        try:
            assert Record.load(file) == whole[1].record
        except DataError as error:
            refused += bool(error.remedy)
        file.write_bytes(content)
    assert refused > 80
    bare = {name: value for name, value in json.loads(content).items() if name != "checksum"}
    file.write_text(json.dumps(bare))  # of an earlier version
    assert Record.load(file) == whole[1].record
