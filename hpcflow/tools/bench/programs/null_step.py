"""The null step, as a 1.x program writes it; the same file runs in hpcflow and in a peer.

A worker reads a parameter from each server, computes an update from it, and sends that back to be
added. Run by its path (``null_step.py MODULE CLUSTER INDEX``), this file is a server of a peer:
where servers are processes of their own, the worker starts them.
"""

import importlib
import json
import os
import socket
import subprocess
import sys

# parameter += -2 * parameter only turns its sign: it neither grows nor vanishes, and a step that
# did not happen shows.
FACTOR = -2.0

# Bytes of all parameters together.
CASES = {"scalar": 4, "1 MB": 1_000_000, "100 MB": 100_000_000}


def shape_of(case, servers):
    """The shape of each server's float32 parameter: an equal part of the case's bytes."""
    return [] if case == "scalar" else [CASES[case] // 4 // servers]


def build(tf, case, servers):
    """The graph: (parameters, the ops that a step runs)."""
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
    return parameters, updates if servers > 1 else updates[0]


def open_session(tf, target, case, servers):
    """A session of the worker whose server is `target`: (session, parameters, step)."""
    graph = tf.Graph()
    with graph.as_default():
        parameters, updates = build(tf, case, servers)
        initialize = tf.global_variables_initializer()
    session = tf.Session(target, graph=graph)
    session.run(initialize)
    return session, parameters, lambda: session.run(updates)


def open_case(tf, case, options):
    """Start servers as processes, and a session over them: (step, close)."""
    servers = options["servers"]
    *ps, worker = [f"localhost:{port}" for port in free_ports(servers + 1)]
    cluster = {"ps": ps, "worker": [worker]}
    command = [sys.executable, __file__, tf.__name__, json.dumps(cluster)]
    children = [
        subprocess.Popen([*command, str(task)], stdin=subprocess.PIPE) for task in range(servers)
    ]
    server = tf.train.Server(tf.train.ClusterSpec(cluster), "worker", 0)
    session, _, step = open_session(tf, server.target, case, servers)

    def close():
        session.close()
        for child in children:
            child.communicate()  # ends its input

    return step, close


def free_ports(count):
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
