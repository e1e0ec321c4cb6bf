"""Optimizer, the base of the optimizers of models."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import hpcflow as hf
from hpcflow.graph.indexed_slices import IndexedSlices
from hpcflow.graph.likes import TensorLike
from hpcflow.keras import initializers, lookup
from hpcflow.keras.session import batch_get_value, batch_set_value
from hpcflow.optimizers.optimizer import constrained, deduplicated
from hpcflow.platform.inspecting import fn_args

if TYPE_CHECKING:
    from hpcflow.ops.state.variables import Variable


class Optimizer:
    """Base of the optimizers.

    A derived class gives its hyperparameters to :meth:`_set_hyper`, makes its slots in
    :meth:`_create_slots`, and says in :meth:`_resource_apply_dense` what a gradient does to a
    variable; in :meth:`_resource_apply_sparse`, what the gradient of some of its rows does. Without
    the latter such gradients are filled up with zeros.

    Args:
        name: of the optimizer's variables; that of the class if None.
        **keywords: `clipnorm`, the longest norm of each gradient; `clipvalue`, the largest
            absolute value of a gradient's elements; `decay`: the learning rate is divided by
            1 + decay * iterations; `lr`, which derived classes read.

    Raises ``TypeError`` for other keywords, ``ValueError`` for negative ones.
    """

    def __init__(self, name: str | None, **keywords: Any) -> None:
        for key, value in keywords.items():
            if key not in ("clipnorm", "clipvalue", "lr", "decay"):
                raise TypeError(f"Unexpected keyword argument passed to optimizer: {key}")
            if value is not None and not callable(value) and value < 0:
                raise ValueError(f"Expected {key} >= 0, received: {value}")
        self.clipnorm, self.clipvalue = keywords.get("clipnorm"), keywords.get("clipvalue")
        self._initial_decay = keywords.get("decay", 0.0)
        self._name = name or type(self).__name__
        self._hyper: dict[str, Any] = {}
        self._made_in: dict[Any, dict[str, Any]] = {}  # variables of numbers by graph and name
        self._slots: dict[tuple[Any, str], Any] = {}
        self.updates: list[Any] = []

    # ------------------------------------------------------------ numbers

    def __getattr__(self, name: str) -> Any:
        name = "learning_rate" if name == "lr" else name
        if name == "iterations" or name in self.__dict__.get("_hyper", ()):
            return self._variable(name)
        raise AttributeError(f"'{type(self).__name__}' object has no attribute '{name}'")

    def __setattr__(self, name: str, value: Any) -> None:
        name = "learning_rate" if name == "lr" else name
        if name not in self.__dict__.get("_hyper", ()):
            super().__setattr__(name, value)
        elif name in self._made:
            batch_set_value([(self._made[name], value)])
        else:
            self._hyper[name] = value

    @property
    def _made(self) -> dict[str, Any]:
        """The variables of numbers in the default graph."""
        with hf.init_scope():
            return self._made_in.setdefault(hf.get_default_graph(), {})

    def _variable(self, name: str) -> Any:
        """The variable of a number, in the default graph."""
        made = self._made.get(name)
        if made is None:
            with hf.init_scope(), hf.name_scope(None):
                if name == "iterations":
                    made = hf.Variable(0, trainable=False, dtype=hf.int64,
                                       name=f"training/{self._name}/iter")
                else:
                    value = self._hyper[name]
                    given = value() if callable(value) and not _is_schedule(value) else value
                    kept = isinstance(given, (hf.Tensor, hf.Variable)) or _is_schedule(given)
                    made = given if kept else hf.Variable(
                        float(given), trainable=False, name=f"training/{self._name}/{name}")
            self._made[name] = made
        return made

    def _set_hyper(self, name: str, value: Any) -> None:
        """Keep a hyperparameter: a number, a tensor, or a function that returns one of these."""
        if name in self._hyper:
            setattr(self, name, value)
        else:
            self._hyper[name] = value

    def _get_hyper(self, name: str, dtype: Any = None) -> Any:
        """The variable of a hyperparameter, or its value in the type `dtype`."""
        value = self._variable(name)
        return value if dtype is None else hf.cast(value, dtype)

    def _serialize_hyperparameter(self, hyperparameter_name: str) -> Any:
        """The value that a hyperparameter has now, as a number."""
        value = self._made.get(hyperparameter_name, self._hyper[hyperparameter_name])
        if _is_schedule(value):
            return lookup.serialized(value)
        if callable(value):
            value = value()
        if isinstance(value, (hf.Tensor, hf.Variable)):
            return float(batch_get_value([value])[0])
        return value

    def _decayed_lr(self, var_dtype: Any) -> Any:
        """The learning rate of this iteration."""
        return hf.cast(self._rate(), var_dtype)

    def _scheduled(self) -> Any:
        """The learning rate of this iteration, before it decays."""
        rate = self.learning_rate
        return hf.convert_to_tensor(rate(self.iterations) if _is_schedule(rate) else rate)

    def _rate(self) -> Any:
        rate = self._scheduled()
        if not self._hyper.get("decay"):
            return rate
        return rate / (1.0 + self.decay * hf.cast(self.iterations, hf.float32))

    # ------------------------------------------------------------ updates

    def get_gradients(self, loss: TensorLike, params: list) -> list:
        """Return the gradients, clipped. ``ValueError`` where one of them is None."""
        grads = hf.gradients(_scaled(loss), params)
        if any(g is None for g in grads):
            raise ValueError("An operation has `None` for gradient. Please make sure that all of "
                             "your ops have a gradient defined (i.e. are differentiable).")
        return self._clipped(grads)

    def _clipped(self, grads: list) -> list:
        if self.clipnorm is not None:
            grads = [hf.clip_by_norm(_dense(g), self.clipnorm) for g in grads]
        if self.clipvalue is not None:
            grads = [hf.clip_by_value(_dense(g), -self.clipvalue, self.clipvalue) for g in grads]
        return grads

    def get_updates(self, loss: TensorLike, params: list) -> list:
        """Return the operations that update `params` against the gradient of `loss`."""
        self.updates = [self.apply_gradients(zip(self.get_gradients(loss, params), params))]
        return self.updates

    def minimize(self, loss: TensorLike, var_list: Sequence[Variable] | Callable[[], Any] | None,
                 grad_loss: Any = None, name: str | None = None) -> Any:
        """Return an operation that updates the variables against the gradient of `loss`.

        `var_list` are the variables, a function that returns them, or None for all trained ones.
        """
        return self.apply_gradients(
            self._compute_gradients(loss, var_list=var_list, grad_loss=grad_loss), name)

    def _compute_gradients(self, loss: TensorLike, var_list: Any, grad_loss: Any = None) -> list:
        """The pairs of clipped gradients and variables, without those that nothing flows to."""
        loss = _scaled(loss() if callable(loss) else loss)
        variables = var_list() if callable(var_list) else var_list or hf.trainable_variables()
        pairs = list(zip(hf.gradients(loss, variables, grad_loss), variables))
        known = [(g, v) for g, v in pairs if g is not None]
        return list(zip(self._clipped([g for g, _ in known]), [v for _, v in known]))

    def apply_gradients(self, grads_and_vars: Any, name: str | None = None) -> Any:
        """Return an operation that updates variables by their gradients; of no variables it counts
        the iteration alone.

        ``ValueError`` if there are variables and all gradients are None, ``RuntimeError`` for those
        of some rows of a variable with a constraint.
        """
        given = list(grads_and_vars)
        pairs = [(g, v) for g, v in given if g is not None]
        if given and not pairs:
            names = [v.name for _, v in given]
            raise ValueError(f"No gradients provided for any variable: {names}.")
        place = hf.get_default_graph()._place
        pairs = [(self._as_taken(g, v), v)
                 for g, v in (pairs if place is None else place.reduced(pairs))]
        with hf.name_scope(f"training/{self._name}"):
            self._create_slots([v for _, v in pairs])
            ready = hf.group(*[_values(g) for g, _ in pairs])  # all, before any variable changes
            with hf.control_dependencies([ready]):
                rate = self._rate() if "learning_rate" in self._hyper else None
                step = hf.cast(self.iterations, hf.float32) + 1.0
                with hf.control_dependencies([step] if rate is None else [rate, step]):
                    steps = self._steps(pairs, rate, step)
                with hf.control_dependencies(steps):
                    return hf.assign_add(self.iterations, 1).op

    def _as_taken(self, grad: Any, var: Any) -> Any:
        """A gradient in the form that the updates take: rows with unique indices, or all of it."""
        if isinstance(grad, IndexedSlices) and getattr(var, "constraint", None) is not None:
            raise RuntimeError("Cannot use a constraint function on a sparse variable.")
        if not (self._takes_rows() and isinstance(grad, IndexedSlices)):
            return _dense(grad)
        return IndexedSlices(*deduplicated(grad.values, grad.indices), grad.dense_shape)

    def _takes_rows(self) -> bool:
        """Whether updates take the gradients of rows as such."""
        return self._resource_apply_sparse is not None

    def _steps(self, pairs: list[tuple[Any, Any]], rate: Any, step: Any) -> list:
        """The operations that update the variables of `pairs` by their gradients."""
        self._shared = self._prepare([v for _, v in pairs])
        steps = []
        for grad, var in pairs:
            update = self._update_of(var, grad, rate, step)
            constraint = getattr(var, "constraint", None)
            steps.append(update if constraint is None else constrained(var, constraint, [update]))
        return steps

    def _update_of(self, var: Any, grad: Any, rate: Any, step: Any) -> Any:
        """The operation that updates one variable by its gradient, without its constraint."""
        sparse = isinstance(grad, IndexedSlices)
        apply: Any = self._resource_apply_sparse if sparse else self._resource_apply_dense
        given = {"apply_state": self._shared} if "apply_state" in fn_args(apply) else {}
        if sparse:
            return apply(grad.values, var, grad.indices, **given)
        return apply(grad, var, **given)

    # ------------------------------------------------------------ what derived classes define

    def _create_slots(self, var_list: list) -> None:
        """Make the slots of the variables."""

    def _prepare(self, var_list: list) -> dict:
        """What the updates of all variables of a device and type share, by these."""
        state: dict = {}
        for key in dict.fromkeys((v.device, v.dtype.base_dtype) for v in var_list):
            state[key] = {}
            self._prepare_local(*key, state)
        return state

    def _prepare_local(self, var_device: str, var_dtype: Any, apply_state: dict) -> None:
        """Put what is shared by the variables of one device and type into `apply_state`."""
        if "learning_rate" in self._hyper:
            apply_state[var_device, var_dtype]["lr_t"] = self._decayed_lr(var_dtype)

    def _fallback_apply_state(self, var_device: str, var_dtype: Any) -> dict:
        state: dict = {(var_device, var_dtype): {}}
        self._prepare_local(var_device, var_dtype, state)
        return state[var_device, var_dtype]

    def _resource_apply_dense(self, grad: Any, var: Any) -> Any:
        """Return the operation that updates `var` by `grad`."""
        raise NotImplementedError(f"{type(self).__name__} does not say its updates")

    _resource_apply_sparse: Any = None

    # ------------------------------------------------------------ slots

    def add_slot(self, var: Variable, slot_name: str, initializer: Any = "zeros") -> Any:
        """Return the slot of a variable: another variable of its shape, made the first time."""
        if (var, slot_name) in self._slots:
            return self._slots[var, slot_name]
        with hf.init_scope(), hf.name_scope(None):
            first = initializers.get(initializer) if isinstance(initializer, str) else initializer
            dtype = var.dtype.base_dtype
            made = hf.Variable(
                first(var.shape.as_list(), dtype=dtype) if callable(first) else first, dtype=dtype,
                trainable=False, name=f"training/{self._name}/{var.op.name}/{slot_name}")
        self._slots[var, slot_name] = made
        return made

    def get_slot(self, var: Variable, slot_name: str) -> Any:
        """Return the slot of a variable; ``KeyError`` if it has none of that name."""
        if (var, slot_name) not in self._slots:
            raise KeyError(slot_name)
        return self._slots[var, slot_name]

    def get_slot_names(self) -> list[str]:
        """Return the names of the slots."""
        return list(dict.fromkeys(name for _, name in self._slots))

    # ------------------------------------------------------------ values

    @property
    def _checkpoint_dependencies(self) -> list[tuple[str, Any]]:
        return [("iter" if n == "iterations" else n, v) for n, v in self._made.items()
                if not _is_schedule(v)]

    def _checkpoint_slots(self) -> list[tuple[Any, str, Any]]:
        with hf.init_scope():
            graph = hf.get_default_graph()
        return [(v, n, s) for (v, n), s in self._slots.items() if s.graph is graph]

    @property
    def weights(self) -> list:
        """The number of iterations and the slots, those in the default graph."""
        return [self.iterations, *(slot for _, _, slot in self._checkpoint_slots())]

    def variables(self) -> list:
        """Return :attr:`weights`."""
        return self.weights

    def get_weights(self) -> list:
        """Return the values of :attr:`weights`."""
        return batch_get_value(self.weights)

    def set_weights(self, weights: list) -> None:
        """Set :attr:`weights`."""
        batch_set_value(list(zip(self.weights, weights, strict=True)))

    def get_config(self) -> dict:
        """Return the name, and the bounds of gradients that are set."""
        return {"name": self._name, **{n: getattr(self, n) for n in ("clipnorm", "clipvalue")
                                       if getattr(self, n) is not None}}

    @classmethod
    def from_config(cls, config: dict) -> Any:
        """Return an optimizer of a configuration."""
        from hpcflow.keras.optimizers import schedules

        return cls(**{k: schedules.deserialize(v) if isinstance(v, dict) else v
                      for k, v in config.items()})


def _is_schedule(value: Any) -> bool:
    """True for a schedule of ``optimizers.schedules``, which is asked for the value at a step."""
    return hasattr(value, "get_config") and callable(value)


def _scaled(loss: Any) -> Any:
    """This replica's part of a loss, see ``hpcflow.distribute``."""
    place = hf.get_default_graph()._place
    return loss if place is None else place.scaled(loss)


def _dense(grad: Any) -> Any:
    return hf.convert_to_tensor(grad) if isinstance(grad, IndexedSlices) else grad


def _values(grad: Any) -> Any:
    return grad.values if isinstance(grad, IndexedSlices) else grad
