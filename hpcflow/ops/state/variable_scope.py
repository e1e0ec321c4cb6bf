"""variable_scope and get_variable: variables shared by name between parts of a program."""

from __future__ import annotations

import copy
import re
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from hpcflow import dtypes
from hpcflow.dtypes import DType, DTypeLike
from hpcflow.graph.convert import convert_to_tensor
from hpcflow.graph.graph import Graph, get_collection, get_default_graph, graph_of, name_scope
from hpcflow.graph.keys import GraphKeys
from hpcflow.graph.likes import Collections, DeviceLike, InitializerLike
from hpcflow.graph.reentry import reentrant, reentrant_checked
from hpcflow.ops.state.variable_store import AUTO_REUSE, Reuse, VariableStore
from hpcflow.shapes import ShapeLike

__all__ = [
    "AUTO_REUSE",
    "VariableScope",
    "get_local_variable",
    "get_variable",
    "get_variable_scope",
    "no_regularizer",
    "variable_op_scope",
    "variable_scope",
]


class VariableScope:
    """The defaults and the name prefix of ``get_variable`` inside a ``variable_scope``.

    Attributes are read by the properties of the same names and changed by the ``set_`` methods;
    `reuse` True: variables must exist; False or None: they must be new (None is inherited);
    ``AUTO_REUSE``: they are made where they do not exist.
    """

    #: Inside of a layer of Keras: the scope that would be current if the layer had none. Else None.
    around_layers: VariableScope | None = None

    def __init__(self, reuse: Reuse, name: str = "", initializer: InitializerLike | None = None,
                 regularizer: Callable | None = None, caching_device: DeviceLike | None = None,
                 partitioner: Callable | None = None, custom_getter: Callable | None = None,
                 name_scope: str = "", dtype: DTypeLike = dtypes.float32,
                 use_resource: bool | None = None, constraint: Callable | None = None) -> None:
        self._name = name
        self._reuse = reuse
        self._initializer = initializer
        self._regularizer = regularizer
        self._caching_device = caching_device
        self._partitioner = partitioner
        self._custom_getter = custom_getter
        self._name_scope = name_scope
        self._dtype = dtypes.as_dtype(dtype)
        self._use_resource = use_resource
        self._constraint = constraint

    @property
    def name(self) -> str:
        """The prefix of variable names, without a slash at the end."""
        return self._name

    @property
    def original_name_scope(self) -> str:
        """The name scope that was opened where the variable scope was first entered."""
        return self._name_scope

    @property
    def reuse(self) -> Reuse:
        """The reuse mode of variables, which is True, False or AUTO_REUSE."""
        return self._reuse

    @property
    def initializer(self) -> Any:
        """The default initializer, or None."""
        return self._initializer

    @property
    def regularizer(self) -> Callable | None:
        """The default regularizer, or None."""
        return self._regularizer

    @property
    def caching_device(self) -> Any:
        """The default caching device, or None."""
        return self._caching_device

    @property
    def partitioner(self) -> Callable | None:
        """The default partitioner, or None."""
        return self._partitioner

    @property
    def custom_getter(self) -> Callable | None:
        """The default custom getter, or None."""
        return self._custom_getter

    @property
    def dtype(self) -> DType:
        """The default element type."""
        return self._dtype

    @property
    def use_resource(self) -> bool | None:
        """The default of `use_resource`."""
        return self._use_resource

    @property
    def constraint(self) -> Callable | None:
        """The default constraint of variables, or None."""
        return self._constraint

    def reuse_variables(self) -> None:
        """Reuse variables from here on; there is no way back within the scope."""
        self._reuse = True

    def set_initializer(self, initializer: InitializerLike | None) -> None:
        """Set the default initializer."""
        self._initializer = initializer

    def set_regularizer(self, regularizer: Callable | None) -> None:
        """Set the default regularizer."""
        self._regularizer = regularizer

    def set_caching_device(self, caching_device: DeviceLike | None) -> None:
        """Set the default caching device."""
        self._caching_device = caching_device

    def set_partitioner(self, partitioner: Callable | None) -> None:
        """Set the default partitioner."""
        self._partitioner = partitioner

    def set_custom_getter(self, custom_getter: Callable | None) -> None:
        """Set the default custom getter."""
        self._custom_getter = custom_getter

    def set_dtype(self, dtype: DTypeLike) -> None:
        """Set the default element type."""
        self._dtype = dtypes.as_dtype(dtype)

    def set_use_resource(self, use_resource: bool | None) -> None:
        """Set the default of `use_resource`."""
        self._use_resource = use_resource

    def get_collection(self, name: str) -> list:
        """Return the members of collection `name` whose names begin with this scope."""
        return get_collection(name, f"{re.escape(self._name)}/" if self._name else None)

    def trainable_variables(self) -> list:
        """Return this scope's trainable variables."""
        return self.get_collection(GraphKeys.TRAINABLE_VARIABLES)

    def global_variables(self) -> list:
        """Return this scope's global variables."""
        return self.get_collection(GraphKeys.GLOBAL_VARIABLES)

    def local_variables(self) -> list:
        """Return this scope's local variables."""
        return self.get_collection(GraphKeys.LOCAL_VARIABLES)

    def get_variable(self, var_store: VariableStore, name: str | None,
                     shape: ShapeLike | None = None, dtype: DTypeLike | None = None,
                     initializer: Any = None, regularizer: Callable | None = None,
                     reuse: Reuse = None, trainable: bool | None = None,
                     collections: Collections | None = None,
                     caching_device: DeviceLike | None = None, partitioner: Callable | None = None,
                     validate_shape: bool = True, use_resource: bool | None = None,
                     custom_getter: Callable | None = None, constraint: Callable | None = None,
                     synchronization: Any = None, aggregation: Any = None) -> Any:
        """Return the variable `name` of this scope from `var_store`; see ``get_variable``."""
        with name_scope(None):  # names follow from variable scopes alone
            dtype = self._checked_dtype(dtype, initializer)
            return var_store.get_variable(
                self._full_name(name), shape, dtype, _given(initializer, self._initializer),
                _given(regularizer, self._regularizer), _given(reuse, self._reuse), trainable,
                collections, _given(caching_device, self._caching_device),
                _given(partitioner, self._partitioner), validate_shape,
                _given(use_resource, self._use_resource),
                _given(custom_getter, self._custom_getter),
                _given(constraint, self._constraint), synchronization, aggregation)

    def _full_name(self, name: str | None) -> str:
        if name is None:
            return self._name
        return f"{self._name}/{name}" if self._name else name

    def _checked_dtype(self, dtype: DTypeLike | None, initializer: Any) -> DType:
        """The type asked for; an initial value that is given has one of its own."""
        if initializer is None or callable(initializer):
            return self._dtype if dtype is None else dtypes.as_dtype(dtype)
        own = convert_to_tensor(initializer).dtype.base_dtype
        if dtype is not None and dtypes.as_dtype(dtype).base_dtype is not own:
            raise ValueError(f"Initializer type '{own.name}' and explicit dtype "
                             f"'{dtypes.as_dtype(dtype).name}' don't match.")
        return own


