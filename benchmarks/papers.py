"""Papers' experiments in full, as `limbeck reproduce` runs them; their Records and pages go to results/.

    .venv/bin/python benchmarks/papers.py [hinton-mnist] [lottery-mnist] [bert-tickets]

Reads ../shared/data. Without a name all are run, one after the other; what is finished in runs/reproduce is not done
again. The Record of hinton-mnist is results/hinton_mnist.json.
"""

from __future__ import annotations

import sys

from limbeck.experiments import find
from story import HOME, publish, reproduced

DATA = HOME.parents[1] / "shared" / "data"
PAPERS = {"hinton-mnist": DATA / "mnist", "lottery-mnist": DATA / "mnist", "bert-tickets": DATA}

if __name__ == "__main__":
    for name in sys.argv[1:] or PAPERS:
        record = reproduced(name, PAPERS[name], HOME.parent / find(name).place(quick=False))
        publish(record.but(samples=[]), name.replace("-", "_"))
