"""Save or restore a checkpoint whose variables live on two parameter servers.

Usage: ``mpirun -n N python tests/site/check_checkpoints.py {save,restore} PREFIX`` with N >= 3.
What is saved follows from the names alone, so that a job with another number of ranks, another
MPI can check every value it restores.
"""

from __future__ import annotations

import sys
import zlib
from collections.abc import Mapping
from pathlib import Path

import numpy as np

import hpcflow as hf

PARAMETER_SERVERS = 2
PARTS = 3
SHAPES: dict[str, tuple[tuple[int, ...], type]] = {
    "scalar": ((), np.int64),
    "vector": ((1000,), np.float32),
    "matrix": ((300, 70), np.float32),
    "doubles": ((17, 3, 5), np.float64),
    "flags": ((33,), np.bool_),
    "bytes": ((64,), np.uint8),
    "empty": ((0, 4), np.float32),
}
PARTITIONED = "table"
PARTITIONED_SHAPE = (1001, 16)


def expected(name: str, shape: tuple[int, ...], dtype: type) -> np.ndarray:
    """The values of a variable, the same in every job."""
    generator = np.random.default_rng(zlib.crc32(name.encode()))
    return np.asarray(generator.uniform(0, 200, shape)).astype(dtype)


def build() -> dict[str, tuple[hf.Variable, np.ndarray]]:
    """All variables, starting from zero, with what they are expected to hold."""
    variables = {}
    for name, (shape, dtype) in SHAPES.items():
        variable = hf.get_variable(name, initializer=np.zeros(shape, dtype))
        variables[name] = (variable, expected(name, shape, dtype))
    table = hf.get_variable(
        PARTITIONED,
        PARTITIONED_SHAPE,
        initializer=hf.zeros_initializer(),
        partitioner=hf.fixed_size_partitioner(PARTS),
    )
    start, values = 0, expected(PARTITIONED, PARTITIONED_SHAPE, np.float32)
    for index, part in enumerate(table):
        stop = start + part.get_shape()[0].value
        variables[f"{PARTITIONED}/{index}"] = (part, values[start:stop])
        start = stop
    return variables


def save(
    session: hf.Session, variables: Mapping[str, tuple[hf.Variable, np.ndarray]], prefix: str
) -> None:
    """Give every variable its value and write the checkpoint."""
    saver = hf.train.Saver()
    session.run(hf.global_variables_initializer())
    for variable, value in variables.values():
        variable.load(value, session)
    Path(prefix).parent.mkdir(parents=True, exist_ok=True)
    print(f"saved {saver.save(session, prefix, global_step=7)}")


def restore(
    session: hf.Session, variables: Mapping[str, tuple[hf.Variable, np.ndarray]], prefix: str
) -> None:
    """Read the checkpoint and compare every variable. Raises AssertionError where one differs."""
    hf.train.Saver().restore(session, f"{prefix}-7")
    found = session.run({name: variable for name, (variable, _) in variables.items()})
    for name, (_, value) in variables.items():
        np.testing.assert_array_equal(found[name], value, err_msg=name)
        assert found[name].dtype == value.dtype, name
    print(f"restored {len(found)} variables")


def main(action: str, prefix: str) -> None:
    """Serve, or save or restore from the first worker."""
    task = hf.mpi.task(jobs={"ps": PARAMETER_SERVERS})
    server = hf.train.Server(task.cluster, job_name=task.job, task_index=task.index)
    if task.job == "ps":
        server.join()
        return
    if task.index == 0:
        with hf.device(hf.train.replica_device_setter(cluster=task.cluster)):
            variables = build()
        with hf.Session(server.target) as session:
            {"save": save, "restore": restore}[action](session, variables, prefix)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2])
