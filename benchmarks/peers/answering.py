"""One way to answer texts, in a process of its own: how long it takes, one by one, and how often it is right.

    python answering.py ENGINE FOLDER TEXTS.json

TEXTS.json has the lists `texts` and `labels`, and further lists of texts by name; each is timed. Tokenising counts. The
times of a list and the accuracy come as one JSON line. The engines are written as their own documentation has them.
"""

from __future__ import annotations

import json
import os
import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path

WARM_UP = 20
Answer = Callable[[str], int]


def torch(folder: Path) -> Answer:
    import torch
    from transformers import AutoModelForSequenceClassification, AutoTokenizer

    torch.set_num_threads(1)
    tokenizer = AutoTokenizer.from_pretrained(folder)
    model = AutoModelForSequenceClassification.from_pretrained(folder).eval()

    @torch.inference_mode()
    def answer(text: str) -> int:
        inputs = tokenizer(text, truncation=True, max_length=128, return_tensors="pt")
        return int(model(**inputs).logits.argmax())

    return answer


def limbeck(folder: Path) -> Answer:
    import limbeck_runtime

    model = limbeck_runtime.load(folder, threads=1)
    labels = {label: place for place, label in enumerate(model.labels)}
    return lambda text: labels[str(model.predict([text])[0]["label"])]


def _encoder(folder: Path) -> Callable[[str], dict[str, object]]:
    import numpy as np
    from tokenizers import Tokenizer

    tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
    tokenizer.no_padding()
    tokenizer.enable_truncation(128)

    def encode(text: str) -> dict[str, object]:
        found = tokenizer.encode(text)
        parts = {"input_ids": found.ids, "attention_mask": found.attention_mask, "token_type_ids": found.type_ids}
        return {name: np.array([ids], dtype=np.int64) for name, ids in parts.items()}

    return encode


def onnxruntime(folder: Path) -> Answer:
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    session = onnxruntime.InferenceSession(folder / "model.onnx", options, providers=["CPUExecutionProvider"])
    encode = _encoder(folder)
    return lambda text: int(session.run(["logits"], encode(text))[0].argmax())


def openvino(folder: Path) -> Answer:
    import openvino

    settings = {"INFERENCE_NUM_THREADS": 1, "PERFORMANCE_HINT": "LATENCY"}
    model = openvino.Core().compile_model(folder / "model.onnx", "CPU", settings)
    encode = _encoder(folder)
    return lambda text: int(model(encode(text))[0].argmax())


def model2vec(folder: Path) -> Answer:
    import numpy as np
    from model2vec import StaticModel

    model = StaticModel.from_pretrained(folder)
    head = np.load(folder / "head.npz")
    return lambda text: int((model.encode([text])[0] @ head["weight"].T + head["bias"]).argmax())


ENGINES = {made.__name__: made for made in (torch, limbeck, onnxruntime, openvino, model2vec)}


def milliseconds(answer: Answer, texts: list[str]) -> tuple[list[float], list[int]]:
    times, answers = [], []
    for text in texts:
        began = time.perf_counter()
        answers.append(answer(text))
        times.append(1000 * (time.perf_counter() - began))
    return times, answers


def main() -> None:
    os.environ["TOKENIZERS_PARALLELISM"] = "false"
    engine, folder, given = sys.argv[1], Path(sys.argv[2]), json.loads(Path(sys.argv[3]).read_text())
    answer = ENGINES[engine](folder)
    labels, texts = given.pop("labels"), given["texts"]
    milliseconds(answer, texts[:WARM_UP])
    found = {}
    for name, some in given.items():
        times, answers = milliseconds(answer, some)
        found[f"{name}_ms"] = statistics.median(times)
        if name == "texts":
            found["accuracy"] = statistics.fmean(ours == label for ours, label in zip(answers, labels, strict=True))
            found["p95_ms"] = statistics.quantiles(times, n=20)[-1]
    print(json.dumps(found))


if __name__ == "__main__":
    main()
