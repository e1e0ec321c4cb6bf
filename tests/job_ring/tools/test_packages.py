"""The source archive and the wheel: complete, and at work outside of the tree."""

from __future__ import annotations

import ast
import contextlib
import importlib.metadata
import os
import re
import runpy
import shutil
import subprocess
import sys
import sysconfig
import tarfile
import types
import venv
import zipfile
from pathlib import Path

import pytest
from speed import patience

from hpcflow import hpcflow_version

ROOT = Path(__file__).parents[3]
PACKAGING = ROOT / "packaging"
BUILD = "import sys; from setuptools import build_meta as b; print(b.build_{}(sys.argv[1]))"
STEP = """
import hpcflow as hf
with hf.Session() as session:
    print(session.run(hf.matmul(hf.ones([2, 3]), hf.ones([3, 2])))[0, 0], hf.hpcflow_version)
print(hf.__file__)
"""


def run(*command, cwd, **env):
    done = subprocess.run(command, cwd=cwd, env=os.environ | env, text=True, capture_output=True,
                          timeout=patience(300), check=False)
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]
    return done.stdout


def build(kind, source, target):
    target.mkdir(exist_ok=True)
    name = run(sys.executable, "-c", BUILD.format(kind), target, cwd=source).splitlines()[-1]
    return target / name


@pytest.fixture(scope="module")
def source(tmp_path_factory):
    """The unpacked source archive."""
    folder = tmp_path_factory.mktemp("packages")
    tree = folder / "tree"
    shutil.copytree(ROOT, tree, ignore=shutil.ignore_patterns(
        ".git", ".venv", ".site", "build", "dist", "*.egg-info", "__pycache__", ".*_cache"))
    archive = build("sdist", tree, folder / "dist")
    with tarfile.open(archive) as tar:
        tar.extractall(folder, filter="data")
    return folder / archive.name.removesuffix(".tar.gz")


@pytest.fixture(scope="module")
def wheel(source):
    return build("wheel", source, source.parent / "dist")


@pytest.fixture(scope="module")
def outside(source, wheel):
    """The Python of a fresh environment with the wheel, and the packages that it needs."""
    folder = source.parent / "venv"
    venv.create(folder, with_pip=True)
    python = folder / "bin" / "python"
    run(python, "-m", "pip", "install", "--no-deps", "--no-index", wheel, cwd=source.parent)
    site = run(python, "-c", "import sysconfig; print(sysconfig.get_path('purelib'))",
               cwd=source.parent).strip()
    Path(site, "needs.pth").write_text(sysconfig.get_path("purelib") + "\n")
    return python


@pytest.mark.timeout(300)
def test_the_source_archive_is_complete(source):
    for name in ("docs/index.md", "docs/_static/step.svg", "docs/_ext/generated.py", "LICENSE",
                 "examples/minimal_ps.py", "examples/extending/add_op.py", "CHANGELOG.md",
                 "slurm/ps_train.sbatch", "packaging/hpcflow.def", "packaging/modulefiles/hpcflow",
                 "benchmarks/figures.py", "CITATION.cff", "hpcflow/py.typed"):
        assert (source / name).is_file(), name
    assert not (source / "docs" / "reference").exists()


@pytest.mark.timeout(300)
def test_the_wheel_holds_the_package_alone(wheel):
    with zipfile.ZipFile(wheel) as file:
        names = file.namelist()
    assert "hpcflow/py.typed" in names
    assert {name.split("/")[0] for name in names} == {
        "hpcflow", f"hpcflow-{hpcflow_version}.dist-info"}


@pytest.mark.timeout(300)
def test_the_wheel_works_outside_of_the_tree(outside, source):
    empty = source.parent / "empty"
    empty.mkdir()
    value, path = run(outside, "-c", STEP, cwd=empty, PYTHONPATH="").splitlines()
    assert value == f"3.0 {hpcflow_version}"
    assert Path(path).is_relative_to(outside.parents[1])
    assert hpcflow_version in run(outside, "-m", "hpcflow", "--version", cwd=empty, PYTHONPATH="")
    for name in ("minimal_ps", "minimal_allreduce"):
        out = run(outside, source / "examples" / f"{name}.py", cwd=empty, PYTHONPATH="")
        assert "loss 0.000000" in out


