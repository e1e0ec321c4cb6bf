"""A training job that shows which examples each step took, and what it may lose by restarts.

The program takes the words HOW AT UNTIL WHO: after step AT rank WHO ends in some way (a signal's
name, ``raise``, ``_exit``), in all starts before the UNTIL-th; or all go on slowly from there
(``slow``, ``slower``), to be ended from outside. Its checkpoints are in the folder ``model``.
"""

from __future__ import annotations

import re

INTERVAL, EXAMPLES, BATCH, EPOCHS = 5, 60, 6, 2
STEPS = EPOCHS * EXAMPLES // BATCH


def averaged_model(examples: int, batch: int, epochs: int | None = None,
                   follows: bool = False) -> str:
    """The text of a model: its step takes batches of all ranks together, and each its part.

    Their order does not depend on the number of ranks, and `total` depends on the order and number
    of all of them. With `follows` the parts are those of the ranks that are there at the time.
    """
    part = "part, parts = hf.mpi.rank_and_size()" if follows else (
        "part, parts = hf.mpi.rank(), hf.mpi.size()")
    return f"""
data = hf.data.Dataset.range({examples}).shuffle({examples}, seed=3).repeat({epochs})
iterator = data.batch({batch}).prefetch(2).make_initializable_iterator()
hf.add_to_collection(hf.GraphKeys.TABLE_INITIALIZERS, iterator.initializer)
hf.add_to_collection(hf.GraphKeys.SAVEABLE_OBJECTS,
                     hf.data.experimental.make_saveable_from_iterator(iterator))
batch = iterator.get_next()
{part}
mine = batch[part * {batch} // parts:(part + 1) * {batch} // parts]
step = hf.train.get_or_create_global_step()
total = hf.get_variable("total", [], hf.float64, initializer=hf.zeros_initializer())
added = hf.mpi.allreduce(hf.reduce_sum(hf.cast(mine + 1, hf.float64)))
with hf.control_dependencies([total.assign(0.9 * total + added)]):
    train = hf.assign_add(step, 1)
"""


def averaged(follows: bool = False) -> str:
    """The text of the program: `averaged_model`, and the end of one rank at some step."""
    return f"""
import os, signal, sys, time
import hpcflow as hf

how, at, until, who = sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), int(sys.argv[4])
count = int(os.environ["HPCFLOW_RESTART_COUNT"])
rank, size = hf.mpi.rank(), hf.mpi.size()
{averaged_model(EXAMPLES, BATCH, EPOCHS, follows)}
hooks = [hf.mpi.BroadcastVariablesHook(0), hf.train.StopAtStepHook(last_step={STEPS})]
with hf.train.MonitoredTrainingSession("", rank == 0, "model", hooks=hooks,
                                       save_checkpoint_steps={INTERVAL}) as session:
    print("begin", session.run(step), "of", size, "count", count, flush=True)
    while not session.should_stop():
        n, seen, value = session.run([train, mine, total])
        os.write(1, ("step %d %s %r\\n" % (n, ",".join(map(str, seen)), float(value))).encode())
        if how in ("slow", "slower"):  # "slower": the next checkpoint is far away
            time.sleep((1.0 if how == "slow" else 10.0) * (n >= at and count < until))
        elif n == at and rank == who and count < until:
            last = n - n % {INTERVAL}
            while how != "SIGTERM" and (  # after which the job saves
                    hf.train.latest_checkpoint("model") != "model/model.ckpt-%d" % last):
                time.sleep(0.01)  # it is written in the background
            if how == "raise":
                raise ValueError("no good")
            if how == "_exit":
                os._exit(3)
            os.kill(os.getpid(), getattr(signal, how))
print("ended", flush=True)
"""


AVERAGED = averaged()


def steps_of(logs: list[str]) -> dict[int, tuple[list[int], str]]:
    """What each step of a start took, of all ranks together, and the total after it."""
    parts: dict[int, tuple[list[int], str]] = {}
    for log in logs:
        for n, seen, value in re.findall(r"^step (\d+) (\S+) (\S+)$", log, re.MULTILINE):
            taken, total = parts.setdefault(int(n), ([], value))
            taken += map(int, seen.split(","))
            assert total == value
    return parts


def check_nothing_lost(starts: list[list[str]]) -> tuple[int, str]:
    """(the most steps that a start did again, the total at the end), from the logs of the ranks of
    each start. Of the last start that made each step: every example comes once an epoch. Steps
    done again do what they did."""
    done: dict[int, tuple[list[int], str]] = {}
    repeated = 0
    for logs in starts:
        steps = {n: s for n, s in steps_of(logs).items() if len(s[0]) == BATCH}
        again = done.keys() & steps.keys()
        repeated = max(repeated, len(again))
        assert all(sorted(done[n][0]) == sorted(steps[n][0]) and done[n][1] == steps[n][1]
                   for n in again)
        done |= steps
    assert sorted(done) == list(range(1, STEPS + 1))
    for epoch in range(EPOCHS):
        each = [e for n in range(epoch * STEPS // EPOCHS, (epoch + 1) * STEPS // EPOCHS)
                for e in done[n + 1][0]]
        assert sorted(each) == list(range(EXAMPLES))
    return repeated, done[STEPS][1]


def check_total(starts: list[list[str]], total: str) -> None:
    """The steps of all starts, none done twice, make the same total as one job would."""
    expected = 0.0
    for n in range(1, STEPS + 1):
        taken = next(s[n] for s in map(steps_of, starts) if n in s)[0]
        expected = 0.9 * expected + sum(e + 1 for e in taken)
    assert abs(float(total) - expected) < 1e-9 * expected
