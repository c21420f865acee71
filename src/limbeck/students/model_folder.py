"""Reading a saved model: its folder is checked first, transformers' refusals come in sentences, without its noise.

A folder must hold a config, whole weights and a tokenizer before it is worth opening.
"""

from __future__ import annotations

import difflib
import json
import struct
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from limbeck.core.errors import ModelError
from limbeck.core.files import make_readable
from limbeck.core.image_processor import FILE as IMAGE_PROCESSOR
from limbeck.core.image_processor import ImageProcessor
from limbeck.students.families import register_if_ours
from limbeck.students.sizes import clip_max_length
from limbeck_runtime import is_exported

if TYPE_CHECKING:
    from transformers import PretrainedConfig, PreTrainedModel, PreTrainedTokenizerBase

_AGAIN = "copy or download the model again"
_WEIGHTS = "model.safetensors"
_INDEX = "model.safetensors.index.json"
_PICKLES = ("pytorch_model.bin", "pytorch_model.bin.index.json", "model.bin")
_TOKENIZERS = (
    *("tokenizer.json", "vocab.txt", "vocab.json"),
    *("spiece.model", "spm.model", "sentencepiece.bpe.model", "tokenizer.model"),
)
# What transformers raises when a file is not what it takes it for: a damaged config.json ends in any of these.
_OF_TRANSFORMERS = (
    *(OSError, ValueError, RuntimeError, ImportError, LookupError, TypeError),
    *(AttributeError, ArithmeticError, AssertionError),
)
_HUB_FILES = ["*.json", "*.safetensors", "*.txt", "*.model", "*.spm", "*.py"]


@contextmanager
def quiet() -> Iterator[None]:
    """No progress bars, log lines or warnings from transformers inside; as before afterwards."""
    from transformers.utils import logging

    verbosity, bars = logging.get_verbosity(), logging.is_progress_bar_enabled()
    logging.set_verbosity(logging.CRITICAL)
    logging.disable_progress_bar()
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        logging.set_verbosity(verbosity)
        if bars:
            logging.enable_progress_bar()


def save_folder(network: PreTrainedModel, processor: Any, folder: Path) -> None:
    """Network and tokenizer; not the lengths to which a run truncated and padded, which a fast tokenizer remembers."""
    from limbeck.core.compressed import declare_layers

    if backend := getattr(processor, "backend_tokenizer", None):
        backend.no_truncation()
        backend.no_padding()
    getattr(processor, "init_kwargs", {}).pop("local_files_only", None)  # how it was opened, not what it is
    for name in ("padding_side", "truncation_side"):  # save_pretrained writes them only as they were when it was made
        made, side = getattr(processor, "init_kwargs", {}), getattr(processor, name, None)
        if side != made.get(name, getattr(type(processor), name, None)):
            made[name] = side
    declare_layers(network)
    network.save_pretrained(folder)
    processor.save_pretrained(folder)
    make_readable(folder)


@contextmanager
def explained_opening(source: str | Path, unknown: str = "") -> Iterator[None]:
    """transformers' own refusals, in a sentence; `unknown` is the remedy for an architecture that lacks the head."""
    try:
        yield
    except _OF_TRANSFORMERS as error:
        raise _cannot_open(str(source), error, unknown) from None


def _cannot_open(what: str, error: Exception, unknown: str = "") -> ModelError:
    first = (str(error).strip() or type(error).__name__).splitlines()[0]
    return ModelError(f"{what} cannot be opened: {first}", _remedy(str(error), unknown))


def _remedy(message: str, unknown: str) -> str:
    if "trust_remote_code" in message:
        return "the model brings its own code; if you have read and trust it, add --trust-remote-code"
    if "sentencepiece" in message.lower() or "tiktoken" in message.lower():
        return "its tokenizer needs SentencePiece: pip install 'limbeck[sentencepiece]'"
    if "does not recognize this architecture" in message:
        return "this transformers does not know the architecture; upgrade it, or use another model"
    if "Unrecognized configuration class" in message and unknown:
        return unknown
    return "check that it is a model saved with save_pretrained, or copy it again"


def read_config(folder: Path, trust_remote_code: bool) -> PretrainedConfig:
    from transformers import AutoConfig

    register_if_ours(folder)
    return AutoConfig.from_pretrained(folder, trust_remote_code=trust_remote_code)


