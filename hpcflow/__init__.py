"""hpcflow: dataflow-graph machine learning over MPI, with the names of the 1.x graph API.

``import hpcflow as hf`` gives the graph-building functions, :class:`Session`, and the modules
``nn``, ``train``, ``summary``, ``errors``, ``mpi``, ``raw_ops``, ... Protobufs (``GraphDef``,
``ConfigProto``, ...) are loaded when they are first used.
"""

from __future__ import annotations

from hpcflow.base import interrupts as _interrupts  # before all others, for Ctrl-C

# isort: split
import importlib
from typing import Any

from hpcflow import errors
from hpcflow.api import aliases, modules, other_names
from hpcflow.device_spec import DeviceSpec
from hpcflow.dtypes import (
    QUANTIZED_DTYPES,
    DType,
    as_dtype,
    bfloat16,
    bool,
    complex64,
    complex128,
    double,
    float16,
    float32,
    float64,
    half,
    int8,
    int16,
    int32,
    int64,
    qint8,
    qint16,
    qint32,
    quint8,
    quint16,
    resource,
    string,
    uint8,
    uint16,
    variant,
)
from hpcflow.errors import OpError
from hpcflow.graph.convert import (
    convert_to_tensor,
    register_tensor_conversion_function,
)
from hpcflow.graph.defaults import get_default_session
from hpcflow.graph.graph import (
    Graph,
    add_to_collection,
    colocate_with,
    container,
    control_dependencies,
    device,
    get_collection,
    get_collection_ref,
    get_default_graph,
    name_scope,
    op_scope,
    reset_default_graph,
    set_random_seed,
)
from hpcflow.graph.importer import import_graph_def
from hpcflow.graph.indexed_slices import IndexedSlices
from hpcflow.graph.keys import GraphKeys
from hpcflow.graph.opdef import NotDifferentiable, RegisterGradient
from hpcflow.graph.operation import Operation, Tensor
from hpcflow.graph.raw import raw_ops
from hpcflow.graph.shape_inference import constant_value
from hpcflow.graph.sparse_tensor import (
    SparseTensor,
    SparseTensorValue,
    convert_to_tensor_or_indexed_slices,
    convert_to_tensor_or_sparse_tensor,
)
from hpcflow.runtime.session.session import InteractiveSession, Session
from hpcflow.shapes import Dimension, TensorShape
from hpcflow.version import API_VERSION, GRAPH_DEF_VERSION
from hpcflow.version import __version__ as hpcflow_version

__version__ = VERSION = API_VERSION  # what programs compare; hpcflow's own is that of `version`
__git_version__ = GIT_VERSION = COMPILER_VERSION = ""
GRAPH_DEF_VERSION_MIN_CONSUMER = GRAPH_DEF_VERSION_MIN_PRODUCER = 0
newaxis = None

# The op families. Each one's __all__ becomes part of this namespace.
_FAMILIES = [
    "autodiff",
    "ops.flow.step_ops",
    "ops",
]

def _gather(namespace: dict[str, Any]) -> None:
    for family in _FAMILIES:
        module = importlib.import_module(f"{__name__}.{family}")
        for name in getattr(module, "__all__", ()):
            namespace[name] = getattr(module, name)


aliases.install()
_gather(globals())


def __getattr__(name: str) -> Any:
    if name == "__all__":  # asked for by ``from hpcflow import *``, which is to give all there is
        return [n for n in __dir__() if not n.startswith("_") and n not in _OF_THIS_FILE]
    if name in modules.LAZY or name in modules.PROTOS:
        value = modules.load(name)
    elif name in other_names.MODULES:
        value = other_names.later_module(name)
    else:
        value = other_names.find(__name__, name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *modules.LAZY, *modules.PROTOS, *other_names.MODULES,
                   *other_names.NAMES["hpcflow"]})


NoGradient = NotDifferentiable
_OF_THIS_FILE = ("Any", "aliases", "annotations", "importlib", "modules", "other_names")
