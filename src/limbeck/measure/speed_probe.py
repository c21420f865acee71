"""The process that times one model: a job as JSON on stdin, a Speed as one JSON line on stdout.

A translation may become as long as twice the longest source of its batch and 16 tokens more. Its time includes both
ways through the tokenizer, since users pay for them.
"""

from __future__ import annotations

import gc
import json
import math
import sys
import time
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any

from limbeck.engines.ctranslate2 import find_facts
from limbeck.measure.machine import peak_rss

WARM_UP = 10
Answer = Callable[[list[list[str]]], object]  # texts and their pairs → whatever the engine gives
Writer = Callable[[list[list[str]]], list[str]]
NAMES = {"float32": "fp32", "int8_float32": "int8"}  # CTranslate2's name → what people say


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


def writes(config: Any) -> bool:
    """Whether the saved model reads one text and writes another; a BART that classifies does not."""
    saved = (config.architectures or [""])[0]
    return bool(config.is_encoder_decoder) and ("For" not in saved or saved.endswith("ForConditionalGeneration"))


def longest_of(source: int) -> int:
    return 2 * source + 16


def by_generate(folder: str, config: Any, tokenizer: Any, max_length: int, beam: int) -> Writer:
    import torch
    import transformers

    from limbeck.students.sizes import clip_max_length

    model: Any = transformers.AutoModelForSeq2SeqLM.from_pretrained(folder, dtype=torch.float32).eval()
    read = min(max_length, clip_max_length(tokenizer, model).model_max_length)
    room = getattr(config, "max_position_embeddings", None) or longest_of(read) + 1  # T5 has no last place
    # A beam ends once it has as many texts as it is wide, which is CTranslate2's rule: both do the same work.
    search = {"num_beams": beam, "do_sample": False, "early_stopping": beam > 1}

    def write(texts: list[list[str]]) -> list[str]:
        sources = [text for text, _ in texts]
        inputs = tokenizer(sources, truncation=True, max_length=read, padding=True, return_tensors="pt")
        words, mask = inputs["input_ids"], inputs["attention_mask"]
        length = min(longest_of(words.shape[1]), room - 1)  # the start takes a place
        with torch.inference_mode():
            written = model.generate(input_ids=words, attention_mask=mask, max_new_tokens=length, **search)
        return list(tokenizer.batch_decode(written, skip_special_tokens=True))

    return write


def by_ctranslate2(folder: str, threads: int, max_length: int, beam: int) -> tuple[str, Writer]:
    """The engine's name with the precision in which the folder keeps the weights, and how it writes.

    Every thread writes a part of the batch, as when Limbeck translates: threads that share the products of a small
    model wait for each other longer than they multiply."""
    import transformers

    ctranslate2: Any = import_module("ctranslate2")  # it has no types
    tokenizer: Any = transformers.AutoTokenizer.from_pretrained(folder)
    translator: Any = ctranslate2.Translator(folder, device="cpu", inter_threads=threads, intra_threads=1)
    facts = find_facts(folder)
    prefix, room = facts.get("prefix"), facts.get("reads", tokenizer.model_max_length)
    search = {"beam_size": beam, "suppress_sequences": facts.get("banned") or None, "min_decoding_length": 0}

    def write(texts: list[list[str]]) -> list[str]:
        sources = [text for text, _ in texts]
        ids = tokenizer(sources, truncation=True, max_length=min(max_length, room))["input_ids"]
        words = [tokenizer.convert_ids_to_tokens(of_one) for of_one in ids]
        length = min(longest_of(max(map(len, words))), room - 1)
        starts = [prefix] * len(words) if prefix else None
        part = math.ceil(len(words) / threads)
        found = translator.translate_batch(
            words, target_prefix=starts, max_decoding_length=length, max_batch_size=part, **search
        )
        best = [tokenizer.convert_tokens_to_ids(one.hypotheses[0]) for one in found]
        return list(tokenizer.batch_decode(best, skip_special_tokens=True))

    return f"ctranslate2 {NAMES.get(translator.compute_type, translator.compute_type)}", write


if __name__ == "__main__":
    main()