def _given(value: Any, default: Any) -> Any:
    return default if value is None else value


def no_regularizer(_: object) -> None:
    """A regularizer that adds nothing, to switch off a scope's regularizer for one variable."""
    return None


# ---------------------------------------------------------------- the scopes of a graph


class _GraphScopes:
    """A graph's variable store and the variable scope that is current in each thread."""

    beginning = threading.Lock()

    def __init__(self, store: VariableStore | None = None) -> None:
        self.store = VariableStore() if store is None else store
        self._threads = threading.local()

    @property
    def current(self) -> VariableScope:
        """The scope of this thread; the root scope in the beginning."""
        if not hasattr(self._threads, "scope"):
            self._threads.scope = VariableScope(False)
        return self._threads.scope

    @current.setter
    def current(self, scope: VariableScope) -> None:
        self._threads.scope = scope


def _scopes() -> _GraphScopes:
    graph = get_default_graph()
    if graph._variable_scope_store is None:
        with _GraphScopes.beginning:  # threads that build one graph have one store
            graph._variable_scope_store = graph._variable_scope_store or _GraphScopes()
    return graph._variable_scope_store


def share_variables(graph: Graph, custom_getter: Callable | None) -> None:
    """Let `graph` have the variables of the default graph, and its current scope, in which
    `custom_getter` is called before the custom getter that the scope has."""
    outer = _scopes()
    graph._variable_scope_store = _GraphScopes(outer.store)
    scope = graph._variable_scope_store.current = copy.copy(outer.current)
    scope.set_custom_getter(_nested_getter(custom_getter, scope.custom_getter))


