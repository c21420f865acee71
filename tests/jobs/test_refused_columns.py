"""A column that is refused for something outside is tried again, and goes on when that is mended."""

import json
import shutil
import sys

import pytest

from limbeck.jobs.compare import compare
from limbeck.jobs.settings import read_run
from tiny import make_classifier, make_rows, make_tokenizer
from tiny_language import make_masked, save

pytest.importorskip("HanTa")


@pytest.mark.slow
def test_what_was_missing_is_there_when_the_run_is_resumed(tmp_path, monkeypatch):
    out, masked = tmp_path / "run", tmp_path / "masked"
    given = {
        "tokenizer": make_tokenizer(),
        "out": out,
        "train": {"epochs": 1, "batch_size": 32, "threads": 1},
        "measure": {"speed": False, "bootstrap": 200},
        "augment": {"model": str(masked), "copies": 1, "limit": 20},
        "columns": {"tinybert": {"stages": {"intermediate": {"epochs": 1}}}},
    }

    def compared(**how):
        return compare(make_classifier(), make_rows(150), ["finetune", "tinybert", "bilstm"], **given, **how)

    with monkeypatch.context() as patch:
        patch.setitem(sys.modules, "HanTa.HanoverTagger", None)
        refused = compared()
    assert [failure.arm for failure in refused.record.failed] == ["bilstm", "tinybert"]
    assert "HanTa" in refused.record.failed[0].reason
    assert "learning_rate" not in read_run(out / "run.toml")["columns"]["tinybert"].get("train", {})
    kept = (out / "arms" / "finetune-seed0" / "result.json").stat().st_mtime_ns

    save(make_masked(), make_tokenizer(), masked)
    mended = compared(resume=True)
    assert mended.record.failed == []
    assert mended.models.keys() == {"finetune", "tinybert", "plain-bilstm", "bilstm"}
    assert (out / "arms" / "finetune-seed0" / "result.json").stat().st_mtime_ns == kept
    written = (out / "run.toml").read_text()
    assert read_run(out / "run.toml")["columns"]["tinybert"]["train"]["learning_rate"] > 0
    prints = json.loads((out / "fingerprints.json").read_text())
    assert {"augmented of tinybert", "augmented of bilstm"} <= prints.keys()

    shutil.rmtree(masked)  # and gone again, with the texts it made
    for file in out.glob("augmented-*"):
        file.unlink()
    again = compared(resume=True)
    assert [failure.arm for failure in again.record.failed] == ["tinybert"]
    assert (out / "run.toml").read_text() == written
    assert json.loads((out / "fingerprints.json").read_text()) == prints
