"""A job over linked GPUs that loses a rank and goes on: ``mpirun -n 3 python link_shrinks.py``.

They are linked by NCCL, or with ``HPCFLOW_NCCL=0`` by memory that they share. The last rank ends
itself after some steps, between two of them or, with the argument ``amid``, while its GPU is in an
operation that cannot end. Every other rank prints a line at the end.
"""

from __future__ import annotations

import os
import signal
import sys
import threading

from gpu_ring.link_faults import library
from gpu_ring.rank_program import stand_in

import hpcflow as hf
from hpcflow import config
from hpcflow.runtime.collective.collective_device import WAYS
from hpcflow.runtime.executor.gpu.ipc_link import IpcLink

STEPS, LOST_AFTER = 8, 3


def main(amid: bool) -> None:
    """Sum the sizes of the job, a step at a time."""
    stand_in(3)
    me, dies = hf.mpi.rank(), hf.mpi.rank() == hf.mpi.size() - 1
    one = hf.mpi.allreduce(hf.ones([4]) * hf.placeholder_with_default(1.0, []))
    done, seen = 0, []
    while done < STEPS:
        try:
            with hf.Session() as session:
                while done < STEPS:
                    if dies and done == LOST_AFTER and amid and config.flags.nccl == "0":
                        IpcLink.next_half = lambda link: _die()  # all have come to it
                    elif dies and done == LOST_AFTER and amid:
                        library()._launch = lambda comm, calls: 0
                        threading.Timer(0.3, _die).start()
                    elif dies and done == LOST_AFTER:
                        _die()
                    seen.append(float(session.run(one)[0]))
                    done += 1
        except (hf.errors.UnavailableError, hf.errors.AbortedError):
            if not hf.mpi.recover():
                raise
            WAYS.clear()
    print(f"rank {me}: {seen} {dict(WAYS)} {hf.mpi.size()}", flush=True)


def _die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


if __name__ == "__main__":
    main(sys.argv[1:] == ["amid"])
