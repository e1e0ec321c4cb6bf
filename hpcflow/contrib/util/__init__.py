"""``hpcflow.contrib.util``: values of tensors as protobufs and arrays."""

from hpcflow.graph.shape_inference import constant_value
from hpcflow.graph.tensor_proto import make_ndarray, make_tensor_proto