@pytest.mark.timeout(300)
def test_the_files_of_the_image_are_enough_to_build_from(tmp_path):
    text = (PACKAGING / "hpcflow.def").read_text()
    pairs = re.findall(r"^    (\S+) (/opt/\S+)$", text.split("%files")[1].split("%post")[0], re.M)
    assert pairs
    for name, target in pairs:
        place = tmp_path / target.lstrip("/")
        place.parent.mkdir(parents=True, exist_ok=True)
        (shutil.copytree if (ROOT / name).is_dir() else shutil.copy)(ROOT / name, place)
    wheel = build("wheel", tmp_path / "opt" / "src", tmp_path / "dist")
    assert wheel.is_file()
    for program in re.findall(r"/opt/hpcflow/(examples/\S+\.py)", text):
        assert (tmp_path / "opt" / "hpcflow" / program).is_file()


@pytest.mark.skipif(shutil.which("modulecmd") is None, reason="no Environment Modules")
def test_the_modulefile_sets_what_it_says_and_takes_it_back(tmp_path):
    text = (PACKAGING / "modulefiles/hpcflow").read_text()
    text = re.sub(r"^set root .*", f"set root {sys.prefix}", text, count=1, flags=re.M)
    text = re.sub(r"^set needs .*", "set needs {mpi/1}", text, count=1, flags=re.M)
    needed = "#%Module1.0\nsetenv MPI_IS here\n"
    for name, content in {"hpcflow/0.1.0": text, "mpi/1": needed}.items():
        (tmp_path / name).parent.mkdir()
        (tmp_path / name).write_text(content)
    told = 'eval "$(modulecmd bash {} hpcflow)"; echo "$VIRTUAL_ENV $MPI_IS $(type -p hpcflow)"; '
    out = run("bash", "-ec", told.format("load") + told.format("unload"), cwd=tmp_path,
              MODULEPATH=str(tmp_path), VIRTUAL_ENV="", PATH="/usr/bin:/bin")
    there, gone = out.splitlines()
    assert there == f"{sys.prefix} here {sys.prefix}/bin/hpcflow" and gone.strip() == ""
    helped = subprocess.run(["modulecmd", "bash", "help", "hpcflow"], capture_output=True,
                            text=True, check=True, env=os.environ | {"MODULEPATH": str(tmp_path)})
    assert "MPI clusters" in helped.stderr


def test_the_recipe_for_spack_calls_its_directives_as_spack_takes_them():
    """Spack is not there: its directives, by the names that it gives their arguments."""
    called = []

    def directive(name, *known):
        def call(*values, **named):
            assert set(named) <= {*known}, (name, named)
            called.append((name, *values))
        return call

    @contextlib.contextmanager
    def default_args(**named):
        assert set(named) <= {"type", "when"}
        yield

    package = types.ModuleType("spack.package")
    package.PythonPackage = object
    package.default_args = default_args
    for name, known in {"license": ("checked_by", "when"), "version": ("branch", "tag", "commit"),
                        "variant": ("default", "description", "values", "when"),
                        "depends_on": ("when", "type", "patches")}.items():
        setattr(package, name, directive(name, *known))
    package.__all__ = [*vars(package)]
    path = PACKAGING / "spack/packages/py-hpcflow/package.py"
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(sys.modules, "spack", types.ModuleType("spack"))
        patch.setitem(sys.modules, "spack.package", package)
        made = runpy.run_path(str(path))
    assert Path(made["PyHpcflow"].git).resolve() == ROOT
    needs = {value for name, value, *_ in called if name == "depends_on"}
    assert {"python@3.10:", "py-numpy@1.26:"} <= needs
    variants = {value for name, value, *_ in called if name == "variant"}
    assert variants == {"mpi", "jit"}


def test_packages_for_sites_say_what_the_project_says():
    for path in ("spack/packages/py-hpcflow/package.py", "modulefiles/hpcflow", "README.md"):
        assert hpcflow_version in (PACKAGING / path).read_text(), path
    for path in ("CHANGELOG.md", "CITATION.cff"):
        assert hpcflow_version in (ROOT / path).read_text(), path
    recipe = (PACKAGING / "spack/packages/py-hpcflow/package.py").read_text()
    ast.parse(recipe)
    needs = [need.replace("_", "-") for need in importlib.metadata.requires("hpcflow")
             if "extra" not in need or "jit" in need or "mpi4py" in need]
    assert len(needs) == 8
    for need in needs:
        name, least = re.match(r"([\w-]+)[^;]*>=([\d.]+)", need).groups()
        assert f"py-{name}@{least}:" in recipe, need
    extras = re.search(r"/opt/src\[(.+?)\]", (PACKAGING / "hpcflow.def").read_text())
    known = importlib.metadata.metadata("hpcflow").get_all("Provides-Extra")
    assert set(extras[1].split(",")) <= set(known)
