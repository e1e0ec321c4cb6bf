"""Handwritten digits in files of the idx format, and the batches that programs take of them."""

from __future__ import annotations

import gzip
import math
import os
import zlib
from collections.abc import Callable
from typing import IO, Any

import numpy as np

from hpcflow import dtypes
from hpcflow.contrib.learn.datasets.base import Datasets
from hpcflow.dtypes import DTypeLike
from hpcflow.errors import NotFoundError
from hpcflow.host.tuning import files as tuning
from hpcflow.ops.random.random_ops import get_seed
from hpcflow.platform import gfile

__all__ = ["DataSet", "dense_to_one_hot", "extract_images", "extract_labels", "load_mnist",
           "read_data_sets"]

DEFAULT_SOURCE_URL = ""  # accepted by read_data_sets, which takes local files alone

_IMAGES, _LABELS = 2051, 2049  # the numbers that the files begin with
_GZIP = b"\x1f\x8b"


def _header(file: IO[bytes], count: int) -> list[int]:
    return [int(x) for x in np.frombuffer(file.read(4 * count), ">u4")]


def _numbers(f: IO[bytes], magic: int, sizes: int, what: str) -> np.ndarray:
    """The array of a file, compressed or not, that begins with `magic` and its `sizes`."""
    begin = f.read(2)
    f.seek(0)
    stream: Any = gzip.GzipFile(fileobj=f) if begin == _GZIP else f
    name = getattr(f, "name", "")
    try:
        found, *shape = _header(stream, 1 + sizes) or [0]
        if found != magic:
            raise ValueError(f"Invalid magic number {found} in MNIST {what} file: {name}")
        count = math.prod(shape)
        data = np.frombuffer(_up_to(stream, count), np.uint8)
    except (gzip.BadGzipFile, zlib.error, EOFError) as error:
        raise ValueError(f"MNIST {what} file {name} is damaged: {error}") from error
    if data.size != count:
        raise ValueError(f"MNIST {what} file {name} ends after {data.size} of {count} numbers")
    return data.reshape(shape)


def _up_to(stream: Any, count: int) -> bytearray:
    """So many bytes, or those that there are: the file may claim more than memory has."""
    data = bytearray()
    while part := stream.read(min(count - len(data), tuning.READ_BUFFER_BYTES)):
        data += part
    return data


def extract_images(f: IO[bytes]) -> np.ndarray:
    """Return the images of an open file, uint8 ``[count, rows, columns, 1]``.

    Raises ``ValueError`` for another kind of file.
    """
    return _numbers(f, _IMAGES, 3, "image")[..., np.newaxis]


def extract_labels(f: IO[bytes], one_hot: bool = False, num_classes: int = 10) -> np.ndarray:
    """Return the labels of an open file, uint8 ``[count]``, or one-hot rows of `num_classes`.

    Raises ``ValueError`` for another kind of file.
    """
    labels = _numbers(f, _LABELS, 1, "label")
    return dense_to_one_hot(labels, num_classes) if one_hot else labels


def dense_to_one_hot(labels_dense: np.ndarray, num_classes: int) -> np.ndarray:
    """Return rows of `num_classes` zeros with a one at each label, float64."""
    return np.eye(num_classes)[np.ravel(labels_dense)]


class DataSet:
    """Images and labels, of which ``next_batch`` gives some at a time.

    Args:
        images: uint8 ``[count, rows, columns, 1]``.
        labels: as many labels, or rows of one-hot labels.
        fake_data: no data but 10,000 images of ones, with the label 0.
        one_hot: fake labels are one-hot.
        dtype: ``float32`` for images from 0 to 1, ``uint8`` for those as they are.
        reshape: make a row of every image.
        seed: of NumPy's global generator, which shuffles; that of the graph if None.

    Raises ``TypeError`` for another `dtype`.
    """

    def __init__(self, images: Any, labels: Any, fake_data: bool = False, one_hot: bool = False,
                 dtype: DTypeLike = dtypes.float32, reshape: bool = True,
                 seed: int | None = None) -> None:
        of_graph, own = get_seed(seed)
        np.random.seed(of_graph if seed is None else own)
        dtype = dtypes.as_dtype(dtype).base_dtype
        if dtype not in (dtypes.uint8, dtypes.float32):
            raise TypeError(f"Invalid image dtype {dtype!r}, expected uint8 or float32")
        self._fake, self.one_hot = fake_data, one_hot
        self._images, self._labels = images, labels
        self._num_examples = 10000
        if not fake_data:
            assert images.shape[0] == labels.shape[0], (
                f"images.shape: {images.shape} labels.shape: {labels.shape}")
            self._num_examples = images.shape[0]
            self._images = _prepared(images, reshape, dtype == dtypes.float32)
        self._epochs_completed = 0
        self._index_in_epoch = 0

    @property
    def images(self) -> Any:
        """The images, in the order of this epoch."""
        return self._images

    @property
    def labels(self) -> Any:
        """The labels, in the order of this epoch."""
        return self._labels

    @property
    def num_examples(self) -> int:
        """The number of images."""
        return self._num_examples

    @property
    def epochs_completed(self) -> int:
        """How often all images have been given."""
        return self._epochs_completed

    def next_batch(self, batch_size: int, fake_data: bool = False,
                   shuffle: bool = True) -> tuple[Any, Any]:
        """Return the next `batch_size` images and labels.

        A batch at the end of an epoch is filled up from the next one. With `shuffle` every epoch
        has an order of its own.
        """
        if fake_data:
            label: Any = [1] + [0] * 9 if self.one_hot else 0
            return [[1] * 784] * batch_size, [label] * batch_size
        start = self._index_in_epoch
        if self._epochs_completed == 0 and start == 0 and shuffle:
            self._shuffle()
        end = start + batch_size
        if end <= self._num_examples:
            self._index_in_epoch = end
            return self._images[start:end], self._labels[start:end]
        self._epochs_completed += 1
        rest = self._images[start:], self._labels[start:]
        if shuffle:
            self._shuffle()
        self._index_in_epoch = end = end - self._num_examples
        return (np.concatenate((rest[0], self._images[:end])),
                np.concatenate((rest[1], self._labels[:end])))

    def _shuffle(self) -> None:
        order = np.arange(self._num_examples)
        np.random.shuffle(order)
        self._images, self._labels = self._images[order], self._labels[order]