def default_store() -> VariableStore:
    """Return the store of the variables that ``get_variable`` makes in the default graph."""
    return _scopes().store


def get_variable_scope() -> VariableScope:
    """Return the current variable scope."""
    return _scopes().current


def get_variable(name: str, shape: ShapeLike | None = None, dtype: DTypeLike | None = None,
                 initializer: Any = None, regularizer: Callable | None = None,
                 trainable: bool | None = None, collections: Collections | None = None,
                 caching_device: DeviceLike | None = None, partitioner: Callable | None = None,
                 validate_shape: bool = True, use_resource: bool | None = None,
                 custom_getter: Callable | None = None, constraint: Callable | None = None,
                 synchronization: Any = None, aggregation: Any = None) -> Any:
    """Return the variable `name` of the current variable scope, new or shared as the scope says.

    Args:
        name: name within the scope.
        shape: shape of a new variable; not with a constant initializer.
        dtype: element type; the scope's (float32) if None.
        initializer: a function of shape and dtype, or a value; the scope's, else Glorot's uniform
            initializer for floats and zeros for integers. Without a shape also a function that
            needs no argument and returns a value.
        regularizer: a function of the variable whose result joins the regularization losses.
        trainable: whether optimizers change the variable.
        collections: collections to add it to.
        caching_device: device on which reads are cached.
        partitioner: cuts the variable into slices; the result is then a PartitionedVariable.
        validate_shape: as of ``Variable``.
        use_resource: True: a variable by resource handle; the scope's if None.
        custom_getter: called instead, with the true getter as its first argument.
        constraint: a function that optimizers apply to the value after an update.
        synchronization, aggregation: as of ``Variable``.

    Raises ``ValueError`` if sharing, shape or dtype do not fit.
    """
    scopes = _scopes()
    return scopes.current.get_variable(
        scopes.store, name, shape, dtype, initializer, regularizer, None, trainable, collections,
        caching_device, partitioner, validate_shape, use_resource, custom_getter, constraint,
        synchronization, aggregation)


def get_local_variable(name: str, shape: ShapeLike | None = None, dtype: DTypeLike | None = None,
                       initializer: Any = None, regularizer: Callable | None = None,
                       trainable: bool | None = False, collections: Collections | None = None,
                       caching_device: DeviceLike | None = None,
                       partitioner: Callable | None = None, validate_shape: bool = True,
                       use_resource: bool | None = None, custom_getter: Callable | None = None,
                       constraint: Callable | None = None, synchronization: Any = None,
                       aggregation: Any = None) -> Any:
    """As :func:`get_variable`, for a variable that is not trained, whatever `trainable` says, and
    not saved."""
    collections = list(collections or [])
    if GraphKeys.LOCAL_VARIABLES not in collections:
        collections.append(GraphKeys.LOCAL_VARIABLES)
    return get_variable(name, shape, dtype, initializer, regularizer, False, collections,
                        caching_device, partitioner, validate_shape, use_resource, custom_getter,
                        constraint, synchronization, aggregation)


