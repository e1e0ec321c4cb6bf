"""``hpcflow.test``: a test case class, numerical gradients and benchmarks for users' tests."""

from unittest import mock

from hpcflow.base.late_names import named_otherwise
from hpcflow.test_util.benchmark import Benchmark
from hpcflow.test_util.case import TestCase
from hpcflow.test_util.environment import (
    get_temp_dir,
    gpu_device_name,
    is_built_with_cuda,
    is_built_with_gpu_support,
    is_built_with_rocm,
    is_gpu_available,
    main,
    test_src_dir_path,
)
from hpcflow.test_util.gradient_checker import compute_gradient, compute_gradient_error
from hpcflow.test_util.graph_defs import assert_equal_graph_def
from hpcflow.test_util.local_cluster import create_local_cluster

__getattr__ = named_otherwise(__name__)
