"""The best model of a run for other engines: exported, compared with what it was, and measured where it will run."""

from __future__ import annotations

import shutil
import time
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

from limbeck.core.errors import KnobError, LimbeckError
from limbeck.core.fingerprint import tokenizers_equal
from limbeck.core.process import is_main
from limbeck.core.progress import Watcher
from limbeck.core.record import Artifact, Failure, Record
from limbeck.core.task import ENCODER_KINDS, SEQ2SEQ_KINDS, TEXT_KINDS
from limbeck.data.batches import Split
from limbeck.engines.ctranslate2 import CTranslate2Engine, import_ctranslate2
from limbeck.engines.onnx import OnnxNetwork, open_exported
from limbeck.exporters.export import export
from limbeck.exporters.static import is_static
from limbeck.exporters.targets import NUMPY_TARGETS, Target, check_target
from limbeck.jobs.chain import compared
from limbeck.jobs.plan import ArmPlan
from limbeck.jobs.record import Finished, build_record
from limbeck.jobs.settings import EXPORTS, Job
from limbeck.jobs.trial import TrialResult
from limbeck.measure.evaluator import Evaluation
from limbeck.measure.seq2seq_evaluator import Seq2SeqEvaluator, generation
from limbeck.measure.size import converted_size
from limbeck.students.model_folder import quiet, read_config, read_tokenizer
from limbeck.tasks.base import EncodedData

CTRANSLATE2 = "ctranslate2"
ROWS = 512  # of dev, on which an export is compared with its source


def check_exports(run: Job, kind: str, folder: Path) -> None:
    """Refuses, before anything is trained, what could not be exported behind it. What an earlier run left goes."""
    for target in run.export_targets:
        serves = SEQ2SEQ_KINDS if target == CTRANSLATE2 else ENCODER_KINDS
        serves = TEXT_KINDS if target in NUMPY_TARGETS else serves
        if kind not in serves:
            use = f"use --export {CTRANSLATE2}" if kind in SEQ2SEQ_KINDS else "leave --export out"
            raise KnobError(f"--export {target} does not serve --task {kind}; it is for {', '.join(serves)}", use)
        place = folder / EXPORTS / target
        if is_main():
            shutil.rmtree(place, ignore_errors=True)
        check_target(target, place)
        if target == CTRANSLATE2:
            import_ctranslate2()


def check_export_students(run: Job, arms: Iterable[ArmPlan]) -> None:
    """Refuses, before anything is trained, a format that none of the students can have."""
    static = {is_static(arm.start.network) for arm in arms}
    for target in run.export_targets:
        if len(static) == 1 and (target in NUMPY_TARGETS) not in static:
            if static == {True}:
                raise KnobError(f"a static student is not exported to {target}", f"use --export {NUMPY_TARGETS[0]}")
            raise KnobError(
                f"--export {target} is for students of family 'static'",
                "use --export onnx-int8, or distill one with --recipe static",
            )


def record_with_exports(finished: Finished, command: str, watcher: Watcher) -> Record:
    """The Record, with the best model in every format that the run asks for, timed beside the others.

    A student that translates goes to CTranslate2 unasked. An export that fails is told, and the others go on."""
    made: list[Artifact] = []
    failed: list[Failure] = []
    unasked = [CTRANSLATE2] if finished.setup.info.is_seq2seq and finished.kind in ("distill", "compare") else []
    for target in (finished.run.export_targets or unasked) if is_main() else ():
        watcher.say(f"exporting the best model to {target}")
        try:
            made.append(_exported(target, finished, watcher))
        except LimbeckError as error:
            watcher.say(f"no export to {target}: {error.problem}")
            (arm, result), reason = finished.best(), f"{error.problem.rstrip('.')}; {error.remedy}."
            failed.append(Failure(arm=arm.name, seeds=[result.result.seed], export=target, reason=reason))
    record = build_record(finished, command, watcher, made)
    return record.but(failed=[*record.failed, *failed]) if failed else record


def _exported(target: str, finished: Finished, watcher: Watcher) -> Artifact:
    (arm, result), run, setup = finished.best(), finished.run, finished.setup
    place = finished.folder / EXPORTS / target
    shutil.rmtree(place, ignore_errors=True)
    began = time.monotonic()
    data = _in_its_tokens(arm, result, run.trust_remote_code)
    rows, labels = setup.task.texts(setup, "dev")[:ROWS], list[Any]()
    if setup.info.kind in TEXT_KINDS and (split := cast(Split, data.evaluator.splits["dev"])).has_label.all():
        labels = list(split.labels[:ROWS])
    if target == CTRANSLATE2:
        import_ctranslate2()
    with quiet():
        done = export(result.model, cast(Target, target), place, rows, labels, watcher)
    seconds = time.monotonic() - began
    found = _tested(place, target, data)
    before = arm.name, replace(found, statistics=result.statistics)
    fidelity = {} if found.fidelity is None else found.fidelity.model_dump(include={"agreement", "divergence"})
    return Artifact(
        name=target,
        arm=arm.name,
        seed=result.result.seed,
        engine=done.engine,
        precision=done.precision,
        path=f"{EXPORTS}/{target}",
        seconds=seconds,
        figures={f"teacher_{name}": value for name, value in fidelity.items() if value is not None} | done.figures,
        quality=found.scores,
        size=converted_size(place),
        comparison=compared(data.info, target, found, before, run.measure.bootstrap),
    )


def _in_its_tokens(arm: ArmPlan, result: TrialResult, trusted: bool) -> EncodedData:
    """The rows as the finished model reads them: a pass may have given it another tokenizer."""
    with quiet():
        processor = read_tokenizer(result.model, trusted)
    if arm.source is None or tokenizers_equal(processor, arm.processor or arm.data.processor):
        return arm.data
    return arm.source.encode(arm.source.task.load(str(result.model)), arm.data)


def _tested(place: Path, target: str, data: EncodedData) -> Evaluation:
    if target == CTRANSLATE2:
        assert isinstance(data.evaluator, Seq2SeqEvaluator)
        return data.evaluator.test_engine(CTranslate2Engine(place, **generation(data.evaluator.settings)))
    network: Any = OnnxNetwork(open_exported(place), read_config(place, False))
    return data.evaluator.test(network)
