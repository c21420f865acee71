"""What stands where a tokenizer stands: grey images become what a network reads.

It is saved as preprocessor_config.json beside the weights: the size of an image, and the factor that takes pixels of
0 to 255 to [0, 1]. The names of the classes are in config.json.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from limbeck.core.errors import MismatchError, ModelError
from limbeck.core.files import write_text

if TYPE_CHECKING:
    import numpy as np
    from torch import Tensor

FILE = "preprocessor_config.json"
_AGAIN = "copy or download the model again"


@dataclass(frozen=True)
class ImageProcessor:
    height: int
    width: int
    rescale_factor: float = 1 / 255

    def __call__(self, images: Any, return_tensors: str = "pt") -> dict[str, Tensor]:
        """uint8 [n, height, width], or one image, as {"pixel_values": [n, 1, height, width]}."""
        import numpy as np
        import torch

        found = np.asarray(images, dtype=np.uint8)
        return {"pixel_values": torch.from_numpy(self.pixel_values(found[None] if found.ndim == 2 else found))}

    def pixel_values(self, images: np.ndarray) -> np.ndarray:
        """float32 [n, 1, height, width] in [0, 1]."""
        import numpy as np

        if images.shape[1:] != (self.height, self.width):
            raise MismatchError(
                f"the images are of {size_text(images.shape[1:])} pixels, but the model reads "
                f"{size_text((self.height, self.width))}",
                "give images of that size, or train a model on these",
            )
        scaled: np.ndarray = np.multiply(images[:, None], np.float32(self.rescale_factor), dtype=np.float32)
        return scaled

    def to_dict(self) -> dict[str, Any]:
        return {
            "image_processor_type": "LimbeckImageProcessor",
            "size": {"height": self.height, "width": self.width},
            "num_channels": 1,
            "do_resize": False,
            "do_rescale": True,
            "rescale_factor": self.rescale_factor,
            "do_normalize": False,
        }

    def save_pretrained(self, folder: Path | str) -> None:
        write_text(Path(folder) / FILE, json.dumps(self.to_dict(), indent=2) + "\n")

    @classmethod
    def from_pretrained(cls, folder: Path | str) -> Self:
        path = Path(folder) / FILE
        try:
            found = json.loads(path.read_text(encoding="utf-8"))
            processor = cls(found["size"]["height"], found["size"]["width"], found["rescale_factor"])
        except (OSError, ValueError, KeyError, TypeError):
            raise ModelError(f"{path} is missing or damaged", _AGAIN) from None
        if found != processor.to_dict():
            raise ModelError(
                f"{path} asks for more than Limbeck does with images: grey ones, of one size, rescaled",
                "use a model that `limbeck train --task image` made",
            )
        return processor


def size_text(shape: tuple[int, ...]) -> str:
    return " × ".join(map(str, shape))
