"""A saved model as a folder that another engine runs: whole and proved, or not there.

    model.onnx  config.json  tokenizer.json  tokenizer_config.json  limbeck.json

(a static student has static.safetensors in the place of model.onnx)

The config opens in Optimum and names the labels; limbeck.json says the rest: what goes in and out, the longest text,
the parent's fingerprint, how well the file answers as its parent, and a checksum of every other file.
"""

from __future__ import annotations

import json
import shutil
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from limbeck.core.checksum import FILES, checksums, sealed
from limbeck.core.errors import LimbeckError, ModelError
from limbeck.core.files import atomic_folder
from limbeck.core.fingerprint import fingerprint
from limbeck.core.progress import ProgressItem, Silent, Watcher, no_progress_bars
from limbeck.core.task import ENCODER_KINDS, Kind, TaskInfo
from limbeck.data.settings import DataSettings
from limbeck.data.text.examples import timing_texts
from limbeck.exporters.targets import Target, check_target
from limbeck.measure.size import count_parameters
from limbeck.students.load import kind_of, labels_in, load_saved
from limbeck.students.model_folder import find_folder
from limbeck_runtime.folder import FACTS, GRAPH, NUMPY, ONNX

if TYPE_CHECKING:
    from transformers import PreTrainedModel, PreTrainedTokenizerBase

    from limbeck.exporters.reference import Reference

FORMAT = 1
EXPORTING = "exporting"
_BITS = {"onnx-int8": 8, "onnx-int4": 4}
_NO_LIMIT = 512  # tokens read by a model that has no places to run out of
_PREFIXES = ("limbeck-compressed-", "limbeck-shared-")  # of model types that are ours


@dataclass(frozen=True)
class Exported:
    path: Path
    kind: Kind
    engine: str
    precision: str
    figures: dict[str, float] = field(default_factory=dict)  # bytes, and the parity with its source


def export(
    folder: Path | str,
    to: Target,
    out: Path | str,
    rows: Sequence[tuple[str, str]] = (),
    labels: Sequence[Any] = (),
    watcher: Watcher = Silent(),  # noqa: B008
) -> Exported:
    """A save_pretrained folder for another engine, in `out`, which must not be there yet.

    `rows` (text, and pair or "") are what answers are compared on, best the user's own; with `labels`, as numbers, the
    quality of both is told. Where an export does not answer as its source, nothing is written."""
    folder, out = find_folder(folder), Path(out).expanduser()
    check_target(to, out)
    watcher.plan([ProgressItem(EXPORTING, 1.0)])
    if to == "ctranslate2":
        return _to_ctranslate2(folder, out, [text for text, _ in rows or own_rows("translate")])
    from limbeck.exporters.static import check_static, is_static

    model, tokenizer = load_saved(folder)
    kind = _encoder_kind(folder, model)
    check_static(folder, model, to)
    source = _Source(folder, model, tokenizer, fast_tokenizer(folder, tokenizer), info_of(model, kind))
    write = _to_numpy if is_static(model) else _to_onnx
    exported = write(source, to, out, rows or own_rows(kind), labels, watcher)
    watcher.at(EXPORTING, 1.0)
    return exported


@dataclass(frozen=True)
class _Source:
    """What is exported."""

    folder: Path
    model: PreTrainedModel
    tokenizer: PreTrainedTokenizerBase
    backend: Any
    info: TaskInfo

    def reference(self, rows: Sequence[tuple[str, str]], labels: Sequence[Any]) -> Reference:
        from limbeck.exporters.reference import Reference

        return Reference.of(self.model, self.tokenizer, self.info, rows, labels)

    def write_beside(self, part: Path, facts: dict[str, Any]) -> None:
        """What lies beside the network: the tokenizer, and what it is for. Last the facts, with all checksums."""
        _write_tokenizer(part, self.tokenizer, self.backend)
        _write_json(part / FACTS, sealed({**facts, FILES: checksums(part)}))


def info_of(model: PreTrainedModel, kind: Kind) -> TaskInfo:
    return TaskInfo(kind=kind, labels=() if kind == "mask-fill" else labels_in(model.config))


