"""The programs of the scaling figures: null steps, synchronous replicas, a language model.

``mpirun -n P+W python -m hpcflow.tools.bench.programs.sweeps '{"model": ..., "servers": P, ...}'``
runs one point; the first worker prints its steps as a line of JSON. The simulator gets the same
graphs from :func:`build`.
"""

from __future__ import annotations

import json
import math
import sys
import time
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

import hpcflow as hf

COLUMNS, ROWS = 512, 32  # of the sparse null steps: floats of a row, rows that a step touches


@dataclass(frozen=True)
class Point:
    """One point of a figure.

    Attributes:
        model: "null", "mlp" or "lstm".
        servers, workers: the tasks.
        steps: of every worker, after one that does not count.
        nbytes: null steps: of all parameters together; sparse: only some rows of them move.
        batch: examples (sentences) of a worker's step.
        synchronous: all workers' gradients count in one update; but for `backup` of them.
        straggle: every step of a worker takes a time longer, lognormal with this sigma around
            `pause` seconds.
        words, hidden, unroll, sampled: the language model; `sampled` classes, 0 is all.
    """

    model: str
    servers: int = 1
    workers: int = 1
    steps: int = 10
    nbytes: int = 4
    sparse: bool = False
    batch: int = 64
    synchronous: bool = False
    backup: int = 0
    straggle: float = 0.0
    pause: float = 0.0
    words: int = 40_000
    hidden: int = 512
    unroll: int = 20
    sampled: int = 0


def build(point: Point, index: int = 0) -> tuple[Any, dict[Any, Any], Any]:
    """The replica of worker `index`: (op of a step, feeds, a hook or None)."""
    return {"null": _null, "mlp": _mlp, "lstm": _lstm}[point.model](point, index)