def read_tokenizer(
    folder: Path, trust_remote_code: bool, model: PreTrainedModel | None = None
) -> PreTrainedTokenizerBase:
    """With its model, it gives no more tokens than the model reads. Of an image model, what stands in its place."""
    from transformers import AutoTokenizer

    if not _has_tokenizer(folder) and (folder / IMAGE_PROCESSOR).is_file():
        return ImageProcessor.from_pretrained(folder)
    try:
        tokenizer = AutoTokenizer.from_pretrained(folder, trust_remote_code=trust_remote_code)
    except Exception as error:  # the Rust tokenizer raises bare Exception on a damaged file
        raise _cannot_open(f"the tokenizer in {folder}", error) from None
    return clip_max_length(tokenizer, model) if model is not None else tokenizer


@dataclass(frozen=True)
class Misfit:
    """Names of weights in which a checkpoint and its model differ. Who opens it refuses what it cannot do without."""

    missing: set[str]
    misshapen: set[str]
    surplus: set[str]


def read_model(
    folder: Path, config: PretrainedConfig, trust_remote_code: bool, cls: str | type
) -> tuple[PreTrainedModel, Misfit]:
    """A model of that class, or Auto class of that name. transformers draws what does not fit at random: see Misfit."""
    import torch
    import transformers

    opener: Any = getattr(transformers, cls) if isinstance(cls, str) else cls
    model, info = opener.from_pretrained(
        folder,
        config=config,
        dtype=torch.float32,
        use_safetensors=True,
        trust_remote_code=trust_remote_code,
        ignore_mismatched_sizes=True,
        output_loading_info=True,
    )
    misshapen = {entry[0] for entry in info["mismatched_keys"]}
    return model.eval(), Misfit(set(info["missing_keys"]), misshapen, set(info["unexpected_keys"]))


def model_in(where: str | Path) -> str:
    """The model of a run, where its folder is named; anything else stands for itself."""
    folder = Path(where).expanduser()
    done, begun = ((folder / name).is_file() for name in ("record.json", "run.toml"))
    if not (done or begun) or (folder / "config.json").is_file():
        return str(where)
    for name in ("student", "model"):  # of distill, and of train
        if (folder / name / "config.json").is_file():
            return str(folder / name)
    if begun and not done:
        raise ModelError(f"{folder} holds an unfinished run", "finish it: run its command again with --resume")
    if several := sorted((folder / "arms").glob("*/model")):
        raise ModelError(f"{folder} holds a comparison of several models", f"name one of them, such as {several[0]}")
    return str(where)


def find_folder(where: str | Path) -> Path:
    """The folder at `where`, or the local copy of the hub model of that name. Its files are checked."""
    where = model_in(where)
    folder = Path(where).expanduser()
    if folder.exists():
        if not folder.is_dir():
            raise ModelError(f"{folder} is a file, not a model folder", "give the folder that holds its config.json")
    elif not looks_like_hub(where):
        raise ModelError(f"there is no model folder {where}", _closest(folder))
    else:
        folder = _from_hub(str(where), folder)
    check_folder(folder)
    return folder


def check_folder(folder: Path) -> None:
    """Refuses a folder that is not a model, or whose files are damaged, naming the file."""
    if is_exported(folder):
        raise ModelError(
            f"{folder} is an exported model: it answers (predict, eval, bench), but cannot learn or teach",
            "give the model folder it was exported from",
        )
    if not (folder / "config.json").is_file():
        raise ModelError(f"{folder} is not a model folder: it has no config.json", _nested(folder))
    config = _json(folder / "config.json")
    if not isinstance(config, dict):
        raise ModelError(f"{folder / 'config.json'} is not a model config", _AGAIN)
    if not config.keys() & {"model_type", "architectures"}:
        raise ModelError(f"{folder / 'config.json'} names neither a model_type nor an architecture", _AGAIN)
    for file in weight_files(folder):
        safetensors_header(file)
    if not _has_tokenizer(folder) and not (folder / IMAGE_PROCESSOR).is_file():
        raise ModelError(
            f"{folder} has no tokenizer files (tokenizer.json or a vocabulary)",
            "save the tokenizer beside the model: tokenizer.save_pretrained(folder)",
        )


