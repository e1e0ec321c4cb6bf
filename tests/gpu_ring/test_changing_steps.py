"""Training whose feeds change in shape and value from step to step, with random numbers of all
kinds: what the CPU computes, though most steps are launched as graphs."""

from __future__ import annotations

from typing import Any

import numpy as np
from gpu_ring.conftest import real_gpus

import hpcflow as hf

BATCHES = [4, 4, 4, 4, 4, 9, 9, 9, 9, 1, 1, 1, 1, 4, 4, 0, 4, 17, 17, 17, 17, 4, 30, 4]
ASSIGNED = 14  # after this step a variable is assigned from outside


def trained(gpus: int) -> list[Any]:
    """What every step fetches, and the variables at the end."""
    drawn, found = np.random.default_rng(0), []
    with hf.Graph().as_default():
        hf.set_random_seed(5)
        x, rate = hf.placeholder(hf.float32, [None, 6]), hf.placeholder(hf.float32, [])
        rows = hf.placeholder(hf.int32, [None])
        w, b = hf.Variable(hf.truncated_normal([6, 8], seed=2)), hf.Variable(hf.zeros([8]))
        hidden = hf.nn.dropout(hf.nn.relu(hf.matmul(x, w) + b), 0.7, seed=3)
        noise = hf.cast(hf.random_uniform([8], 0, 5, hf.int32, seed=9), hf.float32)
        classes = hf.multinomial(hidden, 3, seed=4)
        loss = hf.reduce_mean(hf.square(hidden + noise)) + hf.reduce_mean(hf.gather(w, rows))
        train = hf.train.AdamOptimizer(rate).minimize(loss)
        large = hf.reduce_sum(hf.tile(x, [3, 5]))
        best = hf.nn.top_k(x * 2.0, 3)[1]
        with hf.Session(config=hf.ConfigProto(device_count={"GPU": gpus})) as session:
            session.run(hf.global_variables_initializer())
            for i, batch in enumerate(BATCHES):
                feeds = {x: drawn.standard_normal((batch, 6)), rate: 0.01 * (1 + i % 3),
                         rows: drawn.integers(0, 6, batch + 1)}
                found.append(session.run([train, loss, classes, large, best], feeds)[1:])
                if i == ASSIGNED:
                    w.load(np.ones((6, 8), np.float32), session)
            found.append(session.run([w, b]))
            if gpus and not real_gpus():
                [gpu] = [d for d in session._engine.task.devices if d.type == "GPU"]
                assert sum(r.launches for r in gpu.recorded) > 5, [
                    r.describe() for r in gpu.recorded]
    return found


def test_steps_are_those_of_the_cpu() -> None:
    for i, (mine, theirs) in enumerate(zip(trained(0), trained(1), strict=True)):
        for a, b in zip(mine, theirs, strict=True):
            np.testing.assert_allclose(b, a, rtol=1e-3, atol=1e-5, err_msg=f"step {i}")
