"""The smallest program over parameter servers: ranks fit a line to points made up here.

    python -m hpcflow run -n 3 --ps 1 examples/minimal_ps.py
    python examples/minimal_ps.py                                 one process, no MPI
"""

import numpy as np

import hpcflow as hf

STEPS = 500
task = hf.mpi.task()  # which part of the work is this rank's
server = hf.train.Server(task.cluster, task.job, task.index)
if task.job == "ps":
    server.join()  # serves the variables until the workers are done, and ends the program
    raise SystemExit

# Variables go to the parameter servers, everything else to this worker.
with hf.device(hf.train.replica_device_setter(
        cluster=task.cluster, worker_device=f"/job:worker/task:{task.index}")):
    x = hf.placeholder(hf.float32, [None, 2], name="x")
    y = hf.placeholder(hf.float32, [None], name="y")
    weights = hf.get_variable("weights", [2], initializer=hf.zeros_initializer())
    bias = hf.get_variable("bias", [], initializer=hf.zeros_initializer())
    loss = hf.reduce_mean(hf.square(hf.reduce_sum(x * weights, 1) + bias - y))
    step = hf.train.get_or_create_global_step()
    train = hf.train.GradientDescentOptimizer(0.1).minimize(loss, global_step=step)

random = np.random.default_rng(task.index)  # every worker draws points of its own
is_chief = task.index == 0  # the first worker initializes, the others wait for it
hooks = [hf.train.StopAtStepHook(last_step=STEPS)]
with hf.train.MonitoredTrainingSession(server.target, is_chief, hooks=hooks) as session:
    while not session.should_stop():
        points = random.normal(size=(32, 2)).astype(np.float32)
        values = points @ [2.0, -1.0] + 0.5
        _, error, found, offset = session.run([train, loss, weights, bias],
                                              {x: points, y: values})

print(f"worker {task.index}: loss {error:.6f}, weights {found.round(2)}, bias {offset:.2f}")