def scoped_variables() -> dict[str, Any]:
    """The variables that ``get_variable`` made in the default graph, by full name; those in parts
    by the name of the whole alone."""
    store = _scopes().store
    parts = {part for whole in store.partitioned.values() for part in whole}
    single = {name: v for name, v in store.variables.items() if v not in parts}
    return {**single, **store.partitioned}


def unique_scope_name(prefix: str) -> str:
    """`prefix`, with a number if a variable scope of that name was opened before."""
    scopes = _scopes()
    base = scopes.current._full_name(prefix)
    counts = scopes.store.scope_counts
    if not counts[base]:
        return prefix
    number = 1
    while counts[f"{base}_{number}"]:
        number += 1
    return f"{prefix}_{number}"


# ---------------------------------------------------------------- entering scopes


def _check_nesting(entered: VariableScope) -> None:
    """Raise ``RuntimeError`` unless `entered` is the scope that was entered last."""
    current = _scopes().current
    if current is not entered:
        raise RuntimeError(f"The variable scope '{entered.name}' is to be left, but "
                           f"'{current.name}', which was entered inside, has not been")


@reentrant_checked(_check_nesting)
def variable_scope(name_or_scope: Any, default_name: str | None = None,
                   values: list | None = None, initializer: InitializerLike | None = None,
                   regularizer: Callable | None = None, caching_device: DeviceLike | None = None,
                   partitioner: Callable | None = None, custom_getter: Callable | None = None,
                   reuse: Reuse = None, dtype: DTypeLike | None = None,
                   use_resource: bool | None = None, constraint: Callable | None = None,
                   auxiliary_name_scope: bool = True) -> Iterator[VariableScope]:
    """Context manager: variables that ``get_variable`` makes inside are called ``name/...``.

    Args:
        name_or_scope: a name inside the current scope, or a scope to enter again.
        default_name: used, made unique, if `name_or_scope` is None.
        values: tensors whose graph is to be the default graph.
        initializer, regularizer, partitioner, dtype: defaults for variables inside.
        caching_device, custom_getter, use_resource, constraint: more of them.
        reuse: True: variables must exist already; ``AUTO_REUSE``: they are made where they do
            not; None or False: as in the outer scope.
        auxiliary_name_scope: open a name scope of the same name, too.

    Raises: ``TypeError`` without any name, ``ValueError`` for reuse without a name.
    """
    if not isinstance(auxiliary_name_scope, bool):
        raise TypeError("variable_scope: auxiliary_name_scope must be True or False, got "
                        f"{auxiliary_name_scope!r}")
    open_name_scope = name_scope if auxiliary_name_scope else _unchanged_name_scope
    options = {"initializer": initializer, "regularizer": regularizer,
               "caching_device": caching_device, "partitioner": partitioner,
               "custom_getter": custom_getter, "reuse": reuse, "dtype": dtype,
               "use_resource": use_resource, "constraint": constraint}
    if name_or_scope is None and default_name is None:
        raise TypeError("variable_scope: without name_or_scope a default_name is required")
    if name_or_scope is not None and not isinstance(name_or_scope, (str, VariableScope)):
        raise TypeError("VariableScope: name_or_scope must be a string or VariableScope, got "
                        f"{name_or_scope!r}")
    with graph_of(values or []).as_default():
        if name_or_scope is None:
            if reuse:
                raise ValueError("reuse=True cannot be used without a name_or_scope")
            with open_name_scope(default_name) as scope:
                unique = unique_scope_name(default_name or "")
                with pure_variable_scope(unique, scope, **options) as entered:
                    yield entered
            return
        last: Any = name_or_scope
        if isinstance(name_or_scope, VariableScope):
            last = name_or_scope.name.split("/")[-1]
        if not last:  # the root scope
            with pure_variable_scope(name_or_scope, None, **options) as entered:
                yield entered
            return
        with open_name_scope(last) as scope:
            with pure_variable_scope(name_or_scope, scope, **options) as entered:
                yield entered


