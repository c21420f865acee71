"""What can be refused before torch is imported: the folder for the results, files, columns, models, disk space.

Every check is one that the run makes too, by the same function; here it comes first, within a second.
"""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Collection, Iterator, Sequence
from math import prod
from pathlib import Path

from limbeck.core.errors import KnobError, LimbeckError, does_not_teach, no_teacher
from limbeck.core.task import IMAGE_KINDS, LANGUAGE_KINDS, SEQ2SEQ_KINDS, TEXT_KINDS, WHOLE_KINDS, WINDOW_KINDS
from limbeck.data.columns import Roles, choose
from limbeck.data.image.images import check_images
from limbeck.data.settings import DirectionSettings, ParallelSettings, TaskKnobs
from limbeck.data.sources.conll import SUFFIXES as CONLL
from limbeck.data.sources.files import SUFFIXES, missing, read_head, unzipped
from limbeck.data.sources.gather import locate
from limbeck.data.sources.parallel import check_parallel
from limbeck.data.sources.unlabelled import check_unlabelled, refuse_unlabelled
from limbeck.engines.onnx import exported_facts
from limbeck.jobs.compare_settings import CompareRun, check_columns, columns_of
from limbeck.jobs.folder import RUN_FILE, check_out
from limbeck.jobs.settings import BenchRun, CacheRun, ExportRun, Job, PredictRun, Run, TrainRun, check_names, read_run
from limbeck.measure.size import is_ctranslate2
from limbeck.students.load import kind_of_class
from limbeck.students.model_folder import (
    explained_opening,
    find_folder,
    looks_like_hub,
    safetensors_header,
    weight_files,
)
from limbeck.students.shrink import SMALL, Shrink
from limbeck_runtime import is_exported

_LAYER = re.compile(r"(?:^|\.)(?:layers?|h|blocks?)\.(\d+)\.")  # as transformers names them
_FLOAT32 = 4  # bytes
_CHECKPOINT = 3  # weights and the optimiser's two moments, in sizes of the model
_CHECKPOINTS = 3  # two are kept, and one is written before the oldest goes


def check_run(run: TaskKnobs, models: Sequence[str], *, out: str = "", resume: bool = False) -> None:
    """Refuses what a run of these models, folders or hub ids, would refuse later. Of the Hub nothing is asked."""
    if out:
        check_out(Path(out), resume=resume)
        if resume and (Path(out) / RUN_FILE).exists():
            type(run)(**read_run(Path(out) / RUN_FILE))  # or refuses the run of another verb
    if isinstance(run, CompareRun):
        check_columns(columns_of(run))
    elif isinstance(run, Run):
        check_names(run)
    directions = list(run.tables(DirectionSettings).values())
    # The task refuses others beside those of directions.
    folders = check_models([one.teacher for one in directions] or models, not isinstance(run, Job | CacheRun))
    main = folders[0] if folders else None
    kind = _kind(run, main)
    _check_named(run, kind)
    if not directions and (
        run.data.train or not isinstance(run, BenchRun | ExportRun)
    ):  # which have texts of their own
        _check_data(run, kind)
    if out and main and isinstance(run, Job) and not (Path(out) / RUN_FILE).exists():
        _check_room(run, main, Path(out))


def check_models(models: Sequence[str], may_be_exported: bool = True) -> list[Path | None]:
    """Refuses the folder of a model that is none; of others it is None, or the folder. Exported ones only answer."""
    return [_folder(name, may_be_exported) for name in models]


def find_models(run: TaskKnobs, models: Sequence[str]) -> None:
    """Downloads what is on the Hub, so that a name that is not there is refused before anything is imported."""
    for name in filter(looks_like_hub, () if run.tables(DirectionSettings) else models):
        with explained_opening(name):
            find_folder(name)


def no_model() -> KnobError:
    return KnobError("no model was given", "name one with --model: a folder or a hub id")


def _folder(name: str, may_be_exported: bool) -> Path | None:
    """The checked folder of a model; None for no model, one on the Hub, and one that CTranslate2 runs."""
    if not name or looks_like_hub(name) or is_ctranslate2(Path(name).expanduser()):
        return None
    if may_be_exported and is_exported(name):
        exported_facts(name)  # or refuses a damaged one
        return Path(name).expanduser()
    return find_folder(name)


def _kind(run: TaskKnobs, model: Path | None) -> str:
    """The kind of task, as far as it is known without torch; "" where the model alone tells, and is not here."""
    kind: str = run.data.task
    if kind == "auto":
        if model is None:  # a column of answers is of texts
            return "classify" if run.data.teacher_column else ""
        named = json.loads((model / "config.json").read_text(encoding="utf-8")).get("architectures") or [""]
        kind = kind_of_class(str(named[0])) or "classify"
        if isinstance(run, BenchRun) and kind not in IMAGE_KINDS:  # models of several tasks are timed on any text
            return ""
        kind = "classify" if isinstance(run, TrainRun) and kind in LANGUAGE_KINDS else kind
    # What is no language model is refused when it is loaded.
    return "" if isinstance(run, CacheRun) and kind not in LANGUAGE_KINDS else kind


