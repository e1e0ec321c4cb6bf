"""Saving and restoring variables, as a 1.x program does it; the same file runs in a peer too."""

from __future__ import annotations

import glob
import os
import shutil
import tempfile
from types import ModuleType

import numpy as np

SEEN, DURABLE, RESTORE = "save, seen by the step", "save, on disk", "restore"
CASES = (SEEN, DURABLE, RESTORE)
PLAIN_JOB, SAVING_JOB = "training steps", "training steps, each beside a save"
PARTS = 10
BATCH = 64


def open_case(tf: ModuleType, case, options):
    """Build a case with ``options["megabytes"]`` of variables in a directory of its own."""
    if case in (PLAIN_JOB, SAVING_JOB):
        return _open_job_case(tf, case, options)
    directory = tempfile.mkdtemp(prefix="bench-checkpoints-", dir=options["directory"])
    path = os.path.join(directory, "model")
    with tf.Graph().as_default() as graph:
        count = options["megabytes"] * 250_000 // PARTS
        values = np.random.default_rng(0).standard_normal(count, np.float32)
        start = tf.placeholder(tf.float32, [count])
        for number in range(PARTS):
            tf.get_variable(f"v{number}", initializer=start + number, use_resource=True)
        saver = tf.train.Saver(max_to_keep=1, **options["saver"])
        session = tf.Session(graph=graph)
        session.run(tf.global_variables_initializer(), {start: values})
        saver.save(session, path, write_meta_graph=False)

    def save():
        saver.save(session, path, write_meta_graph=False)

    def save_durably():
        save()
        for file in glob.glob(path + "*"):
            synchronize(file)
        synchronize(directory)

    def close():
        if hasattr(saver, "join"):
            saver.join()
        session.close()
        shutil.rmtree(directory)

    steps = {SEEN: save, DURABLE: save_durably,
             RESTORE: lambda: saver.restore(session, path)}
    # What is saved in the background is waited for between two steps, not in them.
    save.wait = getattr(saver, "join", lambda: None)  # type: ignore[attr-defined]
    return steps[case], close


def _open_job_case(tf, case, options):
    step, save, join, close = open_job(tf, options["megabytes"], options["directory"])

    def step_beside_a_save():
        save()
        step()
        join()

    return (step if case == PLAIN_JOB else step_beside_a_save), close


def open_job(tf, megabytes, directory):
    """A job that trains ``megabytes`` of weights and can save them in the background; returns its
    step, the save, what waits for the end of a save, and what ends the job."""
    width = round((megabytes * 250_000 / PARTS) ** 0.5)
    with tf.Graph().as_default() as graph:
        weights = [tf.get_variable(f"w{number}", [width, width], use_resource=True,
                                   initializer=tf.random_normal_initializer(stddev=width ** -0.5))
                   for number in range(PARTS)]
        batch = tf.placeholder(tf.float32, [BATCH, width])
        out = batch
        for weight in weights:
            out = tf.nn.relu(tf.matmul(out, weight))
        train = tf.train.GradientDescentOptimizer(0.01).minimize(tf.reduce_mean(out * out))
        saver = tf.train.Saver(max_to_keep=1, async_save=True)
        session = tf.Session(graph=graph)
        session.run(tf.global_variables_initializer())
    values = np.random.default_rng(0).standard_normal((BATCH, width), np.float32)
    path = os.path.join(directory, "job")
    return (lambda: session.run(train, {batch: values}),
            lambda: saver.save(session, path, write_meta_graph=False), saver.join, session.close)


def synchronize(path):
    """Wait until a file, or the names in a directory, are on disk."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