@reentrant
def _unchanged_name_scope(_: str | None) -> Iterator[str]:
    """The name scope that is open anyway, in the form in which ``name_scope`` tells it."""
    name = get_default_graph().get_name_scope()
    yield f"{name}/" if name else ""


@reentrant
def pure_variable_scope(name_or_scope: str | VariableScope, original_name_scope: str | None = None,
                        **options: Any) -> Iterator[VariableScope]:
    """As :func:`variable_scope`, without a name scope."""
    scopes = _scopes()
    outer, store = scopes.current, scopes.store
    jumped = isinstance(name_or_scope, VariableScope)
    if isinstance(name_or_scope, VariableScope):
        entered = _derived(name_or_scope, name_or_scope.name, True, None, options)
    else:
        entered = _derived(outer, outer._full_name(name_or_scope), False, original_name_scope,
                           options)
    name = entered.name
    store.open_scope(name)
    counts = store.scope_counts.copy() if jumped else None
    scopes.current = entered
    try:
        yield entered
    finally:
        store.close_subscopes(name)
        if entered.around_layers is not None and not jumped:
            store.close_subscopes(entered.around_layers.name)
        if counts is not None:  # a scope entered again leaves no trace in the numbering
            store.restore_counts(counts, "" if entered.around_layers is None else name)
        scopes.current = outer


@contextmanager
def outside_of_layers() -> Iterator[None]:
    """A context of the scope around the layers of Keras that are being called, if there are any."""
    scopes = _scopes()
    inner = scopes.current
    if inner.around_layers is not None:
        scopes.current = inner.around_layers
    try:
        yield
    finally:
        scopes.current = inner


def _derived(base: VariableScope, name: str, jumped: bool, original_name_scope: str | None,
             options: dict) -> VariableScope:
    """The scope `name` with the defaults of `base` where `options` give none."""
    reuse = options.get("reuse")
    reuse = reuse or base.reuse  # below a scope that reuses, everything is reused
    derived = VariableScope(
        reuse, name,
        _given(options.get("initializer"), base.initializer),
        _given(options.get("regularizer"), base.regularizer),
        _given(options.get("caching_device"), base.caching_device),
        _given(options.get("partitioner"), base.partitioner),
        _nested_getter(options.get("custom_getter"), base.custom_getter),
        base.original_name_scope if jumped else _given(original_name_scope, name),
        _given(options.get("dtype"), base.dtype),
        _given(options.get("use_resource"), base.use_resource),
        _given(options.get("constraint"), base.constraint))
    around = base.around_layers
    if around is not None:
        inside = around.name + name[len(base.name):]
        derived.around_layers = _derived(around, inside.lstrip("/"), jumped, original_name_scope,
                                         options)
    return derived


def _nested_getter(inner: Callable | None, outer: Callable | None) -> Callable | None:
    """A custom getter whose true getter is the one of the scope around it."""
    if inner is None or outer is None:
        return inner or outer

    def nested(getter: Callable, *args: Any, **keywords: Any) -> Any:
        def through_outer(*inner_args: Any, **inner_keywords: Any) -> Any:
            return outer(getter, *inner_args, **inner_keywords)

        return inner(through_outer, *args, **keywords)

    return nested


def variable_op_scope(values: list, name_or_scope: str | VariableScope | None,
                      default_name: str | None = None, initializer: InitializerLike | None = None,
                      regularizer: Callable | None = None, caching_device: DeviceLike | None = None,
                      partitioner: Callable | None = None, custom_getter: Callable | None = None,
                      reuse: Reuse = None, dtype: DTypeLike | None = None,
                      use_resource: bool | None = None,
                      constraint: Callable | None = None) -> Any:
    """The old argument order of :func:`variable_scope`."""
    return variable_scope(name_or_scope, default_name, values, initializer, regularizer,
                          caching_device, partitioner, custom_getter, reuse, dtype, use_resource,
                          constraint)
