"""``hpcflow.contrib.util``: values of tensors as protobufs and arrays."""

from hpcflow.base.late_names import named_otherwise
from hpcflow.graph.shape_inference import constant_value
from hpcflow.graph.tensor_proto import make_ndarray, make_tensor_proto

__getattr__ = named_otherwise(__name__)
