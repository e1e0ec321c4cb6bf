"""``hpcflow.contrib.eager``: what programs that run in both modes ask for; graphs are the one here.
"""

from hpcflow.base.late_names import named_otherwise
from hpcflow.platform.eager_context import (
    Variable,
    defun,
    device,
    enable_eager_execution,
    executing_eagerly,
    in_eager_mode,
    in_graph_mode,
    list_devices,
    num_gpus,
    py_func,
    run_all_tests_in_graph_and_eager_modes,
    run_test_in_graph_and_eager_modes,
)
from hpcflow.train.object_checkpoint import Checkpoint

__all__ = [
    "Checkpoint",
    "Variable", "defun", "device", "enable_eager_execution", "executing_eagerly", "in_eager_mode",
    "in_graph_mode", "list_devices", "num_gpus", "py_func",
    "run_all_tests_in_graph_and_eager_modes", "run_test_in_graph_and_eager_modes",
]  # fmt: skip

__getattr__ = named_otherwise(__name__)