def _has_tokenizer(folder: Path) -> bool:
    return any((folder / name).is_file() for name in _TOKENIZERS)


def weight_files(folder: Path) -> list[Path]:
    if (folder / _WEIGHTS).is_file():
        return [folder / _WEIGHTS]
    if (folder / _INDEX).is_file():
        index = _json(folder / _INDEX)
        shards = index.get("weight_map", {}) if isinstance(index, dict) else {}
        if not shards:
            raise ModelError(f"{folder / _INDEX} names no weight files", _AGAIN)
        return [folder / name for name in sorted(set(shards.values()))]
    if pickled := [name for name in _PICKLES if (folder / name).is_file()]:
        raise ModelError(
            f"{folder / pickled[0]} is a pickle, which can run any code when opened",
            "if you trust its source, convert it once: AutoModelForSequenceClassification.from_pretrained(folder)"
            ".save_pretrained(folder)",
        )
    raise ModelError(f"{folder} has no weights ({_WEIGHTS})", _AGAIN)


def safetensors_header(file: Path) -> dict[str, Any]:
    """What a weight file says of each tensor. A file that ends before or behind the last one was cut off."""
    if not file.is_file():
        raise ModelError(f"the weight file {file} is missing", _AGAIN)
    size = file.stat().st_size
    if size == 0:
        raise ModelError(f"{file} is empty (0 bytes)", _AGAIN)
    with file.open("rb") as opened:
        start = opened.read(8)
        length = struct.unpack("<Q", start)[0] if len(start) == 8 else size
        if length > size - 8:
            raise ModelError(f"{file} is cut off or not a safetensors file ({size:,} bytes)", _AGAIN)
        try:
            header = json.loads(opened.read(length))
            header.pop("__metadata__", None)
            ends = [entry["data_offsets"][1] for entry in header.values()]
        except (ValueError, KeyError, TypeError, AttributeError):
            raise ModelError(f"{file} is damaged: its header cannot be read", _AGAIN) from None
    expected = 8 + length + max(ends, default=0)
    if size != expected:
        raise ModelError(f"{file} is cut off: {size:,} bytes of {expected:,}", _AGAIN)
    return dict(header)


def _json(file: Path) -> Any:
    try:
        return json.loads(file.read_text(encoding="utf-8"))
    except (ValueError, RecursionError):
        raise ModelError(f"{file} is damaged: it is not JSON", _AGAIN) from None


def looks_like_hub(where: str | Path) -> bool:
    """Whether nothing lies there and it may be the name of a model on the Hub."""
    name = str(where)
    path = name.startswith((".", "/", "~")) or name.count("/") > 1 or "\\" in name
    return bool(name) and not path and not Path(name).exists()


def _closest(folder: Path) -> str:
    """A sibling with a similar name, if there is one."""
    siblings = [entry.name for entry in folder.parent.iterdir() if entry.is_dir()] if folder.parent.is_dir() else []
    close = difflib.get_close_matches(folder.name, siblings, n=1)
    return f"did you mean {folder.parent / close[0]}?" if close else "check the path; it is a folder with a config.json"


def _nested(folder: Path) -> str:
    """People often give the folder above the model."""
    inner = sorted(path.parent for path in folder.glob("*/config.json"))
    return f"did you mean {inner[0]}?" if inner else "give the folder that save_pretrained wrote"


def _from_hub(name: str, folder: Path) -> Path:
    from huggingface_hub import snapshot_download
    from huggingface_hub.errors import GatedRepoError, HfHubHTTPError, HFValidationError, RepositoryNotFoundError

    similar = _closest(folder)
    try:
        return Path(snapshot_download(name, allow_patterns=_HUB_FILES, ignore_patterns=["*/*"]))
    except HFValidationError:
        raise ModelError(f"there is no model folder {name}, and no hub model can have that name", similar) from None
    except GatedRepoError:
        raise ModelError(
            f"the hub model {name} asks for an agreement first", "accept it on its page, then log in"
        ) from None
    except RepositoryNotFoundError:
        raise ModelError(f"there is no model folder {name}, and no hub model of that name", similar) from None
    except (HfHubHTTPError, OSError):
        offline = similar if similar.startswith("did you mean") else "connect, or give the path of a local model folder"
        raise ModelError(
            f"there is no folder {name}, and the hub cannot be reached for a model of that name", offline
        ) from None