def _null(point: Point, index: int) -> tuple[Any, dict[Any, Any], Any]:
    """Fetch the parameters of all servers, compute something trivial, send updates."""
    feeds: dict[Any, Any] = {}
    updates = []
    floats = point.nbytes // 4
    worker = f"/job:worker/task:{index}"
    wanted = max(1, ROWS // point.servers)
    ids = hf.placeholder(hf.int32, [wanted], name="ids") if point.sparse else None
    if point.nbytes < 8 * point.servers:
        shape: list[int] = []
    else:
        each = math.ceil(floats / point.servers)
        shape = [math.ceil(each / COLUMNS), COLUMNS] if point.sparse else [each]
    for task in range(point.servers):
        with hf.device(f"/job:ps/task:{task}"):
            parameter = hf.get_variable(f"parameter_{task}", shape,
                                        initializer=hf.ones_initializer())
            read = hf.gather(parameter, ids) if point.sparse else parameter.read_value()
        with hf.device(worker):
            update = read * 1e-3
        with hf.device(f"/job:ps/task:{task}"):
            added = (hf.scatter_add(parameter, ids, update) if point.sparse
                     else hf.assign_add(parameter, update))
        updates.append(added.op)
    if ids is not None:
        feeds[ids] = (np.arange(wanted) * 7919 % shape[0]).astype(np.int32)
    with hf.device(worker):
        return hf.group(*updates), feeds, None


def _mlp(point: Point, index: int) -> tuple[Any, dict[Any, Any], Any]:
    """The Figure-1 network, asynchronous or with SyncReplicasOptimizer."""
    with _placed(point, index):
        global_step = hf.train.get_or_create_global_step()
        x = hf.placeholder(hf.float32, [point.batch, 784], name="x")
        y = hf.placeholder(hf.int64, [point.batch], name="y")
        w1 = hf.get_variable("w1", [784, 1000])
        w2 = hf.get_variable("w2", [1000, 10])
        loss = hf.reduce_mean(hf.nn.sparse_softmax_cross_entropy_with_logits(
            labels=y, logits=hf.matmul(hf.nn.relu(hf.matmul(x, w1)), w2)))
        optimizer: Any = hf.train.GradientDescentOptimizer(0.01)
        hook = None
        if point.synchronous:
            optimizer = hf.train.SyncReplicasOptimizer(
                optimizer, point.workers - point.backup, point.workers)
        train = optimizer.minimize(loss, global_step=global_step)
        if point.synchronous:
            hook = optimizer.make_session_run_hook(index == 0)
    feeds = {x: np.ones((point.batch, 784), np.float32), y: np.zeros(point.batch, np.int64)}
    return train, feeds, hook


def _lstm(point: Point, index: int) -> tuple[Any, dict[Any, Any], Any]:
    """A language model of one LSTM layer; embedding and softmax are sharded over the servers,
    where the full softmax and its gradient are computed too."""
    shards = hf.fixed_size_partitioner(point.servers)
    with _placed(point, index):
        words = hf.placeholder(hf.int32, [point.batch, point.unroll], name="words")
        labels = hf.placeholder(hf.int64, [point.batch * point.unroll], name="labels")
        with hf.variable_scope("model", partitioner=shards):
            embedding = hf.get_variable("embedding", [point.words, point.hidden])
            weights = hf.get_variable("weights", [point.words, point.hidden])
            biases = hf.get_variable("biases", [point.words],
                                     initializer=hf.zeros_initializer())
        inputs = hf.unstack(hf.nn.embedding_lookup(embedding, words, partition_strategy="div"),
                            axis=1)
        cell = hf.contrib.rnn.BasicLSTMCell(point.hidden)
        outputs, _ = hf.contrib.rnn.static_rnn(cell, inputs, dtype=hf.float32)
        hidden = hf.reshape(hf.stack(outputs, axis=1), [-1, point.hidden])
        if point.sampled:
            losses = hf.nn.sampled_softmax_loss(
                list(weights), list(biases), hf.reshape(labels, [-1, 1]), hidden, point.sampled,
                point.words, partition_strategy="div")
        else:
            losses = hf.contrib.sharded.sharded_softmax_cross_entropy(
                list(weights), list(biases), labels, hidden)
        train = hf.train.GradientDescentOptimizer(0.1).minimize(
            hf.reduce_mean(losses), colocate_gradients_with_ops=True)
    random = np.random.RandomState(index)
    feeds = {words: random.randint(0, point.words, (point.batch, point.unroll)).astype(np.int32),
             labels: random.randint(0, point.words, point.batch * point.unroll)}
    return train, feeds, None


def _placed(point: Point, index: int) -> Any:
    return hf.device(hf.train.replica_device_setter(
        point.servers, worker_device=f"/job:worker/task:{index}"))


# ---------------------------------------------------------------- on ranks


def main(text: str) -> None:
    """A rank: serve, or run steps."""
    point = Point(**json.loads(text))
    task = hf.mpi.task(jobs={"ps": point.servers})
    server = hf.train.Server(task.cluster, task.job, task.index)
    if task.job == "ps":
        server.join()
        return
    train, feeds, hook = build(point, task.index)
    with hf.train.MonitoredTrainingSession(
            server.target, task.index == 0, hooks=[hook] if hook else [],
            log_step_count_steps=None) as session:
        times = _steps(point, task.index, lambda: session.run(train, feeds))
    if task.index == 0:
        print("times " + json.dumps(times), flush=True)


def _steps(point: Point, index: int, step: Any) -> list[float]:
    """Seconds of each step, with the pauses that are asked for."""
    random = np.random.RandomState(index)
    times = []
    for number in range(point.steps + 1):
        pause = point.pause * random.lognormal(0.0, point.straggle) if point.straggle else 0.0
        start = time.perf_counter()
        time.sleep(pause)
        step()
        if number:
            times.append(time.perf_counter() - start)
    return times


def arguments_of(point: Point) -> str:
    """Return the command-line argument of :func:`main` for a point."""
    return json.dumps(asdict(point))


if __name__ == "__main__":
    main(sys.argv[1])
