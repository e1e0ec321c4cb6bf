"""Data sets, as a 1.x program writes them; the same file runs in a peer too."""

from __future__ import annotations

from types import ModuleType

import numpy as np

BATCH, BUFFER, SIDE = 64, 1000, 28

NUMBERS = f"range, map, shuffle, batch of {BATCH}"
AHEAD = f"range, map, shuffle, batch of {BATCH}, prefetch"
BATCHES = f"range, batch of {BATCH}"
IMAGES = f"{SIDE}x{SIDE} images, map, shuffle, batch of {BATCH}"
GENERATOR = f"generator, batch of {BATCH}"
SINGLE = "range, one by one"


def numbers(tf: ModuleType):
    """Numbers through a function and a buffer."""
    dataset = tf.data.Dataset.range(10**9).map(lambda x: x * 2 + 1)
    return dataset.shuffle(BUFFER, seed=1).batch(BATCH)


def images(tf: ModuleType):
    """Slices of arrays."""
    random = np.random.RandomState(0)
    pixels = random.randint(0, 256, (BUFFER, SIDE, SIDE)).astype(np.float32)
    dataset = tf.data.Dataset.from_tensor_slices((pixels, np.arange(BUFFER)))
    dataset = dataset.map(lambda x, y: (x / 255.0, y)).shuffle(BUFFER // 2, seed=1)
    return dataset.repeat().batch(BATCH)


def generator(tf: ModuleType):
    """Return a data set of the values that a Python generator yields, in batches."""
    return tf.data.Dataset.from_generator(lambda: iter(range(10**9)), tf.int64, []).batch(BATCH)


# Title -> (function of the library that makes the data set, elements of a step).
CASES = {
    NUMBERS: (numbers, BATCH),
    AHEAD: (lambda tf: numbers(tf).prefetch(2), BATCH),
    BATCHES: (lambda tf: tf.data.Dataset.range(10**9).batch(BATCH), BATCH),
    IMAGES: (images, BATCH),
    GENERATOR: (generator, BATCH),
    SINGLE: (lambda tf: tf.data.Dataset.range(10**9), 1),
}


def open_case(tf: ModuleType, case, options):
    """Build a case in a graph and session of its own: (function that runs one step, close)."""
    graph = tf.Graph()
    with graph.as_default():
        following = tf.data.make_one_shot_iterator(CASES[case][0](tf)).get_next()
        session = tf.Session(graph=graph)
        return lambda: session.run(following), session.close
