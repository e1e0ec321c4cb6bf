"""Digits of local files, words as numbers, and names that say what to use."""

from __future__ import annotations

import gzip
import struct

import numpy as np
import pytest

import hpcflow as hf
from hpcflow.contrib import learn
from hpcflow.examples.tutorials.mnist import input_data, mnist

FILES = {"train-images-idx3-ubyte": (2051, (60, 28, 28)), "train-labels-idx1-ubyte": (2049, (60,)),
         "t10k-images-idx3-ubyte": (2051, (10, 28, 28)), "t10k-labels-idx1-ubyte": (2049, (10,))}


@pytest.fixture(params=["gz", "plain"])
def folder(request, tmp_path):
    rng = np.random.RandomState(0)
    for name, (magic, shape) in FILES.items():
        data = rng.randint(0, 10, shape).astype(np.uint8)
        content = struct.pack(f">{1 + len(shape)}I", magic, *shape) + data.tobytes()
        path = tmp_path / (f"{name}.gz" if request.param == "gz" else name)
        path.write_bytes(gzip.compress(content) if request.param == "gz" else content)
    return str(tmp_path)


def test_the_files_become_three_sets(folder):
    found = input_data.read_data_sets(folder, one_hot=True, validation_size=20)
    assert [s.num_examples for s in found] == [40, 20, 10]
    assert found.train.images.shape == (40, 784) and found.train.labels.shape == (40, 10)
    assert found.train.images.dtype == np.float32 and found.train.images.max() <= 9 / 255 + 1e-6
    whole = input_data.read_data_sets(folder, reshape=False, dtype=hf.uint8, validation_size=0)
    assert whole.train.images.shape == (60, 28, 28, 1) and whole.train.images.dtype == np.uint8
    assert set(whole.train.labels) <= set(range(10))


def test_batches_go_on_into_the_next_epoch(folder):
    data = input_data.read_data_sets(folder, dtype=hf.uint8, validation_size=0).train
    first = [data.next_batch(25, shuffle=False)[0] for _ in range(3)]
    assert data.epochs_completed == 1
    np.testing.assert_array_equal(first[2][10:], first[0][:15])


def test_a_seed_gives_one_order(folder):
    def order():
        data = input_data.read_data_sets(folder, seed=5, validation_size=0).train
        return np.concatenate([data.next_batch(25)[1] for _ in range(5)])

    np.testing.assert_array_equal(order(), order())


def test_missing_and_damaged_files_are_clear_errors(tmp_path):
    with pytest.raises(hf.errors.NotFoundError, match="put the four files"):
        input_data.read_data_sets(str(tmp_path))
    (tmp_path / "train-images-idx3-ubyte").write_bytes(b"nothing of the kind")
    with pytest.raises(ValueError, match="Invalid magic number"):
        input_data.read_data_sets(str(tmp_path))


@pytest.mark.parametrize(("damage", "message"), [
    (lambda whole: whole[:-12], "is damaged"),
    (lambda whole: whole[:10] + b"\7", "is damaged"),
    (lambda _: gzip.compress(struct.pack(">4I", 2051, 1 << 31, 1 << 20, 9)), "ends after 0 of")])
def test_damaged_files(tmp_path, damage, message):
    whole = gzip.compress(struct.pack(">4I", 2051, 2, 2, 2) + bytes(range(8)))
    (tmp_path / "images.gz").write_bytes(damage(whole))
    with open(tmp_path / "images.gz", "rb") as file, pytest.raises(ValueError, match=message):
        learn.datasets.mnist.extract_images(file)


def test_the_network_of_the_tutorial_learns():
    rng = np.random.RandomState(0)
    images, labels = rng.rand(50, 784).astype(np.float32), rng.randint(0, 10, 50)
    with hf.Graph().as_default():
        hf.set_random_seed(1)
        logits = mnist.inference(images, 64, 32)
        loss = mnist.loss(logits, labels)
        step, right = mnist.training(loss, 0.1), mnist.evaluation(logits, labels)
        with hf.Session() as session:
            session.run(hf.global_variables_initializer())
            before = session.run(right)
            for _ in range(150):
                session.run(step)
            assert session.run(right) > before + 10


def test_a_vocabulary_numbers_words_and_is_kept_in_a_file(tmp_path):
    words = learn.preprocessing.VocabularyProcessor(5)
    texts = ["the cat sat", "the dog's HTMLParser sat on"]
    rows = np.array(list(words.fit_transform(texts)))
    np.testing.assert_array_equal(rows, [[1, 2, 3, 0, 0], [1, 4, 5, 6, 3]])
    assert len(words.vocabulary_) == 8
    words.save(str(tmp_path / "words"))
    again = learn.preprocessing.VocabularyProcessor.restore(str(tmp_path / "words"))
    np.testing.assert_array_equal(list(again.transform(["a cat on"])), [[0, 2, 7, 0, 0]])
    assert list(again.reverse(rows[:1])) == ["the cat sat <UNK> <UNK>"]
    (tmp_path / "pickled").write_bytes(b"\x80\x03csomething")
    with pytest.raises(ValueError, match="fit it again"):
        learn.preprocessing.VocabularyProcessor.restore(str(tmp_path / "pickled"))


def test_rare_words_are_unknown():
    words = learn.preprocessing.VocabularyProcessor(3, min_frequency=1)
    rows = list(words.fit_transform(["b a", "a b b", "c"]))
    np.testing.assert_array_equal(rows, [[1, 2, 0], [2, 1, 1], [0, 0, 0]])


def test_absent_estimators_say_what_to_use():
    assert learn.ModeKeys.INFER == "infer" and issubclass(
        learn.RunConfig, hf.estimator.RunConfig)
    with pytest.raises(AttributeError, match=r"hf\.estimator\.LinearClassifier"):
        _ = learn.SVM