def _to_onnx(
    source: _Source,
    to: Target,
    out: Path,
    rows: Sequence[tuple[str, str]],
    labels: Sequence[Any],
    watcher: Watcher,
) -> Exported:
    from limbeck.exporters.onnx import LARGEST, onnx_graph
    from limbeck.exporters.onnx_graph import OPSET
    from limbeck.exporters.onnx_parity import checked_float, quantized

    graph = onnx_graph(source.model, source.tokenizer, source.info.kind)
    watcher.at(EXPORTING, 0.3)
    reference = source.reference(rows, labels)
    watcher.at(EXPORTING, 0.6)
    figures = checked_float(graph, reference)
    if bits := _BITS.get(to):
        graph, figures = quantized(graph, reference, bits, watcher)
    watcher.at(EXPORTING, 0.9)
    content = graph.model()
    if content.ByteSize() > LARGEST:
        raise ModelError("the graph has over 2 GB, which is more than a file of ONNX holds", "use --to onnx-int8")
    precision = f"int{bits}" if bits else "float32"
    ends = [each.name for each in content.graph.input], [each.name for each in content.graph.output]
    facts = _facts(source, *ends) | {"opset": OPSET, "engine": ONNX, "precision": precision, "parity": figures}
    _check_room(out, content.ByteSize())
    with atomic_folder(out) as part:
        (part / GRAPH).write_bytes(content.SerializeToString())
        _write_json(part / "config.json", _config(source.model))
        source.write_beside(part, facts)
    return Exported(out, source.info.kind, ONNX, precision, figures | _bytes(source.folder, out))


def _to_numpy(
    source: _Source,
    to: Target,
    out: Path,
    rows: Sequence[tuple[str, str]],
    labels: Sequence[Any],
    watcher: Watcher,
) -> Exported:
    from limbeck.core.layers import dense, layers_of
    from limbeck.exporters.reference import inputs_of
    from limbeck.exporters.static import static_files

    reference = source.reference(rows, labels)
    watcher.at(EXPORTING, 0.6)
    _check_room(out, 4 * source.model.num_parameters())
    precision = "float16" if to == "numpy" else "int8"
    network = dense(source.model) if layers_of(source.model) else source.model
    config = {name: value for name, value in network.config.to_dict().items() if name not in ("auto_map", "dtype")}
    facts = _facts(source, inputs_of(source.model, source.tokenizer), ["logits"])
    with atomic_folder(out) as part:
        figures = static_files(network, to, reference, lambda path: _write_json(path, config), part)
        source.write_beside(part, facts | {"engine": NUMPY, "precision": precision, "parity": figures})
    return Exported(out, source.info.kind, NUMPY, precision, figures | _bytes(source.folder, out))


def _facts(source: _Source, inputs: Sequence[str], outputs: Sequence[str]) -> dict[str, Any]:
    """What whoever answers with the export must know, and where it comes from."""
    info, tokenizer = source.info, source.tokenizer
    facts = {
        "format": FORMAT,
        "kind": info.kind,
        "labels": list(info.labels),
        "inputs": list(inputs),
        "outputs": list(outputs),
        "max_length": tokenizer.model_max_length if tokenizer.model_max_length < 2**31 else _NO_LIMIT,
        "pad_id": tokenizer.pad_token_id or 0,
        "pad_type_id": getattr(tokenizer, "pad_token_type_id", 0),
        "padding_side": tokenizer.padding_side,
        "truncation_side": tokenizer.truncation_side,
        "parent": fingerprint(source.model),
        "parameters": list(count_parameters(source.model)),
    }
    return facts | ({"mask_token": tokenizer.mask_token} if info.kind == "mask-fill" else {})


def own_rows(kind: Kind) -> list[tuple[str, str]]:
    """Texts of ours, where a person has none: of every length, beginning at every word."""
    words = max((text for text, _ in timing_texts(DataSettings())), key=len).split()
    texts = [" ".join((words[n:] + words[:n])[: 2 + 5 * (n % 12)]) for n in range(len(words))]
    return [(text, " ".join(reversed(text.split())) if kind == "answer" else "") for text in texts]