def _prepared(images: np.ndarray, reshape: bool, as_floats: bool) -> np.ndarray:
    if reshape:
        assert images.shape[3] == 1
        images = images.reshape(images.shape[0], images.shape[1] * images.shape[2])
    return np.multiply(images.astype(np.float32), np.float32(1 / 255)) if as_floats else images


# ---------------------------------------------------------------- the files of the data set


def read_data_sets(train_dir: str, fake_data: bool = False, one_hot: bool = False,
                   dtype: DTypeLike = dtypes.float32, reshape: bool = True,
                   validation_size: int = 5000, seed: int | None = None,
                   source_url: str = DEFAULT_SOURCE_URL) -> Datasets:
    """Read the digits from the four idx files in a folder, each compressed with gzip or not.

    Args:
        train_dir: the folder.
        fake_data: read nothing; see :class:`DataSet`.
        one_hot: labels as rows of ten numbers.
        dtype, reshape, seed: as of :class:`DataSet`.
        validation_size: the first so many images of those for training are the validation set.
        source_url: accepted; nothing is downloaded.

    Returns: the sets ``train``, ``validation`` and ``test``.

    Raises ``NotFoundError`` for a file that is not there, and says which names it may have;
    ``ValueError`` for a wrong `validation_size` or a damaged file.
    """
    options: dict[str, Any] = {"dtype": dtype, "reshape": reshape, "seed": seed}
    if fake_data:
        return Datasets(*(DataSet([], [], fake_data=True, one_hot=one_hot, dtype=dtype, seed=seed)
                          for _ in range(3)))

    def labels_of(file: IO[bytes]) -> np.ndarray:
        return extract_labels(file, one_hot=one_hot)

    images = _read(train_dir, "train-images-idx3-ubyte", extract_images)
    labels = _read(train_dir, "train-labels-idx1-ubyte", labels_of)
    test_images = _read(train_dir, "t10k-images-idx3-ubyte", extract_images)
    test_labels = _read(train_dir, "t10k-labels-idx1-ubyte", labels_of)
    if not 0 <= validation_size <= len(images):
        raise ValueError(f"Validation size should be between 0 and {len(images)}. Received: "
                         f"{validation_size}.")
    n = validation_size
    return Datasets(train=DataSet(images[n:], labels[n:], **options),
                    validation=DataSet(images[:n], labels[:n], **options),
                    test=DataSet(test_images, test_labels, **options))


def load_mnist(train_dir: str = "MNIST-data") -> Datasets:
    """Return :func:`read_data_sets` of a folder."""
    return read_data_sets(train_dir)


def _read(folder: str, name: str, extract: Callable[[Any], np.ndarray]) -> np.ndarray:
    dotted = name.replace("-idx", ".idx")
    for form in (f"{name}.gz", name, f"{dotted}.gz", dotted):
        path = os.path.join(folder, form)
        if gfile.Exists(path):
            with gfile.Open(path, "rb") as file:
                return extract(file)
    raise NotFoundError(None, None, (
        f"the MNIST file {name}.gz (or {name}) is not in {os.path.abspath(folder)!r}, and files "
        "are not downloaded: put the four files train-images-idx3-ubyte, train-labels-idx1-ubyte, "
        "t10k-images-idx3-ubyte and t10k-labels-idx1-ubyte there, with .gz or without"))
