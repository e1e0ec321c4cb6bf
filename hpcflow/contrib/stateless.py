"""``contrib.stateless``: random numbers that follow from seeds alone."""

from hpcflow.base.late_names import named_otherwise
from hpcflow.ops.random.stateless_random import stateless_multinomial, stateless_truncated_normal
from hpcflow.ops.random.stateless_random import stateless_normal as stateless_random_normal
from hpcflow.ops.random.stateless_random import stateless_uniform as stateless_random_uniform

__all__ = ["stateless_multinomial", "stateless_random_normal", "stateless_random_uniform",
           "stateless_truncated_normal"]


__getattr__ = named_otherwise(__name__)
