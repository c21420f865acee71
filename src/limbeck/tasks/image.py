"""Image classification: one class for each grey image, by a network that starts from random weights."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np
import torch
from transformers import PreTrainedModel

from limbeck.core.card import Paper
from limbeck.core.errors import KnobError, MismatchError
from limbeck.core.image_processor import ImageProcessor
from limbeck.core.objective import Objective
from limbeck.core.progress import Watcher
from limbeck.core.task import IMAGE_KINDS, Kind, TaskInfo
from limbeck.core.trace import Want
from limbeck.data.batches import Collator, batches
from limbeck.data.image.encoded import EncodedImages, as_text, encode_images, from_text
from limbeck.data.image.images import ImageCorpus, Images, new_images, of_labels, read_images
from limbeck.data.settings import DataSettings, ImageSettings
from limbeck.data.sources.tables import Table
from limbeck.data.text.examples import relabel, split_card
from limbeck.measure.evaluator import TextEvaluator
from limbeck.measure.predictions import logits_of, predict
from limbeck.students.image import NetworkSettings, new_image_network
from limbeck.students.load import labels_in
from limbeck.students.shrink import Shrink
from limbeck.tasks.base import Answer, EncodedData, Inputs, Model, Options, Setup, task
from limbeck.tasks.whole import WholeClassification, check_teacher, data_fingerprint, encoded_rows, labels_fingerprint
from limbeck_runtime.answers import text_answer

LECUN_1998 = Paper(
    "Gradient-Based Learning Applied to Document Recognition",
    "Yann LeCun, Léon Bottou, Yoshua Bengio, Patrick Haffner",
    1998,
    "Proceedings of the IEEE 86(11)",
    "lecun1998gradient",
    "https://doi.org/10.1109/5.726791",
)


@task
@dataclass(frozen=True)
class ImageClassification(WholeClassification[ImageCorpus]):
    """A class for each image."""

    kinds: ClassVar[tuple[Kind, ...]] = IMAGE_KINDS
    paper: ClassVar[Paper] = LECUN_1998
    remedy: ClassVar[str] = "use 'labels', 'hinton' and 'logits'"
    from_scratch: ClassVar[bool] = True
    new_students: ClassVar[bool] = True

    def read_rows(self, data: object, model: Model | None, watcher: Watcher, only_test: bool) -> ImageCorpus:
        settings: DataSettings = self.knobs.data
        labels = labels_in(model.network.config) if model else ()
        corpus = read_images(settings, data, watcher, known=labels, only_test=only_test)
        if model is None:
            return corpus
        whose = "the model" if only_test else "the teacher"
        return relabel(corpus, labels, whose=whose, ordered=bool(settings.classes))

    def encode_rows(self, rows: Images, processor: ImageProcessor) -> EncodedImages:
        return encode_images(rows, processor)

    def encode(self, splits: ImageCorpus, model: Model, watcher: Watcher, teacher: Model | None = None) -> EncodedData:
        """A teacher answers the training images as they are; a student learns from those of some labels, shifted."""
        settings: ImageSettings = self.knobs.table(ImageSettings)
        rows = {name: self.encode_rows(part, model.processor) for name, part in splits.splits.items()}
        evaluator = TextEvaluator(splits.task, model.processor, rows, self.knobs.measure.examples)
        chosen = of_labels(splits.train, splits.task, settings.train_labels)
        train = encode_images(chosen, model.processor, settings)
        cards = dict(splits.card.splits)
        if "train" in cards:
            cards["train"] = split_card(splits.task, chosen, cards["train"].source)
        prints = {"data": data_fingerprint(splits, ""), "labels": labels_fingerprint(splits)}
        learnt = {**rows, "train": train}
        found = encoded_rows(learnt, evaluator, splits.card.but(splits=cards), prints, chosen.has_label)
        return replace(found, for_teacher=tuple(rows.values()), notes=_notes(splits, chosen, settings))

    def same_encoding(self, setup: Setup[ImageCorpus], student: Model) -> bool:
        shared, own = (knobs.table(ImageSettings) for knobs in (setup.task.knobs, self.knobs))
        return bool(shared == own)

    def new_network(self, processor: ImageProcessor) -> PreTrainedModel:
        return new_image_network(self.knobs.table(NetworkSettings), processor, self.info)

    def model_to_train(self, source: str, splits: ImageCorpus) -> tuple[Model, list[str]]:
        if source:
            return super().model_to_train(source, splits)
        with torch.random.fork_rng(devices=[]):  # the weights are drawn anew for every seed
            return Model(self.new_network(splits.processor), splits.processor), []

    def texts(self, setup: Setup[ImageCorpus], split: str) -> list[tuple[str, str]]:
        """Images as lines of letters, which another process can be handed."""
        return [(as_text(image), "") for image in setup.splits.splits[split].pixels]

    def new_rows(self, data: object) -> tuple[Table, list[Inputs]]:
        found = new_images(self.knobs.data, data)
        return Table(found.source, {"image": list(range(len(found)))}), [(as_text(image),) for image in found.pixels]

    def predict(self, model: Model, rows: Sequence[Inputs]) -> list[Answer]:
        info = TaskInfo(kind="image", labels=labels_in(model.network.config))
        numbers = np.arange(len(rows))
        images = Images(
            numbers,
            np.stack([from_text(row[0]) for row in rows]),
            np.zeros_like(numbers),
            np.zeros(len(rows), dtype=bool),
            numbers.astype(np.uint64),
            numbers,
            "",
        )
        encoded, collate = encode_images(images, model.processor), Collator.of(model.processor, info)
        found = predict(model.network, batches(encoded, collate, self.knobs.batch_size), encoded.uids)
        return [
            text_answer("classify", info.labels, row, self.knobs.all_probabilities) for row in logits_of(info, found)
        ]

    def check(
        self, run: Options, setup: Setup[ImageCorpus], student: Model, objectives: Sequence[Objective], needed: Want
    ) -> None:
        check_teacher(setup, student, needed, run.teacher_cache.live)
        own = run.student.but(keep=Shrink().keep, family=Shrink().family)
        for name, value in own:
            if value != getattr(Shrink(), name):
                raise KnobError(
                    f"'student.{name}' has no effect for --task image: the student is a new network",
                    "give its shape with --network and --network.hidden",
                )
        if needed and run.teacher_cache.live and run.table(ImageSettings).jitter:
            raise MismatchError(
                "a teacher that runs at every step would answer shifted images, and its cache holds the images as they "
                "are",
                "leave out --teacher-cache.live, or --image.jitter",
            )


def _notes(splits: ImageCorpus, chosen: Images, settings: ImageSettings) -> list[str]:
    notes = []
    if settings.jitter:
        notes.append(f"Training images are shifted by up to {settings.jitter} pixels each way, anew every epoch.")
    if len(chosen) < len(splits.train):
        names = settings.train_labels
        notes.append(f"Trained on {len(chosen):,} of {len(splits.train):,} images, those labelled {names}.")
    return notes
