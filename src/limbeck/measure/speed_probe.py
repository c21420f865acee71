"""The process that times one model. It reads a job as one line of JSON on stdin, and answers with lines of JSON:

    {"engine": …, "load_ms": …, "text_seconds": …, …}       once the model is loaded and has answered a few texts
    {"rounds": …, "texts": …} on stdin                      one turn; until stdin ends
    {"done": 0.4}                                           how far the turn is, about once a second
    {"p50_ms": …, "waited": …, …}                           what it found

A translation may become as long as twice the longest source of its batch and 16 tokens more. Its time includes both
ways through the tokenizer, since users pay for them. The first answer is timed from the start of the process, so what
only some engines need is imported for these.
"""

from __future__ import annotations

import gc
import json
import math
import os
import sys
import time
from collections.abc import Callable, Mapping
from importlib import import_module
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

from limbeck.core.image_processor import FILE as IMAGE_PROCESSOR
from limbeck.core.image_processor import ImageProcessor
from limbeck.measure.machine import peak_rss, queued_seconds

WARM_UP = 10
LEAST_ROUNDS = 20  # fewer tell nothing of a 95th percentile
EVERY = 1.0  # seconds between reports: each wakes the process that reads it
Texts = list[list[str]]  # each with its pair, "" where there is none
Answer = Callable[[Texts, int], object]  # whatever the engine gives, of so many tokens of each text
Writer = Callable[[Texts], list[str]]
Report = Callable[[float], object]
NAMES = {"float32": "fp32", "float16": "fp16", "int8_float32": "int8"}  # an engine's name → what people say
TORCH = "torch fp32"
NONE: Mapping[int, Texts] = MappingProxyType({})


def main() -> None:
    lines = os.fdopen(os.dup(1), "w", buffering=1, encoding="utf-8")
    os.dup2(2, 1)  # what libraries print is no answer

    def tell(**answer: object) -> None:
        lines.write(json.dumps(answer) + "\n")

    job = json.loads(sys.stdin.readline())
    found = load(job["engine"], job["folder"], job["threads"], job["max_length"], job["beam"])
    answer, texts, longest = found.answer, job["texts"], job["max_length"]
    answer(texts[:1], longest)
    # The clock that says when another process started this one: monotonic time is the machine's, not a process's.
    load_ms = 1000 * (time.monotonic() - job["started"])
    lengths = {length: words_at(texts, length) for length in job["lengths"] if length <= found.reads}
    looked = first_look(answer, texts, job["batch"], longest, lengths)
    tell(engine=found.engine, load_ms=load_ms, **looked)
    for line in sys.stdin:
        turn = json.loads(line)
        chosen = spread(texts, turn["texts"])
        figures = measure(
            *(answer, chosen, turn["rounds"], job["batch"], lambda share: tell(done=share), longest, lengths)
        )
        tell(**figures, peak_bytes=peak_rss())


class Loaded(NamedTuple):
    engine: str
    answer: Answer
    reads: int  # tokens at once; 0 for what is not timed by length


def load(engine: str, folder: str, threads: int, max_length: int, beam: int) -> Loaded:
    if engine in ("onnx", "numpy"):
        return by_onnx(folder, threads)
    if engine == "ctranslate2":
        name, write = by_ctranslate2(folder, threads, max_length, beam)
        return Loaded(name, lambda texts, _: write(texts), 0)
    return by_torch(folder, threads, max_length, beam)


def words_at(texts: Texts, length: int) -> Texts:
    """Texts of so many words of the given ones, which are at least as many tokens; an engine cuts the rest off."""
    words = [word for both in texts for text in both for word in text.split()] or ["a"]
    words *= 1 + length // len(words)
    starts = range(0, len(words) - length + 1, length)
    return [[" ".join(words[start : start + length]), ""] for start in starts]


