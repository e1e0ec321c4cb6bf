"""The smallest program without parameter servers: ranks average their gradients.

    python -m hpcflow run -n 2 examples/minimal_allreduce.py
    python examples/minimal_allreduce.py                          one process, no MPI
"""

import numpy as np

import hpcflow as hf

STEPS = 200
x = hf.placeholder(hf.float32, [None, 2], name="x")
y = hf.placeholder(hf.float32, [None], name="y")
weights = hf.get_variable("weights", [2], initializer=hf.zeros_initializer())
bias = hf.get_variable("bias", [], initializer=hf.zeros_initializer())
loss = hf.reduce_mean(hf.square(hf.reduce_sum(x * weights, 1) + bias - y))

# Every rank has all variables; the optimizer averages the gradients of all ranks.
optimizer = hf.mpi.DistributedOptimizer(hf.train.GradientDescentOptimizer(0.1))
step = hf.train.get_or_create_global_step()
train = optimizer.minimize(loss, global_step=step)

random = np.random.default_rng(hf.mpi.rank())  # every rank draws points of its own
hooks = [hf.mpi.BroadcastVariablesHook(0),     # all begin with the variables of rank 0
         hf.train.StopAtStepHook(last_step=STEPS)]
with hf.train.MonitoredTrainingSession(hooks=hooks) as session:
    while not session.should_stop():
        points = random.normal(size=(32, 2)).astype(np.float32)
        values = points @ [2.0, -1.0] + 0.5
        _, error, found, offset = session.run([train, loss, weights, bias],
                                              {x: points, y: values})

print(f"rank {hf.mpi.rank()} of {hf.mpi.size()}: loss {error:.6f}, "
      f"weights {found.round(2)}, bias {offset:.2f}")