def fast_tokenizer(folder: Path, tokenizer: PreTrainedTokenizerBase) -> Any:
    """What tokenizer.json is written from."""
    backend = getattr(tokenizer, "backend_tokenizer", None)
    if backend is None:
        raise ModelError(
            f"the tokenizer of {folder}, a {type(tokenizer).__name__}, cannot be written as tokenizer.json",
            "use a model with a fast tokenizer; many slow ones are converted by AutoTokenizer.from_pretrained("
            "folder, use_fast=True).save_pretrained(folder)",
        )
    return backend


def _encoder_kind(folder: Path, model: PreTrainedModel) -> Kind:
    kind = kind_of(model) or ("regress" if model.config.num_labels == 1 else "classify")
    if kind in ENCODER_KINDS:
        return kind
    what, remedy = {
        "translate": ("a translator", "use --to ctranslate2"),
        "image": ("a model of images", "export an encoder of texts; a network of images runs in transformers"),
    }.get(kind, ("a causal language model", "export an encoder; a language model runs in transformers"))
    raise ModelError(f"{folder} is {what}, which is not exported to ONNX", remedy)


def _config(model: PreTrainedModel) -> dict[str, Any]:
    """As Optimum and transformers open it: under the architecture's own name, or BERT's, for a graph needs none."""
    config = {name: value for name, value in model.config.to_diff_dict().items() if name not in ("auto_map", "dtype")}
    kind = str(config.get("model_type", model.config.model_type))
    for prefix in _PREFIXES:
        kind = kind.removeprefix(prefix)
    config["model_type"] = "bert" if kind.startswith("limbeck-") else kind
    return config | {"architectures": [type(model).__name__.removeprefix("Shared").removeprefix("Compressed")]}


def _write_tokenizer(part: Path, tokenizer: PreTrainedTokenizerBase, backend: Any) -> None:
    """Without the lengths that some run padded and truncated to, which the file would remember."""
    rules = json.loads(backend.to_str()) | {"padding": None, "truncation": None}
    with tempfile.TemporaryDirectory() as place, no_progress_bars():
        tokenizer.save_pretrained(place)
        settings = json.loads((Path(place) / "tokenizer_config.json").read_text(encoding="utf-8"))
    _write_json(part / "tokenizer.json", rules)
    _write_json(part / "tokenizer_config.json", settings)


def _write_json(path: Path, content: dict[str, Any]) -> None:
    """Without spaces: every byte is shipped."""
    path.write_text(json.dumps(content, ensure_ascii=False, separators=(",", ":")), encoding="utf-8")


def _check_room(out: Path, needed: int) -> None:
    place = next(each for each in out.absolute().parents if each.is_dir())
    free = shutil.disk_usage(place).free
    if needed * 1.1 > free:
        raise LimbeckError(
            f"the export needs about {needed / 1e6:,.1f} MB, but {place} has {free / 1e6:,.1f} MB left",
            "free some space, or choose a folder on another disk with --out",
        )


def _bytes(source: Path, out: Path) -> dict[str, float]:
    """Of all files needed to answer, on both sides."""
    before = [file for file in source.iterdir() if file.suffix in _NEEDED]
    after = [file for file in out.rglob("*") if file.is_file()]
    return {
        "bytes": float(sum(file.stat().st_size for file in after)),
        "source_bytes": float(sum(file.stat().st_size for file in before)),
    }


_NEEDED = (".safetensors", ".json", ".txt", ".model", ".py")


def _to_ctranslate2(folder: Path, out: Path, texts: Sequence[str]) -> Exported:
    from limbeck.exporters.ctranslate2 import convert
    from limbeck.exporters.parity import checked_translator

    with tempfile.TemporaryDirectory(prefix="limbeck-export-") as place:
        figures = checked_translator(folder, convert(folder, Path(place) / "int8"), texts)
        with atomic_folder(out) as part:
            shutil.copytree(Path(place) / "int8", part, dirs_exist_ok=True)
    return Exported(out, "translate", "CTranslate2", "int8", figures | _bytes(folder, out))
