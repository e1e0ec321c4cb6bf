"""Steps of synchronous replicas, as a 1.x program writes them; the same file runs in hpcflow and in
a peer.

One parameter server, and workers that train the Figure-1 network with SyncReplicasOptimizer: a
step of a worker computes gradients, and waits until those of all workers have been applied. The
first worker measures; the others run steps all the time, and so wait wherever it does. Run by its
path (``sync_step.py MODULE CLUSTER JOB INDEX``), this file is a task of a peer.
"""

from __future__ import annotations

import importlib
import json
import os
import subprocess
import sys
import threading
from types import ModuleType

import numpy as np

WORKERS = 2
BATCH, INPUTS, HIDDEN, CLASSES = 64, 784, 100, 10
RATE = 0.01
CASES = ("Figure-1 MLP, 2 workers, 1 PS",)


def build(tf: ModuleType, index):
    """The replica of worker `index`: (training op, feeds, hook)."""
    with tf.device(tf.train.replica_device_setter(
            1, worker_device=f"/job:worker/task:{index}")):
        global_step = tf.train.get_or_create_global_step()
        x = tf.placeholder(tf.float32, [BATCH, INPUTS])
        labels = tf.placeholder(tf.int64, [BATCH])
        w1 = tf.Variable(tf.random_normal([INPUTS, HIDDEN], stddev=0.05, seed=1))
        b1 = tf.Variable(tf.zeros([HIDDEN]))
        w2 = tf.Variable(tf.random_normal([HIDDEN, CLASSES], stddev=0.05, seed=2))
        b2 = tf.Variable(tf.zeros([CLASSES]))
        hidden = tf.nn.relu(tf.matmul(x, w1) + b1)
        loss = tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(
            labels=labels, logits=tf.matmul(hidden, w2) + b2))
        optimizer = tf.train.SyncReplicasOptimizer(
            tf.train.GradientDescentOptimizer(RATE), WORKERS, WORKERS)
        train = optimizer.minimize(loss, global_step=global_step)
        # Without tokens in advance no worker gets ahead, so an update has a gradient of each.
        hook = optimizer.make_session_run_hook(index == 0, num_tokens=0)
    random = np.random.RandomState(index)
    feeds = {x: random.standard_normal((BATCH, INPUTS)).astype(np.float32),
             labels: random.randint(0, CLASSES, BATCH)}
    return train, feeds, hook


def open_worker(tf: ModuleType, target, index):
    """The session of worker `index`: (step, close)."""
    graph = tf.Graph()
    with graph.as_default():
        train, feeds, hook = build(tf, index)
        session = tf.train.MonitoredTrainingSession(
            target, index == 0, hooks=[hook], log_step_count_steps=None)
    return lambda: session.run(train, feeds), session.close


def open_case(tf: ModuleType, case, options):
    """Start the other tasks as processes, and be the first worker: (step, close)."""
    from null_step import free_ports  # type: ignore[import-not-found]  # beside this file

    ps, *workers = [f"localhost:{port}" for port in free_ports(1 + WORKERS)]
    cluster = {"ps": [ps], "worker": workers}
    command = [sys.executable, __file__, tf.__name__, json.dumps(cluster)]
    others = [("ps", 0), *(("worker", i) for i in range(1, WORKERS))]
    children = [subprocess.Popen([*command, job, str(i)], stdin=subprocess.PIPE)
                for job, i in others]
    server = tf.train.Server(tf.train.ClusterSpec(cluster), "worker", 0)
    step, _ = open_worker(tf, server.target, 0)

    def close():
        for child in children:  # a worker may wait for gradients that do not come any more
            child.kill()
            child.wait()
        os._exit(0)  # a queue runner waits for the server that is gone

    return step, close


def serve(module, cluster, job, index):
    """Be a task of the cluster until standard input ends."""
    tf = importlib.import_module(module)
    if hasattr(tf, "disable_eager_execution"):
        tf.disable_eager_execution()
    server = tf.train.Server(tf.train.ClusterSpec(json.loads(cluster)), job, int(index))
    if job == "worker":
        step, _ = open_worker(tf, server.target, int(index))
        threading.Thread(target=keep_on, args=(step,), daemon=True).start()
    sys.stdin.read()
    os._exit(0)


def keep_on(step):
    """Run steps for ever."""
    while True:
        step()


if __name__ == "__main__":
    serve(*sys.argv[1:])
