"""``hpcflow.profiler``: parameters, float operations, time and memory of a graph's parts."""

from hpcflow.base.late_names import named_otherwise
from hpcflow.profiler.options import ProfileOptionBuilder
from hpcflow.profiler.profiling import Profiler, advise, profile
from hpcflow.profiler.tree import ProfileNode

__all__ = ["ProfileNode", "ProfileOptionBuilder", "Profiler", "advise", "profile"]

__getattr__ = named_otherwise(__name__)