def _check_named(run: TaskKnobs, kind: str) -> None:
    """Whether a run that needs a model names one. What translates, and a network of images, may do without."""
    if isinstance(run, Run):
        _check_teachers(run, kind)
    if kind in SEQ2SEQ_KINDS or run.tables(DirectionSettings):
        return
    if isinstance(run, TrainRun) and not run.model and kind not in IMAGE_KINDS:
        raise no_model()
    taught = isinstance(run, Run) and (
        run.teacher or run.data.teacher_column or (run.student_from and kind in LANGUAGE_KINDS)
    )
    if isinstance(run, Run) and not taught:
        raise no_teacher()


def _check_teachers(run: Run, kind: str) -> None:
    """Whether the task takes several teachers, or a column of answers; and with a column, a model to start from."""
    if len(run.teachers) > 1 and kind not in ("", *WHOLE_KINDS):
        raise does_not_teach("an average of several teachers", kind, WHOLE_KINDS, "give one --teacher")
    if not (run.data.teacher_column and run.distils):
        return
    if kind not in ("", *TEXT_KINDS):
        raise does_not_teach("a teacher's column", kind, TEXT_KINDS, "give the model itself with --teacher")
    if not run.student_from:
        raise no_start()


def no_start() -> KnobError:
    return KnobError(
        "a teacher's column has no model to cut the student from",
        "name the model that the student starts from, such as a pre-trained encoder, with --student-from",
    )


def _check_data(run: TaskKnobs, kind: str) -> None:
    """Every named file is there and can be opened; of texts, its columns are known."""
    if not isinstance(run, Run):
        refuse_unlabelled(run.data)
    if kind in IMAGE_KINDS:
        check_images(run.data)
        return
    check_unlabelled(run.data, _suffixes(kind))
    files = _files(run, kind)
    for path in files.values():
        if not path.exists():
            raise missing(path)
        if path.is_file():
            unzipped(path, 1)
    if kind in TEXT_KINDS:
        roles: Roles | None = None
        for table in filter(None, (read_head(path, run.data) for path in files.values())):
            roles = choose(table, run.data, follow=roles if isinstance(run, Job) else None)


def _files(run: TaskKnobs, kind: str) -> dict[str, Path]:
    """By split or flag; a folder stands for its files where these may be plain texts."""
    data, pairs = run.data, run.table(ParallelSettings)
    path = Path(data.train).expanduser()
    named = {"dev": data.dev, "test": data.test}
    if kind in SEQ2SEQ_KINDS and not isinstance(run, ExportRun | PredictRun):  # which take sources alone
        check_parallel(path if data.train else None, data, pairs)
        named |= {"target": pairs.target, "dev target": pairs.dev_target, "test target": pairs.test_target}
    if data.unlabelled and not data.train:
        return {name: Path(value).expanduser() for name, value in named.items() if value}
    texts = kind in LANGUAGE_KINDS and path.is_dir()
    files = {"train": path} if texts else locate(data, _suffixes(kind))
    return files | {name: Path(value).expanduser() for name, value in named.items() if value}


def _suffixes(kind: str) -> Collection[str]:
    return {*SUFFIXES, *CONLL} if kind in WINDOW_KINDS else SUFFIXES


def _check_room(run: Job, model: Path, out: Path) -> None:
    """Whether the disk can take the models of a run and the checkpoints of the one in training."""
    if not (size := _trained_bytes(run, model)):
        return
    arms = 1 + (run.baseline if isinstance(run, Run) else 0)
    needed = size * (len(run.seed_list) * arms + 1 + _CHECKPOINTS * _CHECKPOINT)
    place = next(each for each in (out, *out.absolute().parents) if each.is_dir())
    free = shutil.disk_usage(place).free
    if needed > free:
        raise LimbeckError(
            f"models and checkpoints need about {needed / 1e6:,.1f} MB, but {out} has {free / 1e6:,.1f} MB left",
            "free some space, or choose a folder on another disk with --out",
        )


def _trained_bytes(run: Job, model: Path) -> float:
    """The size of the model that is trained, if it is `model` or some of its layers; 0 where only building it tells."""
    student = run.student if isinstance(run, Run) else None
    if isinstance(run, Run):
        other = isinstance(run, CompareRun) or run.recipe not in ("auto", "hinton", "finetune", "logits")
        depth_alone = Shrink(layers=run.student.layers, preset=run.student.preset, keep=run.student.keep)
        if other or run.student_from or run.student != depth_alone or run.student.preset in (*SMALL, "tinybert"):
            return 0.0
    inside, outside, depth = 0, 0, 0
    for name, count in _parameters(model):
        found = _LAYER.search(name)
        depth = max(depth, 1 + int(found[1])) if found else depth
        inside, outside = (inside + count, outside) if found else (inside, outside + count)
    parts = {"auto": 1 / 2, "half": 1 / 2, "third": 1 / 3, "quarter": 1 / 4}
    share = 1.0
    if student:
        share = student.layers / depth if student.layers and depth else parts.get(student.preset, 0.0)
    return _FLOAT32 * (outside + inside * min(share, 1.0))


def _parameters(model: Path) -> Iterator[tuple[str, int]]:
    for file in weight_files(model):
        for name, entry in safetensors_header(file).items():
            yield name, prod(entry["shape"])
