"""Layer: a layer of ``hpcflow.keras``, which remembers where its inputs came from."""

from __future__ import annotations

import inspect
import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import TYPE_CHECKING, Any

import hpcflow as hf
from hpcflow.base.hooks import Hook
from hpcflow.base.tracking import NoDependency, seen_attributes, tracked_attributes
from hpcflow.dtypes import DType
from hpcflow.framework import nest
from hpcflow.keras import constraints, initializers, regularizers
from hpcflow.keras.engine.calls import Called, History, Node
from hpcflow.keras.engine.description import Described
from hpcflow.keras.session import fixed_phase, unique_name
from hpcflow.keras.settings import floatx
from hpcflow.keras.tf_utils import is_tensor_like
from hpcflow.layers import base
from hpcflow.layers.helpers import items_of

if TYPE_CHECKING:
    from hpcflow.graph.likes import TensorLike
    from hpcflow.keras.initializers import RandomUniform

_OWN_OPTIONS = ("input_shape", "batch_input_shape", "batch_size", "input_dim", "input_length",
                "autocast")


#: ``deserialize(config, custom_objects)`` is a layer of its class's name; `layers` provides it.
deserialize = Hook("the layers by name")


class Layer(Called, Described, base.Layer):
    """Base of the layers of models.

    A layer of one's own defines ``call(inputs)`` and ``build(input_shape)``, which makes variables
    by :meth:`add_weight`. Layers and variables that are attributes count as its own.

    Args:
        trainable: whether optimizers may change the variables.
        name: its name, made of the class if None.
        dtype: element type of variables and of the input of a model.
        input_shape, batch_input_shape, input_dim, batch_size: shape of the input of a model that
            begins with this layer, without or with the batch.
        weights: first values of the variables.
        activity_regularizer: function of the result whose result joins the losses.
        autocast: taken for the sake of programs; inputs keep their types, as in graphs of 1.x.

    Raises ``TypeError`` for another argument.
    """

    supports_masking = False

    if TYPE_CHECKING:  # arguments of layers become attributes
        def __getattr__(self, name: str) -> Any: ...

    def __init__(self, trainable: bool = True, name: str | None = None, dtype: Any = None,
                 dynamic: bool = False, **keywords: Any) -> None:
        regularizer = keywords.pop("activity_regularizer", None)
        first_values = keywords.pop("weights", None)
        for key in keywords:
            if key not in _OWN_OPTIONS:
                raise TypeError(f"Keyword argument not understood: {key!r}")
        own_name = name or unique_name(base._snake_case(type(self).__name__))
        super().__init__(trainable, own_name, dtype, regularizers.get(regularizer))
        self.inbound_nodes: list[Node] = []
        self._added_metrics: list[tuple[str, Any]] = []
        self._by_name: dict[str, Any] = {}
        self._first_values = first_values
        self._batch_input_shape = _declared_shape(keywords)

    def __setattr__(self, name: str, value: Any) -> None:
        """Set an attribute; one that was left out of checkpoints is a part of the layer again."""
        if self._setattr_tracking and not isinstance(value, NoDependency):
            vars(self).get("_left_out", {}).pop(name, None)
        super().__setattr__(name, value)

    # ------------------------------------------------------------ what there is

    @property
    def trainable(self) -> bool:  # type: ignore[override]
        """Whether optimizers may change the variables; setting it sets it of the layers inside."""
        return self._trainable

    @trainable.setter
    def trainable(self, value: bool) -> None:
        self._trainable = value
        if "inbound_nodes" in vars(self):  # else the layer is being made
            for layer in self._sublayers():
                layer.trainable = value

    @property
    def name(self) -> str:
        """The name of the layer."""
        return self._base_name

    def _sublayers(self) -> list[Any]:
        """The layers among the attributes, in order; those of ``hf.layers``, too."""
        found = (v for key, value in seen_attributes(self) if key not in _HIDDEN
                 for v in _parts(value))
        return list(dict.fromkeys(v for v in found if isinstance(v, base.Layer)))

    def _own_weights(self, trained: bool) -> list:
        """The variables that the layer made or was given, without those of other layers."""
        pairs = [(v, True) for v in self._trainable_weights]
        pairs += [(v, False) for v in self._non_trainable_weights]
        known = {id(v) for v, _ in pairs}
        for key, value in seen_attributes(self):
            pairs += [(v, getattr(v, "trainable", True)) for v in _parts(value)
                      if key not in _HIDDEN and isinstance(v, hf.Variable) and id(v) not in known]
        return [v for v, own in dict(pairs).items() if own == trained]

    @property
    def trainable_weights(self) -> list:
        """The variables that optimizers change."""
        if not self.trainable:
            return []
        inner = [v for layer in self._sublayers() for v in layer.trainable_weights]
        return list(dict.fromkeys(self._own_weights(True) + inner))

    @property
    def non_trainable_weights(self) -> list:
        """The other variables."""
        own, inner = self._own_weights(False), self._sublayers()
        if self.trainable:
            return list(dict.fromkeys(
                own + [v for layer in inner for v in layer.non_trainable_weights]))
        return list(dict.fromkeys(
            self._own_weights(True) + own + [v for layer in inner for v in layer.weights]))

    @property
    def weights(self) -> list:
        """All variables, those that are trained before the others."""
        return self.trainable_weights + self.non_trainable_weights

    @property
    def variables(self) -> list:
        """The same as :attr:`weights`."""
        return self.weights

    @property
    def trainable_variables(self) -> list:
        """The same as :attr:`trainable_weights`."""
        return self.trainable_weights

    @property
    def non_trainable_variables(self) -> list:
        """The same as :attr:`non_trainable_weights`."""
        return self.non_trainable_weights

    @property
    def updates(self) -> list:
        """The operations that are to be run with the training step."""
        if not self.trainable:
            return []
        return self._updates + [u for layer in self._sublayers() for u in layer.updates]

    @property
    def losses(self) -> list:
        """The regularization losses."""
        return self._losses + [v for layer in self._sublayers() for v in layer.losses]

    def _conditional(self) -> set[int]:
        return self._with_inputs.union(*(v._conditional() for v in self._sublayers()))

    def _note_those_of(self, items: list, sources: list) -> None:
        """Note which losses and updates are made of the tensors `sources` of a call."""
        self._with_inputs.update(map(id, items_of(items, sources)))

    @property
    def _checkpoint_dependencies(self) -> list[tuple[str, Any]]:
        public: list[tuple[str, Any]] = []
        private: list[tuple[str, Any]] = []
        for name, value in tracked_attributes(self):
            if name not in _HIDDEN:
                (private if name.startswith("_") else public).append((name, value))
        own = self._trainable_weights + self._non_trainable_weights
        return [*public, *((v.op.name.rsplit("/", 1)[-1], v) for v in own), *private]

    # ------------------------------------------------------------ what a layer makes

    def add_weight(self, name: Any = None, shape: Any = None, dtype: Any = None,
                   initializer: Any = None, regularizer: Any = None,
                   trainable: bool | None = None, constraint: Any = None, partitioner: Any = None,
                   use_resource: bool | None = None, synchronization: Any = None,
                   aggregation: Any = None, **keywords: Any) -> Any:
        """Return a new variable of the layer.

        `initializer`, `regularizer` and `constraint` may be names. Floats begin as by
        ``glorot_uniform``, others with zeros. `trainable` defaults to True. Variables are named
        by the name scope that is open: in ``build`` that of the layer.
        """
        if isinstance(name, (list, tuple)):  # the order of arguments of earlier releases
            name, shape = shape, name
        around = hf.get_default_graph().get_name_scope()
        own_name = f"{around}/{name or 'Variable'}".lstrip("/")
        return self._made(own_name, shape or (), dtype or self._dtype,
                          initializers.get(initializer), regularizers.get(regularizer),
                          trainable is not False, constraints.get(constraint))

    add_variable = add_weight

    def add_loss(self, losses: Any, inputs: Any = None) -> None:
        """Add a loss, or a list of them.

        Those that are made of the layer's inputs, or are said to be of `inputs`, join the losses of
        models with these inputs alone.
        """
        self._losses += self._noted(nest.flatten(losses), inputs)

    def add_metric(self, value: Any, aggregation: str | None = None,
                   name: str | None = None) -> None:
        """Let models report a tensor as a metric: with the aggregation ``mean`` its mean over the
        batches, under `name`; without one, what a metric object gave when it was called.

        ``ValueError`` for another aggregation, or without a name or a metric.
        """
        made = getattr(value, "_metric_obj", None)
        if aggregation not in (None, "mean"):
            raise ValueError("We currently support only `mean` sample-wise metric aggregation. You "
                             f"provided aggregation=`{aggregation}`")
        if name is None and made is None:
            raise ValueError("Please provide a name for your metric like `self.add_metric("
                             "tf.reduce_sum(inputs), name='mean_activation', aggregation='mean')`")
        if aggregation is None and made is None:
            raise ValueError("We do not support adding an aggregated metric result tensor that is "
                             "not the output of a `tf.keras.metrics.Metric` metric instance. Give "
                             f"the metric `{name}` the aggregation 'mean'")
        self._added_metrics.append((str(name) if made is None else made.name, value))

    @property
    def added_metrics(self) -> list:
        """The (name, tensor) of :meth:`add_metric`, also of layers inside of this one."""
        below = [m for v in self._sublayers() if isinstance(v, Layer) for m in v.added_metrics]
        kept = [id(v) for v in vars(self).values()]  # metrics that are attributes come first
        own = sorted(self._added_metrics,
                     key=lambda m: id(getattr(m[1], "_metric_obj", self)) not in kept)
        return below + own if getattr(self, "_network", None) else own + below

    def add_update(self, updates: Any, inputs: Any = None) -> None:
        """Add an update, or a list of them; of some inputs as for :meth:`add_loss`."""
        steps = updates if isinstance(updates, list) else [updates]
        self._updates += self._noted(
            [hf.assign(*u) if isinstance(u, tuple) else u for u in steps], inputs)

    def _noted(self, items: list, inputs: Any) -> list:
        for item in items:
            self._note_inputs(item, inputs)
        if inputs is None:
            self._note_those_of(items, [t for node in self._calls() for t in node.sources])
        return items

    def _made(self, name: str, shape: Any, dtype: Any, initializer: Any, regularizer: Any,
              trainable: bool, constraint: Any, **others: Any) -> Any:
        dtype = hf.as_dtype(dtype or floatx()).base_dtype
        dims = [getattr(d, "value", d) for d in hf.TensorShape(shape)]
        if None in dims:
            raise ValueError(f"The shape {dims} of the variable {name} must be known")
        if initializer is None:
            initializer = initializers.get("glorot_uniform" if dtype.is_floating else "zeros")
        with hf.init_scope(), hf.name_scope(None):
            variable = hf.Variable(lambda: _initial(initializer, dims, dtype), trainable,
                                   name=name, dtype=dtype, constraint=constraint,
                                   use_resource=True)
        (self._trainable_weights if trainable else self._non_trainable_weights).append(variable)
        if regularizer is not None:
            with hf.name_scope(None), hf.name_scope(f"{variable.op.name}/Regularizer"):
                loss = regularizer(variable)
            if isinstance(loss, hf.Tensor):
                self._losses.append(loss)
        return variable

    def _own_variable(self, getter: Callable, name: str, shape: Any = None, dtype: Any = None,
                      initializer: Any = None, regularizer: Any = None, trainable: bool = True,
                      constraint: Any = None, **others: Any) -> Any:
        """Replace ``get_variable`` inside of the layer: return a variable that the layer owns."""
        if name not in self._by_name:
            if shape is None and initializer is not None and not callable(initializer):
                initializer = hf.convert_to_tensor(initializer, dtype)
                shape, dtype = initializer.shape, initializer.dtype
            local = name.rsplit("/", 1)[-1]
            own_name = f"{self._scope.original_name_scope}{local}" if self._scope else name
            made = self._made(own_name, shape, dtype, initializer, regularizer, trainable,
                              constraint)
            self._by_name[name] = made
            if getattr(self, local, None) is None:
                setattr(self, local, made)
        return self._by_name[name]

    # ------------------------------------------------------------ applying it

    def __call__(self, inputs: Any, *args: Any, **keywords: Any) -> Any:
        """Return the result for `inputs`, and remember the call."""
        args, keywords = _with_names(type(self).call, args, keywords)
        given = inputs
        if not isinstance(inputs, dict):
            inputs = nest.pack_sequence_as(
                inputs, [self._tensor(v) for v in nest.flatten(inputs)]
            ) if nest.is_sequence(inputs) else self._tensor(inputs)
        masks = keywords.get("mask")
        masks = _masks(inputs) if masks is None else masks
        passed = self._told(keywords, masks)
        before = len(self._updates), len(self._losses)
        with _taking(hf.GraphKeys.UPDATE_OPS) as updates, \
                _taking(hf.GraphKeys.REGULARIZATION_LOSSES) as losses, \
                _training.of(passed.get("training")):
            outputs = self._distinct(super().__call__(inputs, *args, **passed), inputs)
        self._updates += self._without_given_back(updates, hf.GraphKeys.UPDATE_OPS, "updates")
        self._losses += self._without_given_back(losses, hf.GraphKeys.REGULARIZATION_LOSSES,
                                                 "losses")
        self._note_those_of(self._updates[before[0]:] + self._losses[before[1]:], _parts(inputs))
        self._remember(given, inputs, keywords, outputs)
        self._mask(inputs, masks, outputs)
        if self._first_values is not None:
            values, self._first_values = self._first_values, None
            self.set_weights(values)
        return outputs

    def _without_given_back(self, taken: list, collection: str, attribute: str) -> list:
        """Return what was taken out of a collection, without what inner layers of ``hf.layers``
        have put there: that goes back, as in 1.x."""
        theirs = {id(v) for layer in self._sublayers() for v in getattr(layer, attribute)}
        hf.get_collection_ref(collection).extend(v for v in taken if id(v) in theirs)
        return [v for v in taken if id(v) not in theirs]

    def _tensor(self, value: Any) -> Any:
        if isinstance(value, (hf.Tensor, hf.Variable, hf.SparseTensor)):
            return value
        return hf.convert_to_tensor(value)

    def _told(self, keywords: dict, masks: Any) -> dict:
        """Return the keywords of a call, with `mask` and `training` if ``call`` takes them."""
        names = _parameters(type(self).call)
        passed = dict(keywords)
        if "mask" in names and passed.get("mask") is None and any(
                m is not None for m in nest.flatten(masks)):
            passed["mask"] = masks
        if "training" in names and passed.get("training") is None:
            around = _training.current
            around = fixed_phase() if around is None else around
            if around is not None or names["training"] is inspect.Parameter.empty:
                passed["training"] = around
        return passed

    def _distinct(self, outputs: Any, inputs: Any) -> Any:
        """Return `outputs` with an identity in the place of each that is one of the inputs, or a
        variable."""
        before = {id(t) for t in nest.flatten(inputs)}
        parts = [hf.identity(t) if isinstance(t, hf.Variable) or (
                 isinstance(t, hf.Tensor) and id(t) in before) else t
                 for t in nest.flatten(outputs)]
        return nest.pack_sequence_as(outputs, parts) if nest.is_sequence(outputs) else parts[0]

    def _remember(self, given: Any, inputs: Any, keywords: dict, outputs: Any) -> None:
        flat = [t for t in nest.flatten(outputs) if is_tensor_like(t)]
        sources = [t for t in (list(inputs.values()) if isinstance(inputs, dict)
                               else nest.flatten(inputs)) if is_tensor_like(t)]
        # Other tensors among the keywords, like an initial state, are kept as they are.
        self.inbound_nodes.append(Node(self, inputs, sources, keywords, flat))
        for position, tensor in enumerate(flat):
            tensor._keras_history = History(  # type: ignore[attr-defined]
                self, len(self.inbound_nodes) - 1, position)

    def _mask(self, inputs: Any, masks: Any, outputs: Any) -> None:
        mask = self.compute_mask(inputs, masks)
        if mask is None or not any(m is not None for m in nest.flatten(mask)):
            return
        parts = nest.flatten(mask)
        for tensor, part in zip(nest.flatten(outputs), parts):
            tensor._keras_mask = part

    def compute_mask(self, inputs: Any, mask: Any = None) -> Any:
        """Return the mask of the result: that of the input, if the layer passes it on.

        ``TypeError`` where the layer has no masks and is given one.
        """
        if self.supports_masking:
            return mask
        if any(m is not None for m in nest.flatten(mask)):
            if "mask" in _parameters(type(self).call):
                return None
            raise TypeError(f"Layer {self.name} does not support masking, but was passed an "
                            f"input_mask: {mask}")
        return None

    def _outside(self) -> AbstractContextManager[Any]:
        return nullcontext()

    @contextmanager
    def _reentered(self, scope: Any) -> Iterator[Any]:
        around = hf.get_variable_scope()
        with hf.variable_scope(scope, custom_getter=self._own_variable, auxiliary_name_scope=False,
                               reuse=hf.AUTO_REUSE if self._called else None) as entered:
            entered.around_layers = around.around_layers or around
            yield entered


