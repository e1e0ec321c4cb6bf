"""A training job whose first worker raises while every other rank waits for it or works.

Usage: ``srun --mpi=pmix python tests/site/failing_rank.py``. The whole job must end with a
non-zero status and the message, within seconds.
"""

from __future__ import annotations

import hpcflow as hf

MESSAGE = "this worker fails on purpose"


def main() -> None:
    """Serve, work, or fail."""
    task = hf.mpi.task(jobs={"ps": 1})
    server = hf.train.Server(task.cluster, job_name=task.job, task_index=task.index)
    if task.job == "ps":
        server.join()
        return
    with hf.device(hf.train.replica_device_setter(cluster=task.cluster)):
        counter = hf.get_variable("counter", initializer=0.0)
        step = counter.assign_add(1.0)
    with hf.Session(server.target) as session:
        if task.index == 0:
            session.run(counter.initializer)
            session.run(step)
            raise RuntimeError(MESSAGE)
        while True:
            if session.run(hf.is_variable_initialized(counter)):
                session.run(step)


if __name__ == "__main__":
    main()
