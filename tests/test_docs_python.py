"""docs/parts.md does what it says, block after block."""

from pathlib import Path

import pytest

from examples import blocks_of
from limbeck.core.card import METHODS

PAGE = Path(__file__).resolve().parent.parent / "docs" / "parts.md"


@pytest.mark.filterwarnings("ignore:'pin_memory'")
def test_every_block_runs(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    blocks = blocks_of(PAGE.read_text(encoding="utf-8"))
    assert len(blocks) >= 8
    scope = {"__name__": __name__}
    try:
        for number, block in enumerate(blocks):
            exec(compile(block, f"docs/parts.md, block {number}", "exec"), scope)
    finally:
        METHODS.pop("margin-example", None)
    assert "does better than" in capsys.readouterr().out
