"""hpcflow for Spack: ``spack repo add packaging/spack``, then ``spack install py-hpcflow``."""

import os

from spack.package import *


class PyHpcflow(PythonPackage):
    """Dataflow-graph machine learning for MPI clusters, with the graph API of 1.x."""

    license("Apache-2.0")

    # The source is the clone that this file lies in.
    git = os.path.realpath(os.path.join(os.path.dirname(__file__), *[os.pardir] * 4))
    version("0.1.0", branch="main")

    variant("mpi", default=True, description="Programs of several ranks")
    variant("jit", default=True, description="Compiled loops by LLVM")

    with default_args(type=("build", "run")):
        depends_on("python@3.10:")
        depends_on("py-numpy@1.26:")
        depends_on("py-h5py@3.10:")
        for target in ("x86_64", "aarch64"):
            depends_on("py-isal@1.7:", when=f"target={target}:")
        depends_on("py-google-crc32c@1.5:")
        depends_on("py-ml-dtypes@0.4:")
        depends_on("py-tensorboard@2.16:2")
        depends_on("py-mpi4py@4.1:", when="+mpi")
        depends_on("py-llvmlite@0.44:", when="+jit")

    depends_on("py-setuptools@77:", type="build")

    def test_step(self):
        """Run a step."""
        python = self.spec["python"].command
        python("-c", "import hpcflow as hf; print(hf.Session().run(hf.constant(1.0) + 1.0))")
