"""What a user would make of a fine-tuned classifier without Limbeck; each by its own documented way.

    python small_files.py TEACHER DATA OUT

- float: torch's own ONNX export.
- int8: `onnxruntime.quantization.quantize_dynamic` of it, weights per channel.
- optimised-int8: the same after `onnxruntime.transformers.optimizer`.
- model2vec: static vectors of the teacher's encoder, in 256 dimensions, and a logistic regression on all training rows.
"""

from __future__ import annotations

import gzip
import shutil
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    import torch
    from model2vec import StaticModel

DIMENSIONS, SIF = 256, 1e-4  # Model2Vec's own


def to_onnx(teacher: Path, out: Path) -> None:
    import torch
    from transformers import AutoModelForSequenceClassification, AutoTokenizer

    model = AutoModelForSequenceClassification.from_pretrained(teacher, attn_implementation="eager").eval()
    model.config.return_dict = False
    given = AutoTokenizer.from_pretrained(teacher)(["a lovely film", "dull"], padding=True, return_tensors="pt")
    names = ["input_ids", "attention_mask", "token_type_ids"]
    torch.onnx.export(
        model,
        tuple(given[name] for name in names),
        str(out / "model.onnx"),
        input_names=names,
        output_names=["logits"],
        dynamic_axes={name: {0: "batch", 1: "length"} for name in names} | {"logits": {0: "batch"}},
        opset_version=17,
        dynamo=False,
    )


def to_int8(source: Path, out: Path) -> None:
    import onnx
    from onnxruntime.quantization import QuantType, quantize_dynamic

    known = {"DefaultTensorType": onnx.TensorProto.FLOAT}  # of what the optimiser's own operators give
    quantize_dynamic(source, out / "model.onnx", per_channel=True, weight_type=QuantType.QInt8, extra_options=known)


def optimised(source: Path, teacher: Path, path: Path) -> Path:
    from onnxruntime.transformers.optimizer import optimize_model
    from transformers import AutoConfig

    config = AutoConfig.from_pretrained(teacher)
    sizes = {"num_heads": config.num_attention_heads, "hidden_size": config.hidden_size}
    optimize_model(str(source), model_type="bert", **sizes).save_model_to_file(str(path))
    return path


def to_model2vec(teacher: Path, data: Path, out: Path) -> None:
    """As its own `distill`, which does not install beside today's transformers: every piece alone through the encoder,
    the mean of its states, principal components, a weight that falls with frequency (by rank, after Zipf)."""
    import torch
    from model2vec import StaticModel
    from tokenizers import Tokenizer
    from transformers import AutoModel

    tokenizer = Tokenizer.from_file(str(teacher / "tokenizer.json"))
    tokenizer.no_padding()
    encoder = AutoModel.from_pretrained(teacher).eval()
    size = tokenizer.get_vocab_size()
    start, end = (tokenizer.token_to_id(name) for name in ("[CLS]", "[SEP]"))
    with torch.inference_mode():
        pieces = torch.tensor([[start, piece, end] for piece in range(size)])
        states = torch.cat([encoder(input_ids=some).last_hidden_state.mean(1) for some in pieces.split(256)])
        states = states - states.mean(0)
        vectors = states @ torch.linalg.svd(states, full_matrices=False)[2][:DIMENSIONS].T
        chance = 1 / torch.arange(2, size + 2) / torch.log(torch.tensor(float(size)))
        vectors = vectors * (SIF / (SIF + chance))[:, None]
    model = StaticModel(vectors.numpy().astype(np.float32), tokenizer, normalize=True)
    model.save_pretrained(str(out))
    weight, bias = _logistic(model, data)
    np.savez(out / "head.npz", weight=weight, bias=bias)


def _logistic(model: StaticModel, data: Path) -> tuple[np.ndarray, np.ndarray]:
    """The head of two classes with the least loss on all training rows, and a little weight decay."""
    import torch

    with gzip.open(data / "train.tsv.gz", "rt", encoding="utf-8") as lines:
        rows = [line.rstrip("\n").split("\t", 1) for line in lines][1:]
    x = torch.from_numpy(model.encode([text for _, text in rows])).float()
    y = torch.tensor([int(label) for label, _ in rows])
    head = torch.nn.Linear(x.shape[1], 2)
    solver = torch.optim.LBFGS(head.parameters(), max_iter=300, line_search_fn="strong_wolfe")

    def loss() -> torch.Tensor:
        solver.zero_grad()
        found = torch.nn.functional.cross_entropy(head(x), y) + 1e-6 * head.weight.square().sum()
        found.backward()
        return found

    solver.step(loss)
    return head.weight.detach().numpy(), head.bias.detach().numpy()


def main() -> None:
    teacher, data, out = map(Path, sys.argv[1:])
    for name in ("float", "int8", "optimised-int8", "model2vec"):
        (out / name).mkdir(parents=True, exist_ok=True)
    for name in ("float", "int8", "optimised-int8"):
        shutil.copy(teacher / "tokenizer.json", out / name)
        shutil.copy(teacher / "config.json", out / name)
    to_onnx(teacher, out / "float")
    to_int8(out / "float" / "model.onnx", out / "int8")
    better = optimised(out / "float" / "model.onnx", teacher, out / "optimised.onnx")
    to_int8(better, out / "optimised-int8")
    better.unlink()
    to_model2vec(teacher, data, out / "model2vec")
    (out / "done").touch()


if __name__ == "__main__":
    main()
