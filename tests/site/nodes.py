"""A Slurm of several nodes on this machine, one of which can die.

Each has a slurmd of its own, in namespaces of its own for its name and for where Slurm puts what
PMIx needs.
"""

from __future__ import annotations

import os
import signal
from pathlib import Path

from cluster import SLURM_CONF, SlurmCluster, free_ports

#: Of slurmctld: after which a node that does not answer is down.
DOWN_SECONDS = 30


class Nodes(SlurmCluster):
    """A cluster of the nodes node0, node1 and so on."""

    def __init__(self, log_directory: Path, count: int) -> None:
        super().__init__(log_directory)
        self.names = [f"node{i}" for i in range(count)]

    def _conf(self) -> str:
        lines = [line.replace("/spool", "/spool.%n").replace("slurmd.pid", "slurmd.%n.pid")
                 .replace("slurmd.log", "slurmd.%n.log")
                 for line in SLURM_CONF.splitlines()
                 if not line.startswith(("SlurmdPort", "NodeName", "PartitionName"))]
        ports = free_ports(len(self.names))
        lines += [f"NodeName={name} NodeHostname={{host}} NodeAddr=127.0.0.1 Port={port} CPUs=2 "
                  "State=UNKNOWN" for name, port in zip(self.names, ports, strict=True)]
        return "\n".join([*lines, f"SlurmdTimeout={DOWN_SECONDS}",
                          "PartitionName=site Nodes=ALL Default=YES MaxTime=60 State=UP\n"])

    def _start_nodes(self) -> None:
        for name in self.names:
            (self.directory / f"spool.{name}").mkdir()
            own = self.directory / f"pmix.{name}"
            own.mkdir()
            self._spawn("unshare", "-mu", "sh", "-c", f"hostname {name} && "
                        f"mount --bind {own} {self.directory}/pmix && "
                        f"exec slurmd -D -N {name} -f {self.configuration}", name=name)

    def kill(self, name: str) -> None:
        """Let a node die with all that runs on it."""
        daemon = self.daemons.pop(name)
        node = _namespace(daemon.pid)
        for folder in Path("/proc").iterdir():
            if folder.name.isdigit() and _namespace(int(folder.name)) == node:
                os.kill(int(folder.name), signal.SIGKILL)
        daemon.wait()


def _namespace(pid: int) -> str:
    try:
        return os.readlink(f"/proc/{pid}/ns/mnt")
    except OSError:  # it has ended
        return ""
