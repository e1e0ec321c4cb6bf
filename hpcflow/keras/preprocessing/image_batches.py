"""Batches of images, of arrays and of files, changed at random."""

from __future__ import annotations

import os
import threading
from typing import TYPE_CHECKING, Any

import numpy as np

from hpcflow.keras.preprocessing.affine import axes_of
from hpcflow.keras.preprocessing.image_files import array_to_img, img_to_array, load_img
from hpcflow.keras.utils import Sequence

if TYPE_CHECKING:
    from hpcflow.keras.preprocessing.image import ImageDataGenerator

__all__ = ["DirectoryIterator", "Iterator", "NumpyArrayIterator"]

_FORMATS = (".png", ".jpg", ".jpeg", ".bmp", ".ppm", ".tif", ".tiff")
_CHANNELS = {"grayscale": 1, "rgb": 3, "rgba": 4}


class Iterator(Sequence):
    """Batches without an end, and by number: a derived class defines
    ``_get_batches_of_transformed_samples(index_array)``."""

    white_list_formats = tuple(f[1:] for f in _FORMATS)
    save_to_dir: Any = None

    def __init__(self, n: int, batch_size: int, shuffle: bool, seed: int | None) -> None:
        self.n, self.batch_size, self.shuffle, self.seed = n, batch_size, shuffle, seed
        self.batch_index = self.total_batches_seen = 0
        self.index_array: Any = None
        self.lock = threading.Lock()

    def _set_index_array(self) -> None:
        self.index_array = np.random.permutation(self.n) if self.shuffle else np.arange(self.n)

    def _begin(self) -> None:
        if self.seed is not None:
            np.random.seed(self.seed + self.total_batches_seen)

    def __getitem__(self, idx: int) -> Any:
        """Return a batch. ``ValueError`` beyond the last."""
        if idx >= len(self):
            raise ValueError(f"Asked to retrieve element {idx}, but the Sequence has length "
                             f"{len(self)}")
        self._begin()
        self.total_batches_seen += 1
        if self.index_array is None:
            self._set_index_array()
        first = self.batch_size * idx
        return self._get_batches_of_transformed_samples(
            self.index_array[first:first + self.batch_size])

    def __len__(self) -> int:
        """Return the number of batches."""
        return (self.n + self.batch_size - 1) // self.batch_size

    def on_epoch_end(self) -> None:
        """Begin anew, in another order if they are shuffled."""
        self._set_index_array()

    def reset(self) -> None:
        """Let the first batch be next."""
        self.batch_index = 0

    def __iter__(self) -> Any:
        """Go over batches without an end."""
        return self

    def __next__(self) -> Any:
        """Return the next batch."""
        with self.lock:
            self._begin()
            if self.batch_index == 0:
                self._set_index_array()
            first = self.batch_index * self.batch_size
            more = self.n > first + self.batch_size
            self.batch_index = self.batch_index + 1 if more else 0
            self.total_batches_seen += 1
            chosen = self.index_array[first:first + self.batch_size]
        return self._get_batches_of_transformed_samples(chosen)

    next = __next__

    def _get_batches_of_transformed_samples(self, index_array: np.ndarray) -> Any:
        raise NotImplementedError(f"{type(self).__name__} does not say its batches")

    def _save(self, images: np.ndarray, index_array: np.ndarray) -> None:
        """Write the images of a batch, if that was asked for."""
        for image, index in zip(images, index_array) if self.save_to_dir else ():
            name = f"{self.save_prefix}_{index}_{np.random.randint(10 ** 7)}.{self.save_format}"
            array_to_img(image, self.data_format).save(os.path.join(self.save_to_dir, name))

    save_prefix = ""
    save_format = "png"
    data_format: str | None = None


def _changed(generator: ImageDataGenerator, x: np.ndarray) -> np.ndarray:
    return generator.standardize(
        generator.apply_transform(x, generator.get_random_transform(x.shape)))


def _part(subset: str | None, fraction: float, count: int) -> slice:
    """The examples of a subset of `count`. ``ValueError`` for another name."""
    if subset not in (None, "training", "validation"):
        raise ValueError(f"Invalid subset name: {subset}; expected \"training\" or \"validation\".")
    cut = int(fraction * count)
    return {None: slice(None), "training": slice(cut, None), "validation": slice(cut)}[subset]


