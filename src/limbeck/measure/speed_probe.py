"""The process that times one model: a job as JSON on stdin, a Speed as one JSON line on stdout."""

from __future__ import annotations

import gc
import json
import sys
import time
from pathlib import Path
from typing import Any

from limbeck.measure.memory import peak_rss
from limbeck.measure.speed_translate import Answer, by_ctranslate2, by_generate, writes

WARM_UP = 10


def main() -> None:
    job = json.load(sys.stdin)
    how = job["folder"], job["threads"], job["max_length"], job["beam"]
    engine, answer = by_ctranslate2(*how) if job["engine"] == "ctranslate2" else ("torch fp32", _load(*how))
    result = measure(answer, job["texts"], job["rounds"], job["batch"])
    peak = {"peak_bytes": peak_rss()}
    settings = {"engine": engine, "threads": job["threads"], "batch": job["batch"], "rounds": job["rounds"]}
    sys.stdout.write("\n" + json.dumps({**settings, **result, **peak}) + "\n")


def measure(answer: Answer, texts: list[list[str]], rounds: int, batch: int) -> dict[str, float]:
    """Latency of single texts spread evenly over all, and throughput over all in batches of like length."""
    import numpy as np

    stride = max(1, len(texts) // rounds)
    singles = [texts[i * stride % len(texts)] for i in range(rounds)]
    by_length = sorted(texts, key=lambda both: -len(both[0]) - len(both[1]))
    batches = [by_length[start : start + batch] for start in range(0, len(texts), batch)]
    gc.collect()
    gc.disable()
    for text in singles[:WARM_UP]:
        answer([text])
    milliseconds = [1000 * _seconds(answer, [text]) for text in singles]
    answer(batches[0])
    seconds = sum(_seconds(answer, texts) for texts in batches)
    gc.enable()
    p50, p95 = np.percentile(milliseconds, [50, 95])
    return {"p50_ms": float(p50), "p95_ms": float(p95), "sentences_per_second": len(texts) / seconds}


def _seconds(answer: Answer, texts: list[list[str]]) -> float:
    start = time.perf_counter()
    answer(texts)
    return time.perf_counter() - start


def _load(folder: str, threads: int, max_length: int, beam: int) -> Answer:
    import torch
    import transformers

    from limbeck.students.families import register_if_ours
    from limbeck.students.sizes import clip_max_length

    register_if_ours(Path(folder))
    torch.set_num_threads(threads)
    tokenizer: Any = transformers.AutoTokenizer.from_pretrained(folder)
    if tokenizer.pad_token is None:
        tokenizer.pad_token = tokenizer.eos_token
    config: Any = transformers.AutoConfig.from_pretrained(folder)
    if writes(config):
        return by_generate(folder, config, tokenizer, max_length, beam)
    saved = (config.architectures or [""])[0]
    task = saved[saved.find("For") :] if "For" in saved else "ForSequenceClassification"
    architecture: Any = getattr(transformers, saved, None) or getattr(transformers, f"AutoModel{task}")
    model: Any = architecture.from_pretrained(folder, dtype=torch.float32).eval()
    length = min(max_length, clip_max_length(tokenizer, model).model_max_length)

    def answer(texts: list[list[str]]) -> None:
        first = [text for text, _ in texts]
        second = [pair for _, pair in texts] if any(pair for _, pair in texts) else None
        inputs = tokenizer(first, second, truncation=True, max_length=length, padding=True, return_tensors="pt")
        with torch.inference_mode():
            model(**inputs)[0].numpy()  # logits, or of a reader those of the start

    return answer


if __name__ == "__main__":
    main()
