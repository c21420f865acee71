"""Which process this is, from the environment or from a group that is initialised."""

import subprocess
import sys

import pytest

from limbeck.core.process import barrier, is_main, main_first, rank, world_size


def test_one_process_alone_is_the_main_one(monkeypatch):
    for name in ("RANK", "WORLD_SIZE"):
        monkeypatch.delenv(name, raising=False)
    assert (rank(), world_size(), is_main()) == (0, 1, True)
    barrier()
    with main_first():
        pass


def test_torchrun_says_which_it_is(monkeypatch):
    monkeypatch.setenv("RANK", "3")
    monkeypatch.setenv("WORLD_SIZE", "4")
    assert (rank(), world_size(), is_main()) == (3, 4, False)
    with pytest.raises(KeyError), main_first():
        raise KeyError


def test_knowing_it_needs_no_torch():
    code = "import sys, limbeck.core.process as p; p.barrier(); sys.exit('torch' in sys.modules or not p.is_main())"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


PAIR = """
import sys, time
from pathlib import Path
import torch.distributed as distributed
from limbeck.core.process import is_main, main_first, rank, world_size
place, number = Path(sys.argv[1]), int(sys.argv[2])
distributed.init_process_group("gloo", init_method=f"file://{place}/meet", rank=number, world_size=2)
assert (rank(), world_size()) == (number, 2)
with main_first():
    if is_main():
        time.sleep(0.3)
        (place / "made").touch()
    assert (place / "made").exists()
distributed.destroy_process_group()
"""


@pytest.mark.slow
def test_the_main_process_goes_first(tmp_path):
    both = [subprocess.Popen([sys.executable, "-c", PAIR, tmp_path, str(number)]) for number in (1, 0)]
    assert [process.wait() for process in both] == [0, 0]
