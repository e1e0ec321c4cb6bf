"""The environment flags of hpcflow: the one place where `HPCFLOW_*` variables are read.

Read a flag as an attribute, `config.flags.compile`; `config.flags.reload()` reads the
environment again. `config.flags.listing()` is what `doctor` prints.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from hpcflow.base.late_names import named_otherwise

_TRUE = frozenset(("1", "true", "yes", "on"))
_FALSE = frozenset(("0", "false", "no", "off"))


def _parse_bool(text: str) -> bool:
    lowered = text.lower()
    if lowered in _TRUE:
        return True
    if lowered in _FALSE:
        return False
    raise ValueError("expected 1 or 0")


def _parse_float(text: str) -> float:
    value = float(text)
    if not value >= 0:
        raise ValueError("expected a number >= 0")
    return value


def _parse_int(text: str) -> int:
    value = int(text)
    if value < 0:
        raise ValueError("expected an integer >= 0")
    return value


def _one_of(*choices: str) -> Callable[[str], str]:
    def parse(text: str) -> str:
        if text.lower() not in choices:
            raise ValueError("expected one of " + ", ".join(choices))
        return text.lower()

    return parse


@dataclass(frozen=True)
class Flag:
    """One environment variable: its attribute is its name without `HPCFLOW_`, lower case."""

    name: str
    parse: Callable[[str], Any]
    default: Any
    doc: str

    @property
    def attribute(self) -> str:
        """The name under which `Flags` holds the value."""
        return self.name.removeprefix("HPCFLOW_").lower()

    def read(self, environ: Mapping[str, str]) -> Any:
        """The value in an environment. Raises ValueError naming the variable if it is wrong."""
        text = environ.get(self.name, "").strip()
        if not text:
            return self.default
        try:
            return self.parse(text)
        except ValueError as error:
            raise ValueError(f"environment variable {self.name}={text!r}: {error}") from None


@dataclass(frozen=True)
class FlagValue:
    """A row of the listing."""

    name: str
    value: Any
    default: Any
    is_set: bool
    doc: str


FLAGS: tuple[Flag, ...] = (
    Flag("HPCFLOW_COMPILE", _parse_bool, True, "0 runs steps node by node, without regions"),
    Flag("HPCFLOW_PRINT_SOURCE", _parse_bool, False, "1 prints the generated code of regions"),
    Flag("HPCFLOW_PRINT_MEMORY", _parse_bool, False,
         "1 prints the estimated peak memory of a step when it is compiled"),
    Flag("HPCFLOW_LATE_RECEIVES", _parse_bool, True,
         "0 receives large values of other tasks when a step begins, not just before their use"),
    Flag("HPCFLOW_RECOMPUTE", _parse_bool, False,
         "1 computes cheap forward values again in the backward pass, to save memory"),
    Flag("HPCFLOW_PLACEMENT", str, "", "a file of devices by op name that sessions keep to"),
    Flag("HPCFLOW_DETERMINISTIC", _parse_bool, False,
         "1 gives the same bits on every run: unordered updates come in graph order, and random "
         "ops without a seed get one by their name; keep the number of threads"),
    Flag("HPCFLOW_DENORMALS", _parse_bool, False,
         "1 computes with numbers below the smallest normal one, instead of taking them for zeros"),
    Flag("HPCFLOW_THREADS", _parse_int, 0, "threads of large element-wise work; 0 is one per core"),
    Flag("HPCFLOW_KEEP_BYTES", _parse_int, 512 << 20,
         "freed memory that the process keeps for later arrays; 0 is what the C library does"),
    Flag("HPCFLOW_CHECK_MEMORY", _parse_bool, True,
         "0 makes large arrays without a look at how much memory is left for them"),
    Flag("HPCFLOW_SHARED_BYTES", _parse_int, 1 << 30,
         "memory through which a rank reduces with the others of its node, and gets what they "
         "send; 0 sends messages"),
    Flag("HPCFLOW_KEEP_CORE", _parse_bool, True,
         "0 leaves it to the system on which cores short steps run, where ranks share cores"),
    Flag("HPCFLOW_JIT", _parse_bool, True, "0 compiles no loops"),
    Flag("HPCFLOW_AVX512", _parse_bool, True,
         "0 compiles loops as for a processor without AVX-512"),
    Flag("HPCFLOW_LOOP_CACHE", str, "",
         "directory that keeps compiled loops for later runs, ~/.cache/hpcflow/loops if not set; "
         "0 keeps none"),
    Flag("HPCFLOW_PS", _parse_int, 0, "ranks that are parameter servers where no jobs are named"),
    Flag("HPCFLOW_CONNECT_TIMEOUT", _parse_float, 60.0,
         "seconds to wait for a task's server, and for all ranks to join"),
    Flag(
        "HPCFLOW_STALL_SECONDS",
        _parse_float,
        60.0,
        "seconds without progress after which a step reports what it waits for; 0 never",
    ),
    Flag(
        "HPCFLOW_COLLECTIVE_TIMEOUT",
        _parse_float,
        600.0,
        "seconds that a collective operation waits for other ranks before it fails; 0 for ever",
    ),
    Flag("HPCFLOW_HEALTH_SECONDS", _parse_float, 1.0,
         "seconds between two looks at whether the next rank is still there; 0 never looks"),
    Flag("HPCFLOW_HEALTH_TIMEOUT", _parse_float, 60.0,
         "seconds without an answer after which a rank is lost; 0 never"),
    Flag("HPCFLOW_FAULT_TOLERANCE", _one_of("none", "shrink"), "none",
         "shrink: the ranks that are left when one is lost go on without it, from the last "
         "checkpoint; needs an MPI that can, such as Open MPI 5 with `mpirun --with-ft ulfm`"),
    Flag("HPCFLOW_ONEDNN", str, "", "path of the oneDNN library (libdnnl.so) to use"),
    Flag("HPCFLOW_CUDNN", str, "",
         "path of the cuDNN library to use on GPUs; 0 none, 1 says so if none is found"),
    Flag("HPCFLOW_CUDNN_SEARCH", _one_of("0", "1", "all"), "1",
         "the ways to convolve by cuDNN that are measured: 1 the best by its heuristics, all of "
         "them, or 0 none, and the first by a fixed rule is taken"),
    Flag("HPCFLOW_NCCL", str, "",
         "path of the NCCL library by which GPUs of different ranks reduce; 0 none"),
    Flag("HPCFLOW_CUDA_IPC", _parse_bool, True,
         "0: what GPUs of ranks of one node send and reduce goes through memory of the host"),
    Flag("HPCFLOW_CUDA_AWARE_MPI", _one_of("0", "1"), "",
         "1: MPI takes memory of GPUs, 0: it does not; if not set, what the library says"),
    Flag("HPCFLOW_CUDA_GRAPHS", _parse_bool, True,
         "0: the kernels of a region on a GPU are not recorded, to be launched as one"),
    Flag("HPCFLOW_TF32", _parse_bool, False,
         "1: products and convolutions of float32 on GPUs round their factors to TF32"),
    Flag("HPCFLOW_CHECK_STAGES", _parse_bool, False, "1 checks the graph after every pass"),
    Flag("HPCFLOW_PREEMPTION", _parse_bool, True,
         "0: monitored sessions and supervisors do not save and end at SIGTERM, SIGUSR1 or a file"),
    Flag("HPCFLOW_PREEMPTION_FILE", str, "",
         "a file; when it appears, training saves and ends as after SIGTERM"),
    Flag("HPCFLOW_PREEMPTION_GRACE", _parse_float, 20.0,
         "seconds from the signal that ranks may take to come to the step at which all stop"),
    Flag("HPCFLOW_PREEMPTED_STATUS", _parse_int, 75,
         "exit status of a job that was preempted and has saved"),
    Flag("HPCFLOW_LOCAL_CHECKPOINTS", str, "",
         "a folder on the storage of each node, to which hooks save between shared checkpoints"),
    Flag("HPCFLOW_SHARED_CHECKPOINT_EVERY", _parse_int, 10,
         "which one of the checkpoints goes to the shared directory, where nodes have local ones"),
    Flag("HPCFLOW_RESTART_COUNT", _parse_int, 0,
         "how often `hpcflow run` or the scheduler has started this job again; they set it"),
    Flag("HPCFLOW_PROGRESS_FILE", str, "",
         "files to which savers add the paths of what they have saved, separated as in PATH; "
         "`hpcflow run` and the job scripts set it"),
    Flag("HPCFLOW_CHUNK_BYTES", _parse_int, 256 << 20, "largest message, in bytes"),
)


class Flags:
    """The current values, as attributes."""

    compile: bool
    print_source: bool
    print_memory: bool
    placement: str
    late_receives: bool
    recompute: bool
    ps: int
    deterministic: bool
    denormals: bool
    threads: int
    keep_bytes: int
    check_memory: bool
    shared_bytes: int
    keep_core: bool
    jit: bool
    avx512: bool
    loop_cache: str
    connect_timeout: float
    stall_seconds: float
    collective_timeout: float
    health_seconds: float
    health_timeout: float
    fault_tolerance: str
    onednn: str
    cudnn: str
    cudnn_search: str
    nccl: str
    cuda_ipc: bool
    cuda_aware_mpi: str
    cuda_graphs: bool
    tf32: bool
    check_stages: bool
    preemption: bool
    preemption_file: str
    preemption_grace: float
    preempted_status: int
    local_checkpoints: str
    shared_checkpoint_every: int
    restart_count: int
    progress_file: str
    chunk_bytes: int

    def __init__(self, environ: Mapping[str, str] | None = None) -> None:
        self.reload(environ)

    def reload(self, environ: Mapping[str, str] | None = None) -> None:
        """Read all flags again, from `environ` or the process environment.

        Raises ValueError for a value that cannot be read; then no flag changes.
        """
        source = os.environ if environ is None else environ
        values = {flag.attribute: flag.read(source) for flag in FLAGS}
        self.__dict__.update(values)

    def listing(self) -> list[FlagValue]:
        """Name, value, default and meaning of every flag."""
        rows = []
        for flag in FLAGS:
            value = getattr(self, flag.attribute)
            rows.append(FlagValue(flag.name, value, flag.default, value != flag.default, flag.doc))
        return rows


flags = Flags()

# What 1.x has in a module of this name: devices, and options of sessions without a config.
__getattr__ = named_otherwise(__name__)
