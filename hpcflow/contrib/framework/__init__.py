"""``hpcflow.contrib.framework``: argument scopes, variables of models, global steps, checkpoints.
"""

from hpcflow.base.late_names import named_otherwise
from hpcflow.contrib.framework.arg_scopes import (
    add_arg_scope,
    arg_scope,
    arg_scope_func_key,
    arg_scoped_arguments,
    current_arg_scope,
    has_arg_scope,
)
from hpcflow.contrib.framework.py_functions import py_func
from hpcflow.contrib.framework.restoring import (
    assign_from_checkpoint,
    assign_from_checkpoint_fn,
    assign_from_values,
    assign_from_values_fn,
    list_variables,
    load_checkpoint,
    load_variable,
)
from hpcflow.contrib.framework.variables import (
    VariableDeviceChooser,
    add_model_variable,
    filter_variables,
    get_local_variables,
    get_model_variables,
    get_trainable_variables,
    get_unique_variable,
    get_variable_full_name,
    get_variables,
    get_variables_by_name,
    get_variables_by_suffix,
    get_variables_to_restore,
    local_variable,
    model_variable,
    variable,
)
from hpcflow.framework import nest
from hpcflow.graph.graph import get_default_graph
from hpcflow.graph.legacy import is_tensor
from hpcflow.layers.helpers import smart_cond, smart_constant_value
from hpcflow.ops.flow.checks import assert_same_float_dtype, assert_scalar
from hpcflow.ops.state.convolutional_initializers import (
    convolutional_delta_orthogonal,
    convolutional_orthogonal_1d,
    convolutional_orthogonal_2d,
    convolutional_orthogonal_3d,
)
from hpcflow.optimizers.global_step import (
    assert_global_step,
    create_global_step,
    get_global_step,
    get_or_create_global_step,
)
from hpcflow.platform.deprecation import deprecated, deprecated_arg_values, deprecated_args
from hpcflow.train.vocabularies import (
    load_and_remap_matrix_initializer,
    load_embedding_initializer,
    load_linear_multiclass_bias_initializer,
)
from hpcflow.train.warm_starting import init_from_checkpoint


def get_name_scope() -> str:
    """Return the current name scope of the default graph, without a ``/`` at its end."""
    return get_default_graph().get_name_scope()

__getattr__ = named_otherwise(__name__)