class NumpyArrayIterator(Iterator):
    """Batches of arrays: images, or a list of images and other inputs; labels, weights.

    ``ValueError`` for arrays of other lengths, and images that have not four dimensions.
    """

    def __init__(self, x: Any, y: Any, image_data_generator: ImageDataGenerator,
                 batch_size: int = 32, shuffle: bool = False, sample_weight: Any = None,
                 seed: int | None = None, data_format: str | None = None,
                 save_to_dir: Any = None, save_prefix: str = "", save_format: str = "png",
                 subset: str | None = None, dtype: str | None = "float32") -> None:
        others: list = []
        if isinstance(x, (tuple, list)):
            x, others = x[0], x[1] if isinstance(x[1], list) else [x[1]]
        given = [np.asarray(v) for v in (*others, y, sample_weight) if v is not None]
        for other in given:
            if len(other) != len(x):
                raise ValueError("`x` (images tensor) and what stands beside it should have the "
                                 f"same length. Found: {np.shape(x)} and {other.shape}")
        rows = _part(subset, image_data_generator._validation_split, len(x))
        if subset is not None and y is not None:
            cut = _part("validation", image_data_generator._validation_split, len(x)).stop
            if not np.array_equal(np.unique(y[:cut]), np.unique(y[cut:])):
                raise ValueError("Training and validation subsets have different number of classes "
                                 "after the split. If your numpy arrays are sorted by the label, "
                                 "you might want to shuffle them.")
        self.dtype, self.x = dtype, np.asarray(x, dtype)[rows]
        if self.x.ndim != 4:
            raise ValueError("Input data in `NumpyArrayIterator` should have rank 4. You passed an "
                             f"array with shape {self.x.shape}")
        self.x_misc = [np.asarray(v)[rows] for v in others]
        self.y = None if y is None else np.asarray(y)[rows]
        self.sample_weight = None if sample_weight is None else np.asarray(sample_weight)[rows]
        self.image_data_generator, self.data_format = image_data_generator, data_format
        self.save_to_dir, self.save_prefix = save_to_dir, save_prefix
        self.save_format = save_format
        super().__init__(len(self.x), batch_size, shuffle, seed)

    def _get_batches_of_transformed_samples(self, index_array: np.ndarray) -> Any:
        images = np.zeros((len(index_array), *self.x.shape[1:]), self.dtype)
        for n, index in enumerate(index_array):
            images[n] = _changed(self.image_data_generator, self.x[index].astype(self.dtype))
        self._save(images, index_array)
        inputs = [images, *(v[index_array] for v in self.x_misc)] if self.x_misc else images
        if self.y is None:
            return inputs
        rest = [v[index_array] for v in (self.y, self.sample_weight) if v is not None]
        return (inputs, *rest)


class DirectoryIterator(Iterator):
    """Batches of the images below a directory, which has one directory for each class.

    ``ValueError`` for other names of modes.
    """

    def __init__(self, directory: str, image_data_generator: ImageDataGenerator,
                 target_size: Any = (256, 256), color_mode: str = "rgb", classes: Any = None,
                 class_mode: str | None = "categorical", batch_size: int = 32,
                 shuffle: bool = True, seed: int | None = None, data_format: str | None = None,
                 save_to_dir: Any = None, save_prefix: str = "", save_format: str = "png",
                 follow_links: bool = False, subset: str | None = None,
                 interpolation: str = "nearest", dtype: str | None = "float32") -> None:
        if color_mode not in _CHANNELS:
            raise ValueError(f"Invalid color mode: {color_mode}; expected \"rgb\", \"rgba\", or "
                             "\"grayscale\".")
        if class_mode not in ("categorical", "binary", "sparse", "input", None):
            raise ValueError(f"Invalid class_mode: {class_mode}; expected one of: categorical, "
                             "binary, sparse, input, None")
        self.directory, self.image_data_generator = directory, image_data_generator
        self.target_size, self.color_mode = tuple(target_size), color_mode
        self.class_mode, self.data_format, self.dtype = class_mode, data_format, dtype
        self.save_to_dir, self.save_prefix = save_to_dir, save_prefix
        self.save_format, self.interpolation, self.subset = save_format, interpolation, subset
        shape = np.zeros((*self.target_size, _CHANNELS[color_mode]), bool)
        self.image_shape = np.moveaxis(shape, 2, axes_of(data_format)[2]).shape
        names = list(classes or sorted(e.name for e in os.scandir(directory) if e.is_dir()))
        self.num_classes = len(names)
        self.class_indices = {name: n for n, name in enumerate(names)}
        self.filenames: list[str] = []
        numbers: list[int] = []
        for name in names:
            found = _images_below(directory, name, follow_links)
            found = found[_part(subset, image_data_generator._validation_split, len(found))]
            self.filenames += found
            numbers += [self.class_indices[name]] * len(found)
        self.classes = self.labels = np.array(numbers, "int32")
        self.samples = len(self.filenames)
        self.filepaths = [os.path.join(directory, name) for name in self.filenames]
        print(f"Found {self.samples} images belonging to {self.num_classes} classes.")
        super().__init__(self.samples, batch_size, shuffle, seed)

    def _get_batches_of_transformed_samples(self, index_array: np.ndarray) -> Any:
        images = np.zeros((len(index_array), *self.image_shape), self.dtype)
        for n, index in enumerate(index_array):
            image = load_img(self.filepaths[index], False, self.color_mode, self.target_size,
                             self.interpolation)
            images[n] = _changed(self.image_data_generator, img_to_array(image, self.data_format))
        self._save(images, index_array)
        if self.class_mode is None:
            return images
        if self.class_mode == "input":
            return images, images.copy()
        numbers = self.classes[index_array]
        if self.class_mode == "categorical":
            return images, np.eye(self.num_classes, dtype=self.dtype)[numbers]
        return images, numbers.astype(self.dtype)


def _images_below(directory: str, name: str, follow_links: bool) -> list[str]:
    """The paths of images of a class, from the directory of all classes on, sorted."""
    found = []
    for root, _, files in sorted(os.walk(os.path.join(directory, name), followlinks=follow_links)):
        found += [os.path.relpath(os.path.join(root, f), directory) for f in sorted(files)
                  if f.lower().endswith(_FORMATS)]
    return found
