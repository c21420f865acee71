"""The models of a Record: its arms, and the artifacts that came of them."""

from __future__ import annotations

from limbeck.core.metric import Metric, metric_of
from limbeck.core.record import Arm, Artifact, Record, SeedResult


def models(record: Record) -> list[Arm]:
    """One for each row of a table: every arm, then every artifact in the shape of an arm."""
    return [*record.arms, *(_as_arm(record, artifact) for artifact in record.artifacts)]


def _as_arm(record: Record, artifact: Artifact) -> Arm:
    origin = next((arm for arm in record.arms if arm.name == artifact.arm), None)
    return Arm(
        name=artifact.name,
        title=artifact.title,
        role=origin.role if origin else "student",
        shape=origin.shape if origin else None,
        runs=[SeedResult(seed=artifact.seed, quality=artifact.quality)],
        size=artifact.size,
        speed=artifact.speed,
    )


def primary(record: Record) -> Metric:
    return metric_of(record.task, record.metric)
