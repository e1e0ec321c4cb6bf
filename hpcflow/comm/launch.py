"""Facts about the start of this process, told from the environment alone: mpi4py is not imported.

A launcher gives each rank its variables; so do children of ranks inherit them, which must not
take themselves for ranks: start those with `without_launcher(os.environ)`.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass

#: (name, size, rank, ranks on this node, rank on this node); the first whose size or rank is set
#: counts.
_LAUNCHERS: tuple[tuple[str, str, str, str, str], ...] = (
    (
        "Open MPI",
        "OMPI_COMM_WORLD_SIZE",
        "OMPI_COMM_WORLD_RANK",
        "OMPI_COMM_WORLD_LOCAL_SIZE",
        "OMPI_COMM_WORLD_LOCAL_RANK",
    ),
    (
        "MVAPICH",
        "MV2_COMM_WORLD_SIZE",
        "MV2_COMM_WORLD_RANK",
        "MV2_COMM_WORLD_LOCAL_SIZE",
        "MV2_COMM_WORLD_LOCAL_RANK",
    ),
    ("MPICH", "PMI_SIZE", "PMI_RANK", "MPI_LOCALNRANKS", "MPI_LOCALRANKID"),
    ("Slurm", "SLURM_STEP_NUM_TASKS", "SLURM_PROCID", "", "SLURM_LOCALID"),
    ("Flux", "FLUX_JOB_SIZE", "FLUX_TASK_RANK", "", "FLUX_TASK_LOCAL_ID"),
    (
        "JSM",
        "JSM_NAMESPACE_SIZE",
        "JSM_NAMESPACE_RANK",
        "JSM_NAMESPACE_LOCAL_SIZE",
        "JSM_NAMESPACE_LOCAL_RANK",
    ),
    ("PALS", "PALS_SIZE", "PALS_RANKID", "PALS_LOCAL_SIZE", "PALS_LOCAL_RANKID"),
    ("PMIx", "", "PMIX_RANK", "", ""),
)
#: What launchers hand to ranks begins with one of these.
_PREFIXES = (
    "OMPI_", "PMIX_", "PRTE_", "PMI_", "MPI_LOCAL", "MPIR_", "HYDRA_", "HYDI_", "MV2_COMM_",
    "SLURM_STEP", "SLURM_PROCID", "SLURM_LOCALID", "SLURM_TASK", "SLURM_NODEID", "SLURM_GTIDS",
    "FLUX_", "JSM_", "PALS_",
)  # fmt: skip
#: These begin like that, but are settings of the user or of the allocation.
_SETTINGS = ("OMPI_MCA_", "OMPI_ALLOW_RUN_AS_ROOT", "PMIX_MCA_", "PRTE_MCA_")
#: Open MPI's launcher passes facts of its own as settings.
_LAUNCHER_FACTS = frozenset(
    ("OMPI_MCA_PREFIXES", "OMPI_MCA_cpu_type", "OMPI_MCA_initial_wdir", "OMPI_MCA_num_procs")
)

#: Called when this rank learns its task: with True if it works, with False if it serves.
on_task: Callable[[bool], None] | None = None


@dataclass(frozen=True)
class Launch:
    """The facts that a launcher states about this process; None where it does not state them."""

    launcher: str
    rank: int | None
    size: int | None
    local_size: int | None
    local_rank: int | None = None


def launch(environ: Mapping[str, str] | None = None) -> Launch | None:
    """Return the facts that the launcher states, or None where there is no launcher."""
    env = os.environ if environ is None else environ
    for name, *variables in _LAUNCHERS:
        size, rank, local_size, local_rank = (_number(env, variable) for variable in variables)
        if size is None and (variables[0] or rank is None):
            continue
        # An interactive shell inside a Slurm allocation looks like a step of one task.
        if name == "Slurm" and size == 1 and not {"PMI_RANK", "PMIX_RANK"} & env.keys():
            continue
        return Launch(name, rank, size, local_size, local_rank)
    return None


def launched_under_mpi(environ: Mapping[str, str] | None = None) -> bool:
    """True if this process is a rank that a launcher started, of however many."""
    return launch(environ) is not None


def without_launcher(environ: Mapping[str, str]) -> dict[str, str]:
    """The environment for a child process that is no rank, such as a probe."""
    return {name: value for name, value in environ.items() if not _is_of_launcher(name)}


def _is_of_launcher(name: str) -> bool:
    is_setting = name.startswith(_SETTINGS) and name not in _LAUNCHER_FACTS
    return name.startswith(_PREFIXES) and not is_setting


def _number(environ: Mapping[str, str], name: str) -> int | None:
    try:
        return int(environ[name])
    except (KeyError, ValueError):
        return None
