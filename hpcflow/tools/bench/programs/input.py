"""Batches of single examples that threads put into queues; the same file runs in a peer too."""

from __future__ import annotations

from types import ModuleType

import numpy as np

BATCH, CAPACITY, KEPT, SIDE = 64, 1000, 500, 28

SCALARS = f"shuffle_batch, {BATCH} scalars that are drawn"
SLICES = f"shuffle_batch, {BATCH} of a slice_input_producer's scalars"
IMAGES = f"shuffle_batch, {BATCH} of {SIDE}x{SIDE} slices with labels, 2 threads"
ORDERED = f"batch, {BATCH} of a range_input_producer's numbers"
MANY = f"shuffle_batch, {BATCH} of scalars that come {BATCH} at a time"
SET = f"data set of scalars, shuffle, repeat, batch of {BATCH}"


def scalars(tf: ModuleType):
    """An op that makes a number in each run."""
    return shuffled(tf, [tf.random_uniform([], seed=1)])


def slices(tf: ModuleType):
    """Numbers of an array and their squares, in random order twice over."""
    numbers = np.arange(CAPACITY, dtype=np.float32)
    x, y = tf.train.slice_input_producer([numbers, numbers**2], seed=1)
    return shuffled(tf, [x, y])


def images(tf: ModuleType):
    """Pictures of an array, scaled one by one."""
    random = np.random.RandomState(0)
    pixels = random.randint(0, 256, (CAPACITY, SIDE, SIDE)).astype(np.float32)
    x, y = tf.train.slice_input_producer([tf.constant(pixels), np.arange(CAPACITY)], seed=1)
    return shuffled(tf, [x / 255.0, y], num_threads=2)


def ordered(tf: ModuleType):
    """Numbers in order, doubled."""
    x = tf.train.range_input_producer(CAPACITY, shuffle=False).dequeue()
    return tf.train.batch([x * 2], BATCH, capacity=CAPACITY)


def many(tf: ModuleType):
    """Numbers that an op makes many at a time."""
    return shuffled(tf, [tf.random_uniform([BATCH], seed=1)], enqueue_many=True)


def data_set(tf: ModuleType):
    """The same of a data set."""
    numbers = np.arange(CAPACITY, dtype=np.float32)
    dataset = tf.data.Dataset.from_tensor_slices((numbers, numbers**2))
    dataset = dataset.shuffle(KEPT, seed=1).repeat().batch(BATCH)
    return tf.data.make_one_shot_iterator(dataset).get_next()


def shuffled(tf: ModuleType, tensors, **options):
    """Batches in random order, through a queue."""
    return tf.train.shuffle_batch(tensors, BATCH, CAPACITY, KEPT, seed=1, **options)


CASES = {SCALARS: scalars, SLICES: slices, IMAGES: images, ORDERED: ordered, MANY: many,
         SET: data_set}


def open_case(tf: ModuleType, case, options):
    """Build a case in a graph and session of its own: (function that runs one step, close)."""
    with tf.Graph().as_default() as graph:
        following = CASES[case](tf)
        session = tf.Session(graph=graph)
        coordinator = tf.train.Coordinator()
        threads = tf.train.start_queue_runners(session, coordinator)

    def close():
        coordinator.request_stop()
        coordinator.join(threads)
        session.close()

    return lambda: session.run(following), close
