"""The null step, as a 1.x program writes it; the same file runs in hpcflow and in a peer.

A worker reads a parameter from each server, computes an update from it, and sends that back to be
added. Run by its path (``null_step.py MODULE CLUSTER INDEX``), this file is a server of a peer:
where servers are processes of their own, the worker starts them.
"""

from __future__ import annotations

import importlib
import json
import os
import socket
import subprocess
import sys
from types import ModuleType

import numpy as np

# parameter += -2 * parameter only turns its sign: it neither grows nor vanishes, and a step that
# did not happen shows.
FACTOR = -2.0

SPARSE = "32 rows of 1 GB"
# Of the sparse case: what a step reads and updates in all, and the floats of a row.
ROWS, COLUMNS = 32, 512

# Bytes of all parameters together.
CASES = {"scalar": 4, "1 MB": 1_000_000, "100 MB": 100_000_000, SPARSE: 1_000_000_000}


def shape_of(case, servers):
    """The shape of each server's float32 parameter: an equal part of the case's bytes."""
    if case == SPARSE:
        return [CASES[case] // 4 // COLUMNS // servers, COLUMNS]
    return [] if case == "scalar" else [CASES[case] // 4 // servers]


def rows_of_step(servers):
    """The rows of every server that a step reads: spread, and not in order."""
    count = shape_of(SPARSE, servers)[0]
    wanted = ROWS // servers
    return ((np.arange(wanted) * 7919 + 13) * (count // wanted // 3) % count).astype(np.int32)


def build(tf: ModuleType, case, servers):
    """The graph: (what tells whether a step happened, the ops that a step runs, its feeds)."""
    if case == SPARSE:
        return build_sparse(tf, servers)
    shape, prefix = shape_of(case, servers), case.replace(" ", "_")
    parameters, updates = [], []
    for task in range(servers):
        with tf.device(f"/job:ps/task:{task}"):
            parameter = tf.Variable(tf.ones(shape), name=f"{prefix}/parameter_{task}")
        with tf.device("/job:worker/task:0"):
            update = parameter * FACTOR
        with tf.device(f"/job:ps/task:{task}"):
            updates.append(tf.assign_add(parameter, update).op)
        parameters.append(parameter)
    return parameters, updates if servers > 1 else updates[0], None


def build_sparse(tf: ModuleType, servers):
    """As `build`, for rows of which the worker tells every server the numbers."""
    ids = tf.placeholder(tf.int32, [ROWS // servers])
    seen, updates = [], []
    for task in range(servers):
        with tf.device(f"/job:ps/task:{task}"):
            parameter = tf.Variable(tf.ones(shape_of(SPARSE, servers)), name=f"rows/{task}")
            rows = tf.gather(parameter, ids)
        with tf.device("/job:worker/task:0"):
            update = rows * FACTOR
        with tf.device(f"/job:ps/task:{task}"):
            updates.append(tf.scatter_add(parameter, ids, update).op)
        seen.append(rows)
    return seen, updates if servers > 1 else updates[0], {ids: rows_of_step(servers)}


def open_session(tf: ModuleType, target, case, servers):
    """A session of the worker whose server is `target`: (what a step turns the sign of, step,
    close)."""
    graph = tf.Graph()
    with graph.as_default():
        parameters, updates, feeds = build(tf, case, servers)
        initialize = tf.global_variables_initializer()
    session = tf.Session(target, graph=graph)
    session.run(initialize)
    return lambda: session.run(parameters, feeds), lambda: session.run(updates, feeds), (
        session.close)


def open_case(tf: ModuleType, case, options):
    """Start servers as processes, and a session over them: (step, close)."""
    servers = options["servers"]
    *ps, worker = [f"localhost:{port}" for port in free_ports(servers + 1)]
    cluster = {"ps": ps, "worker": [worker]}
    command = [sys.executable, __file__, tf.__name__, json.dumps(cluster)]
    children = [
        subprocess.Popen([*command, str(task)], stdin=subprocess.PIPE) for task in range(servers)
    ]
    server = tf.train.Server(tf.train.ClusterSpec(cluster), "worker", 0)
    _, step, close_session = open_session(tf, server.target, case, servers)

    def close():
        close_session()
        for child in children:
            child.communicate()  # ends its input

    return step, close


def free_ports(count: int):
    """Ports of this host that nobody listens on."""
    sockets = [socket.socket() for _ in range(count)]
    for each in sockets:
        each.bind(("localhost", 0))
    ports = [each.getsockname()[1] for each in sockets]
    for each in sockets:
        each.close()
    return ports


def serve(module, cluster, task):
    """Be the parameter server `task` until the worker closes standard input, or dies."""
    tf = importlib.import_module(module)
    server = tf.train.Server(tf.train.ClusterSpec(json.loads(cluster)), "ps", int(task))
    sys.stdin.read()
    del server
    os._exit(0)


if __name__ == "__main__":
    serve(*sys.argv[1:])
