"""A Slurm in a directory of its own: munge, slurmctld and slurmd, without systemd.

Nothing outside the directory is read or written, and the ports are free ones, so that it runs
beside a Slurm of the machine, and again after a run that was killed.
"""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

START_SECONDS = 300.0  # on a busy machine
STOP_SECONDS = 15.0
# More than the machine has: the ranks share its cores.
CPUS = 8

SLURM_CONF = """\
ClusterName=hpcflow-site
SlurmctldHost={host}(127.0.0.1)
SlurmctldPort={controller_port}
SlurmdPort={node_port}
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
AuthInfo=socket={directory}/munge/socket,cred_expire=5
CredType=cred/munge
StateSaveLocation={directory}/state
SlurmdSpoolDir={directory}/spool
SlurmctldPidFile={directory}/slurmctld.pid
SlurmdPidFile={directory}/slurmd.pid
SlurmctldLogFile={directory}/log/slurmctld.log
SlurmdLogFile={directory}/log/slurmd.log
MpiDefault=pmix
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/none
AccountingStorageType=accounting_storage/none
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
SlurmdParameters=config_overrides
SwitchType=switch/none
MailProg=/bin/true
ReturnToService=2
KillWait=5
InactiveLimit=0
NodeName={host} NodeAddr=127.0.0.1 CPUs={cpus} State=UNKNOWN
PartitionName=site Nodes={host} Default=YES MaxTime=60 State=UP
"""


class SlurmCluster:
    """Starts the daemons on entry and ends them, with every job, on exit.

    `log_directory` receives the daemons' logs on exit. `environment` is what Slurm's commands
    need to find this cluster.
    """

    def __init__(self, log_directory: Path) -> None:
        self.log_directory = log_directory
        # The paths of sockets are limited to about 100 characters: not below the repository.
        self.directory = Path(tempfile.mkdtemp(prefix="hpcflow-site-", dir="/tmp"))
        self.configuration = self.directory / "slurm.conf"
        self.environment = dict(os.environ, SLURM_CONF=str(self.configuration))
        self.daemons: dict[str, subprocess.Popen[bytes]] = {}
        self.names = [socket.gethostname().partition(".")[0]]

    def __enter__(self) -> SlurmCluster:
        try:
            self._prepare()
            self._start_munge()
            self._start_daemon("slurmctld", "-D", "-i")
            self._start_nodes()
            self._wait_until_idle()
        except BaseException:
            self._stop()
            raise
        return self

    def __exit__(self, *exception: object) -> None:
        self._stop()

    def _prepare(self) -> None:
        """Make the directories, the key and slurm.conf."""
        self.directory.chmod(0o755)
        for name in ("munge", "state", "spool", "log", "pmix"):
            (self.directory / name).mkdir(mode=0o755)
        key = self.directory / "munge" / "key"
        key.touch(0o400)
        key.write_bytes(os.urandom(1024))
        controller_port, node_port = free_ports(2)
        self.configuration.write_text(
            self._conf().format(
                host=socket.gethostname().partition(".")[0],
                directory=self.directory,
                controller_port=controller_port,
                node_port=node_port,
                cpus=max(CPUS, os.cpu_count() or 1),
            )
        )

        # Not in /tmp: one that trips over what a killed manager of its number left does not start.
        (self.directory / "mpi.conf").write_text(f"PMIxCliTmpDirBase={self.directory}/pmix\n")

    def _conf(self) -> str:
        """The template of slurm.conf."""
        return SLURM_CONF

    def _start_nodes(self) -> None:
        self._start_daemon("slurmd", "-D")

    def _start_munge(self) -> None:
        folder = self.directory / "munge"
        files = {"key-file": "key", "pid-file": "pid", "seed-file": "seed", "log-file": "log"}
        options = [f"--{option}={folder / name}" for option, name in files.items()]
        self._spawn("munged", "--foreground", "--force", f"--socket={folder / 'socket'}", *options)
        self._wait_for("munge's socket", lambda: (folder / "socket").exists())

    def _start_daemon(self, name: str, *options: str) -> None:
        self._spawn(name, *options, "-f", str(self.configuration))

    def _spawn(self, program: str, *options: str, name: str = "") -> None:
        """Start a daemon in the foreground, found where Debian puts it."""
        name, folders = name or program, f"{os.environ.get('PATH', '')}:/usr/sbin:/sbin"
        path = shutil.which(program, path=folders)
        if path is None:
            raise RuntimeError(f"{program} is not installed")
        with (self.directory / "log" / f"{name}.out").open("wb") as output:
            self.daemons[name] = subprocess.Popen(
                [path, *options],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                env=self.environment | {"PATH": folders},
                start_new_session=True,
            )

    def _wait_until_idle(self) -> None:
        def idle() -> bool:
            states = self.command("sinfo", "--noheader", "--Node", "--format=%T", check=False)
            return states.split() == ["idle"] * len(self.names)

        self._wait_for("the nodes to become idle", idle)

    def _wait_for(self, what: str, done: Callable[[], bool]) -> None:
        """Poll `done` until it holds. Raises RuntimeError if a daemon ends or time runs out."""
        deadline = time.monotonic() + START_SECONDS
        while not done():
            ended = [name for name, daemon in self.daemons.items() if daemon.poll() is not None]
            if ended or time.monotonic() > deadline:
                reason = f"{', '.join(ended)} ended" if ended else "time ran out"
                raise RuntimeError(f"Slurm did not start: waiting for {what}: {reason}")
            time.sleep(0.1)

    def command(self, *arguments: str, check: bool = True) -> str:
        """The output of one of Slurm's commands. Raises RuntimeError if it fails."""
        result = subprocess.run(
            arguments, env=self.environment, capture_output=True, text=True, timeout=300
        )
        if check and result.returncode:
            raise RuntimeError(f"{' '.join(arguments)}: {result.stderr.strip()}")
        return result.stdout

    def _stop(self) -> None:
        """End jobs and daemons, keep the logs, remove the directory."""
        if len(self.daemons) > 2:  # munge, the controller, and a node
            self.command("scancel", "--user=root", check=False)
            time.sleep(1.0)
        for daemon in reversed(self.daemons.values()):
            end(daemon)
        # A step's manager leaves the daemons' sessions; its environment names our slurm.conf.
        for pid in processes_with(f"SLURM_CONF={self.configuration}"):
            os.kill(pid, signal.SIGKILL)
        shutil.rmtree(self.log_directory, ignore_errors=True)
        shutil.copytree(self.directory / "log", self.log_directory)
        shutil.rmtree(self.directory, ignore_errors=True)


def free_ports(count: int) -> list[int]:
    """`count` different TCP ports that nothing listens on now."""
    sockets = [socket.socket() for _ in range(count)]
    try:
        for item in sockets:
            item.bind(("127.0.0.1", 0))
        return [item.getsockname()[1] for item in sockets]
    finally:
        for item in sockets:
            item.close()


def end(process: subprocess.Popen[bytes]) -> None:
    """End one process of ours: SIGTERM, after a while SIGKILL."""
    process.terminate()
    try:
        process.wait(STOP_SECONDS)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def processes_with(entry: str) -> list[int]:
    """The processes, but for this one, whose environment holds `entry` (``NAME=value``)."""
    found = []
    for folder in Path("/proc").iterdir():
        if not folder.name.isdigit() or int(folder.name) == os.getpid():
            continue
        try:
            environment = (folder / "environ").read_bytes().split(b"\0")
        except OSError:
            continue
        if entry.encode() in environment:
            found.append(int(folder.name))
    return found