_HIDDEN = {"_trainable_weights", "_non_trainable_weights", "_by_name", "inbound_nodes", "_losses",
           "_with_inputs", "_updates", "_network", "_targets", "_added", "_added_metrics", "_asked",
           "_sample_weights"}


class _Training(threading.local):
    """The `training` argument of the enclosing call, one value for each thread."""

    current: Any = None

    @contextmanager
    def of(self, value: TensorLike | None) -> Iterator[None]:
        before = self.current
        self.current = before if value is None else value
        try:
            yield
        finally:
            self.current = before


_training = _Training()


@contextmanager
def _taking(collection: str) -> Iterator[list]:
    """Context manager that moves items added to the collection meanwhile to a list."""
    kept = hf.get_collection_ref(collection)
    before = len(kept)
    taken: list = []
    yield taken
    taken += kept[before:]
    del kept[before:]


def _parameters(function: Callable) -> dict[str, Any]:
    """The arguments of a function that may be given by name, in order, with their defaults."""
    return {p.name: p.default for p in inspect.signature(function).parameters.values()
            if p.kind not in (p.VAR_POSITIONAL, p.VAR_KEYWORD)}


def _with_names(method: Callable, args: tuple, keywords: dict) -> tuple[tuple, dict]:
    """The arguments behind the inputs by their names, where all of them have one that is free."""
    if not args:
        return args, keywords
    names = [p.name for p in inspect.signature(method).parameters.values()
             if p.kind is p.POSITIONAL_OR_KEYWORD][2:][:len(args)]
    if len(names) < len(args) or not keywords.keys().isdisjoint(names):
        return args, keywords
    return (), {**dict(zip(names, args, strict=True)), **keywords}


def _initial(initializer: Callable[..., Any] | RandomUniform, dims: list, dtype: DType) -> Any:
    if not callable(initializer):
        return hf.convert_to_tensor(initializer, dtype)
    try:
        return initializer(dims, dtype=dtype)
    except TypeError:
        return initializer(dims)  # a function of the program's own, of a shape alone


def _declared_shape(keywords: dict) -> tuple | None:
    if keywords.get("batch_input_shape") is not None:
        return tuple(keywords["batch_input_shape"])
    shape = keywords.get("input_shape")
    if shape is None and keywords.get("input_dim") is not None:
        size, length = keywords["input_dim"], keywords.get("input_length")
        shape = (size,) if length is None else (length, size)
    return None if shape is None else (keywords.get("batch_size"), *shape)


def _parts(value: Any) -> list:
    if isinstance(value, (list, tuple)):
        return [p for v in value for p in _parts(v)]
    if isinstance(value, dict):
        return [p for v in value.values() for p in _parts(v)]
    return [value]


def _masks(inputs: TensorLike) -> Any:
    if isinstance(inputs, dict):
        return None
    parts = [getattr(t, "_keras_mask", None) for t in nest.flatten(inputs)]
    return parts if nest.is_sequence(inputs) else parts[0]