def spread(texts: Texts, count: int) -> Texts:
    """So many texts, evenly over all; again from the first where there are fewer."""
    stride = max(1, len(texts) // count)
    return [texts[i * stride % len(texts)] for i in range(count)]


def in_batches(texts: Texts, batch: int) -> list[Texts]:
    """Batches of like length, the longest first."""
    by_length = sorted(texts, key=lambda both: -len(both[0]) - len(both[1]))
    return [by_length[start : start + batch] for start in range(0, len(texts), batch)]


def first_look(
    answer: Answer, texts: Texts, batch: int, longest: int = 0, lengths: Mapping[int, Texts] = NONE
) -> dict[str, float]:
    """About what a text, a batch and one text of every length take, to tell how long a turn will."""
    few, batches = spread(texts, 3), in_batches(texts, batch)
    for once in (few[:1], batches[0]):  # the first time is slower
        answer(once, longest)
    one = sum(_seconds(answer, [text], longest) for text in few) / len(few)
    each = sum(_seconds(answer, some[:1], length) for length, some in lengths.items())
    middle = _seconds(answer, batches[len(batches) // 2], longest)
    return {"text_seconds": one, "batch_seconds": middle, "lengths_seconds": each}


def measure(
    answer: Answer,
    texts: Texts,
    rounds: int,
    batch: int,
    report: Report = lambda share: None,
    longest: int = 0,
    lengths: Mapping[int, Texts] = NONE,
) -> dict[str, Any]:
    """Latency of single texts spread evenly over all, and throughput over all in batches of like length; and latency
    of texts of some lengths.

    `waited` is the share of the time in which this process could have worked, had others left it a core."""
    import numpy as np

    singles, batches = spread(texts, rounds), in_batches(texts, batch)
    gc.collect()
    gc.disable()
    part, waits = 1 / (2 + len(lengths)), []

    def one_by_one(some: Texts, length: int, done: float) -> list[float]:
        """Milliseconds at the 50th, 95th and 99th percentile."""
        for text in some[:WARM_UP]:
            answer([text], length)
        seconds, waited = _each(answer, [[text] for text in some], length, lambda share: report(done + share * part))
        waits.append(waited)
        return [float(1000 * each) for each in np.percentile(seconds, [50, 95, 99])]

    p50, p95, p99 = one_by_one(singles, longest, 0.0)
    answer(batches[0], longest)
    seconds, waited = _each(answer, batches, longest, lambda share: report((1 + share) * part))
    waits.append(waited)
    by_length = []
    for number, (length, some) in enumerate(lengths.items(), 2):
        middle, high, _ = one_by_one(spread(some, length_rounds(rounds)), length, number * part)
        by_length.append({"tokens": length, "p50_ms": middle, "p95_ms": high})
    gc.enable()
    figures = {"p50_ms": p50, "p95_ms": p95, "p99_ms": p99, "sentences_per_second": len(texts) / sum(seconds)}
    return {**figures, "by_length": by_length, "waited": max(waits)}


def length_rounds(rounds: int) -> int:
    """Texts of each length in a turn: a quarter, but no fewer than a 95th percentile takes, unless all are fewer."""
    return min(rounds, max(LEAST_ROUNDS, rounds // 4))


def _each(answer: Answer, groups: list[Texts], length: int, report: Report) -> tuple[list[float], float]:
    """The seconds of each, and the share of them all in which this process waited for a core.

    A model computes without a pause: where CPU time falls behind the clock, another process had the core. Several
    threads can hide that, since those that wait for each other may count as busy; the scheduler's count does not."""
    queued, cpu, seconds, told = queued_seconds(), time.process_time(), list[float](), time.perf_counter()
    for number, texts in enumerate(groups):
        seconds.append(_seconds(answer, texts, length))
        if (now := time.perf_counter()) - told > EVERY:
            told = now
            report((number + 1) / len(groups))
    wall = max(sum(seconds), 1e-9)
    behind, queued = wall - (time.process_time() - cpu), queued_seconds() - queued
    return seconds, max(behind, queued, 0.0) / wall


def _seconds(answer: Answer, texts: Texts, length: int) -> float:
    start = time.perf_counter()
    answer(texts, length)
    return time.perf_counter() - start


def by_onnx(folder: str, threads: int) -> Loaded:
    import limbeck_runtime

    model = limbeck_runtime.load(folder, threads)
    precision = NAMES.get(model.facts.precision, model.facts.precision)

    def answer(texts: Texts, length: int) -> None:
        pairs = [pair for _, pair in texts] if any(pair for _, pair in texts) else None
        model.logits([text for text, _ in texts], pairs, max_length=length, batch_size=len(texts))

    return Loaded(f"{model.facts.engine} {precision}", answer, model.facts.max_length)


def by_torch(folder: str, threads: int, max_length: int, beam: int) -> Loaded:
    import torch
    import transformers

    from limbeck.students.families import register_if_ours
    from limbeck.students.sizes import clip_max_length

    register_if_ours(Path(folder))
    torch.set_num_threads(threads)
    if (Path(folder) / IMAGE_PROCESSOR).is_file():
        return of_images(folder)
    tokenizer: Any = transformers.AutoTokenizer.from_pretrained(folder)
    if tokenizer.pad_token is None:
        tokenizer.pad_token = tokenizer.eos_token
    config: Any = transformers.AutoConfig.from_pretrained(folder)
    if writes(config):
        write = by_generate(folder, config, tokenizer, max_length, beam)
        return Loaded(TORCH, lambda texts, _: write(texts), 0)
    saved = (config.architectures or [""])[0]
    task = saved[saved.find("For") :] if "For" in saved else "ForSequenceClassification"
    architecture: Any = getattr(transformers, saved, None) or getattr(transformers, f"AutoModel{task}")
    model: Any = architecture.from_pretrained(folder, dtype=torch.float32).eval()
    reads = clip_max_length(tokenizer, model).model_max_length

    def answer(texts: Texts, length: int) -> None:
        first = [text for text, _ in texts]
        second = [pair for _, pair in texts] if any(pair for _, pair in texts) else None
        cut = {"truncation": True, "max_length": min(length, reads)}
        inputs = tokenizer(first, second, **cut, padding=True, return_tensors="pt")
        with torch.inference_mode():
            model(**inputs)[0].numpy()  # logits, or of a reader those of the start

    return Loaded(TORCH, answer, reads)


def of_images(folder: str) -> Loaded:
    """Images come as lines of letters, and decoding them is part of the time, as tokenisation is of a text's."""
    import numpy as np
    import torch
    import transformers

    from limbeck.data.image.encoded import from_text

    processor = ImageProcessor.from_pretrained(folder)
    opened: Any = transformers.AutoModelForImageClassification.from_pretrained(folder, dtype=torch.float32)
    model = opened.eval()

    def answer(images: Texts, length: int) -> None:
        with torch.inference_mode():
            model(**processor(np.stack([from_text(image) for image, _ in images]))).logits.numpy()

    return Loaded(TORCH, answer, 0)


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

    def write(texts: Texts) -> list[str]:
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

    from limbeck.engines.ctranslate2 import find_facts

    ctranslate2: Any = import_module("ctranslate2")  # it has no types
    tokenizer: Any = transformers.AutoTokenizer.from_pretrained(folder)
    translator: Any = ctranslate2.Translator(folder, device="cpu", inter_threads=threads, intra_threads=1)
    facts = find_facts(folder)
    prefix, room = facts.get("prefix"), facts.get("reads", tokenizer.model_max_length)
    search = {"beam_size": beam, "suppress_sequences": facts.get("banned") or None, "min_decoding_length": 0}

    def write(texts: Texts) -> list[str]:
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
