"""Papers' experiments in full, as `limbeck reproduce` runs them; their Records and pages go to results/.

    .venv/bin/python benchmarks/papers.py [hinton-mnist] [lottery-mnist] [bert-tickets]

Reads ../shared/data. Without a name all are run, one after the other; what is finished in runs/reproduce is not done
again. The Record of hinton-mnist is results/hinton_mnist.json. The encoders' grid is cut to four hours of one core that
has instructions for bfloat16; the page names what was cut.
"""

from __future__ import annotations

import sys

from limbeck.experiments import find
from story import HOME, publish, reproduced

DATA = HOME.parents[1] / "shared" / "data"
PAPERS = {"hinton-mnist": DATA / "mnist", "lottery-mnist": DATA / "mnist", "bert-tickets": DATA}
CUT = {
    "bert-tickets": {
        "precision": "bf16",
        "epochs": 2,
        "all_epochs": 0.3,  # as many steps as two of 10,000 rows
        "head_epochs": 1,
        "blocks": 1200,
        "rounds": 7,
        "seed_rounds": 4,
        "common_sources": "sst2,mrpc,stsb",
        "controls_at": "matching",
    }
}

if __name__ == "__main__":
    for name in sys.argv[1:] or PAPERS:
        record = reproduced(name, PAPERS[name], HOME.parent / find(name).place(quick=False), CUT.get(name, {}))
        publish(record.but(samples=[]), name.replace("-", "_"))
