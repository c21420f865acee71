"""The benchmarks can be started, judge their limits, and what they left behind can be read."""

import importlib
import runpy
import sys
from argparse import Namespace
from pathlib import Path

import pytest
import torch

from limbeck.core.record import Record

pytestmark = pytest.mark.slow

HOME = Path(__file__).parents[1] / "benchmarks"
# Scripts that take the common flags; the others have none, and --help would start them.
SCRIPTS = sorted(path.name for path in HOME.glob("*.py") if "flags(__doc__" in path.read_text(encoding="utf-8"))


@pytest.fixture(scope="module")
def common():
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(HOME)
        yield importlib.import_module("common")


def test_the_three_claims_have_scripts():
    assert {"cached_epoch.py", "startup.py", "textbrewer.py"} <= set(SCRIPTS)


@pytest.mark.parametrize("script", SCRIPTS)
def test_a_script_reads_its_flags(script, monkeypatch, capsys):
    monkeypatch.syspath_prepend(HOME)
    monkeypatch.setattr(sys, "argv", [script, "--help"])
    with pytest.raises(SystemExit, match="0"):
        runpy.run_path(str(HOME / script), run_name="__main__")
    assert "--quick" in capsys.readouterr().out


@pytest.mark.parametrize("path", sorted((HOME / "results").glob("*.json")), ids=lambda path: path.stem)
def test_a_committed_record_loads(path):
    record = Record.load(path)
    assert record.name
    limits = [name for name in record.figures if name.endswith("_limit")]
    assert all(name.removesuffix("_limit") in record.figures for name in limits)


@pytest.mark.parametrize(("ratio", "quick", "code"), [(1.0, False, 0), (1.2, False, 1), (1.2, True, 0)])
def test_a_limit_that_is_not_met_ends_in_an_error(common, tmp_path, capsys, ratio, quick, code):
    finding = common.Finding(
        figures={"ratio": ratio}, limits=(common.Limit("ratio", at_most=1.05),), knobs={}, notes=(), seconds={}
    )
    place = tmp_path / "ratio.json"
    assert common.finish("ratio", finding, Namespace(quick=quick, out=place)) == code
    assert Record.load(place).figures == {"ratio": ratio, "ratio_limit": 1.05}


def test_at_least_is_the_other_way_round(common):
    limit = common.Limit("speedup", at_least=2.3)
    assert limit.holds({"speedup": 2.3})
    assert not limit.holds({"speedup": 2.2})


def test_another_order_of_rows_is_noticed(common):
    rows = [torch.tensor([[1, 2]]), torch.tensor([[3, 4]])]
    seen = {}
    for name, order in {"a": [0, 1], "same": [0, 1], "other": [1, 0]}.items():
        witness = common.Witness(lambda given: {"input_ids": given[0]})
        for row in order:
            witness([rows[row]])
        seen[name] = [{"digest": witness.digest}]
    common.same_batches({name: seen[name] for name in ("a", "same")})
    with pytest.raises(SystemExit):
        common.same_batches(seen)
