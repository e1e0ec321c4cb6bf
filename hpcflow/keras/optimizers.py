"""Optimizers of models. The learning rate and the other numbers are variables."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import hpcflow as hf
from hpcflow.base.late_names import named_otherwise
from hpcflow.graph.indexed_slices import IndexedSlices
from hpcflow.graph.likes import TensorHandle, TensorLike
from hpcflow.keras import lookup
from hpcflow.keras.session import batch_get_value, batch_set_value
from hpcflow.optimizers.optimizer import constrained

if TYPE_CHECKING:
    from hpcflow.graph.operation import Tensor
    from hpcflow.ops.state.variables import Variable


class Optimizer:
    """Base of the optimizers.

    A derived class says the names of its `numbers` and `slots`, and in :meth:`_update` what a
    gradient does to a variable.

    Args (keywords):
        clipnorm: longest norm of each gradient.
        clipvalue: largest absolute value of a gradient's elements.
        decay: the learning rate is divided by 1 + decay * iterations.
        name: accepted.
    """

    slots: tuple[str, ...] = ()

    def __init__(self, numbers: dict[str, float], **keywords: Any) -> None:
        self.clipnorm, self.clipvalue = keywords.pop("clipnorm", None), keywords.pop("clipvalue",
                                                                                     None)
        self._name = keywords.pop("name", None) or type(self).__name__
        if "lr" in keywords:
            numbers["learning_rate"] = keywords.pop("lr")
        for key in keywords:
            if key not in numbers:
                raise TypeError(f"Unexpected keyword argument passed to optimizer: {key}")
        numbers.update(keywords)
        self._numbers: dict[str, Any] = dict(numbers)
        self._made: dict[str, Any] = {}
        self._slots: list[Any] = []
        self._slots_of: list[tuple[Any, str, Any]] = []
        self.updates: list[Any] = []

    # ------------------------------------------------------------ numbers

    def __getattr__(self, name: str) -> Any:
        name = "learning_rate" if name == "lr" else name
        if name == "iterations" or name in self.__dict__.get("_numbers", ()):
            return self._variable(name)
        raise AttributeError(f"'{type(self).__name__}' object has no attribute '{name}'")

    def __setattr__(self, name: str, value: Any) -> None:
        name = "learning_rate" if name == "lr" else name
        if name not in self.__dict__.get("_numbers", ()):
            super().__setattr__(name, value)
        elif name in self._made:
            batch_set_value([(self._made[name], value)])
        else:
            self._numbers[name] = value

    def _variable(self, name: str) -> Any:
        """The variable of a number, in the default graph."""
        made = self._made.get(name)
        if made is None:
            with hf.init_scope(), hf.name_scope(None):
                if name == "iterations":
                    made = hf.Variable(0, trainable=False, dtype=hf.int64,
                                       name=f"{self._name}/iter")
                else:
                    value = self._numbers[name]
                    given = value() if callable(value) else value
                    made = given if isinstance(given, (hf.Tensor, hf.Variable)) else hf.Variable(
                        float(given), trainable=False, name=f"{self._name}/{name}")
            self._made[name] = made
        return made

    def _rate(self) -> Any:
        rate = hf.convert_to_tensor(self.learning_rate)
        if not self._numbers.get("decay"):
            return rate
        return rate / (1.0 + self.decay * hf.cast(self.iterations, hf.float32))

    # ------------------------------------------------------------ updates

    def get_gradients(self, loss: TensorLike, params: list) -> list:
        """Return the gradients, clipped. ``ValueError`` where one of them is None."""
        grads = hf.gradients(loss, params)
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
        loss = loss() if callable(loss) else loss
        variables = var_list() if callable(var_list) else var_list or hf.trainable_variables()
        pairs = list(zip(hf.gradients(loss, variables, grad_loss), variables))
        known = [(g, v) for g, v in pairs if g is not None]
        grads = self._clipped([g for g, _ in known])
        return self.apply_gradients(zip(grads, [v for _, v in known]), name)

    def apply_gradients(self, grads_and_vars: Any, name: str | None = None) -> Any:
        """Return an operation that updates variables by their gradients.

        Variables with a constraint keep it. ``ValueError`` if there are no gradients,
        ``RuntimeError`` for sparse ones of a variable with a constraint.
        """
        given = [(g, v) for g, v in grads_and_vars if g is not None]
        if not given:
            raise ValueError("No gradients provided for any variable")
        if any(isinstance(g, IndexedSlices) and _constraint(v) is not None for g, v in given):
            raise RuntimeError("Cannot use a constraint function on a sparse variable.")
        pairs = [(_dense(g), v) for g, v in given]
        with hf.name_scope(f"training/{self._name}"):
            made = [[self._slot(v, kind) for kind in self.slots] for _, v in pairs]
            with hf.control_dependencies([g for g, _ in pairs]):
                rate, step = self._rate(), hf.cast(self.iterations, hf.float32) + 1.0
                numbers = {n: hf.convert_to_tensor(self._variable(n)) for n in self._numbers
                           if n not in ("learning_rate", "decay")}
                steps = []
                with hf.control_dependencies([rate, step]):
                    for (grad, variable), own in zip(pairs, made, strict=True):
                        updates = self._update(variable, grad, own, rate, step, numbers)
                        if (constraint := _constraint(variable)) is not None:
                            updates = [constrained(variable, constraint, updates)]
                        steps += updates
                with hf.control_dependencies(steps):
                    return hf.assign_add(self.iterations, 1).op

    def _slot(self, variable: Variable, kind: str) -> Any:
        with hf.init_scope(), hf.name_scope(None):
            made = hf.Variable(hf.zeros(variable.shape.as_list(), variable.dtype.base_dtype)
                               + self._first(kind), trainable=False,
                               name=f"training/{self._name}/{variable.op.name}/{kind}")
        self._slots.append(made)
        self._slots_of.append((variable, kind, made))
        return made

    def _first(self, kind: str) -> float:
        """Return the initial value of a slot's elements."""
        return 0.0

    def _update(self, var: Variable, grad: Tensor, slots: list, rate: TensorLike, step: Any,
                numbers: dict[str, Any]) -> list:
        raise NotImplementedError(f"{type(self).__name__} does not say its updates")

    # ------------------------------------------------------------ values

    @property
    def _checkpoint_dependencies(self) -> list[tuple[str, Any]]:
        return [("iter" if n == "iterations" else n, v) for n, v in self._made.items()]

    def _checkpoint_slots(self) -> list[tuple[Any, str, Any]]:
        return self._slots_of

    @property
    def weights(self) -> list:
        """The number of iterations and the slots."""
        return [self.iterations, *self._slots]

    variables = weights

    def get_weights(self) -> list:
        """Return the values of :attr:`weights`."""
        return batch_get_value(self.weights)

    def set_weights(self, weights: list) -> None:
        """Set :attr:`weights`."""
        batch_set_value(list(zip(self.weights, weights, strict=True)))

    def get_config(self) -> dict:
        """Return the arguments, with the numbers that hold now."""
        names = [n for n in self._numbers if n in self._made]
        config = {"name": self._name, **self._numbers}
        values = batch_get_value([self._made[n] for n in names])
        config.update((n, float(v)) for n, v in zip(names, values, strict=True))
        config.update((n, getattr(self, n)) for n in ("clipnorm", "clipvalue")
                      if getattr(self, n) is not None)
        return config

    @classmethod
    def from_config(cls, config: dict) -> Any:
        """Return an optimizer of a configuration."""
        return cls(**config)


def _dense(grad: Tensor) -> Any:
    return hf.convert_to_tensor(grad) if isinstance(grad, IndexedSlices) else grad


def _constraint(variable: Any) -> Callable | None:
    return getattr(variable, "constraint", None)


class SGD(Optimizer):
    """v = momentum v - rate g; w += v, with nesterov momentum v - rate g."""

    def __init__(self, learning_rate: Any = 0.01, momentum: float = 0.0, nesterov: bool = False,
                 decay: float = 0.0, **keywords: Any) -> None:
        super().__init__({"learning_rate": learning_rate, "momentum": momentum, "decay": decay},
                         **keywords)
        self.nesterov, self.slots = nesterov, ("momentum",) if momentum else ()

    def _update(self, var: TensorLike, grad: TensorHandle, slots: list, rate: Any, step: Tensor,
                numbers: dict[str, Any]) -> list:
        if not slots:
            return [hf.assign_sub(var, rate * grad)]
        velocity = hf.assign(slots[0], numbers["momentum"] * slots[0] - rate * grad)
        move = numbers["momentum"] * velocity - rate * grad if self.nesterov else velocity
        return [hf.assign_add(var, move)]

    def get_config(self) -> dict:
        """Return the arguments."""
        return {**super().get_config(), "nesterov": self.nesterov}


class RMSprop(Optimizer):
    """a = rho a + (1 - rho) g²; w -= rate g / (√a + epsilon)."""

    slots = ("rms",)

    def __init__(self, learning_rate: Any = 0.001, rho: float = 0.9,
                 epsilon: float | None = 1e-7, decay: float = 0.0, **keywords: Any) -> None:
        super().__init__({"learning_rate": learning_rate, "rho": rho,
                          "epsilon": epsilon or 1e-7, "decay": decay}, **keywords)

    def _update(self, var: Any, grad: Any, slots: list, rate: Any, step: Any,
                numbers: dict[str, Any]) -> list:
        rho = numbers["rho"]
        mean = hf.assign(slots[0], rho * slots[0] + (1.0 - rho) * hf.square(grad))
        return [hf.assign_sub(var, rate * grad / (hf.sqrt(mean) + numbers["epsilon"]))]


class Adagrad(Optimizer):
    """a += g²; w -= rate g / (√a + epsilon)."""

    slots = ("accumulator",)

    def __init__(self, learning_rate: Any = 0.001, initial_accumulator_value: float = 0.1,
                 epsilon: float | None = 1e-7, decay: float = 0.0, **keywords: Any) -> None:
        self._begin = initial_accumulator_value
        super().__init__({"learning_rate": learning_rate, "epsilon": epsilon or 1e-7,
                          "decay": decay}, **keywords)

    def _first(self, kind: str) -> float:
        return self._begin

    def _update(self, var: Any, grad: Any, slots: list, rate: Any, step: Any,
                numbers: dict[str, Any]) -> list:
        total = hf.assign_add(slots[0], hf.square(grad))
        return [hf.assign_sub(var, rate * grad / (hf.sqrt(total) + numbers["epsilon"]))]


class Ftrl(Optimizer):
    """Follow the regularized leader, with the penalties of weights in the step (McMahan 2013).

    Raises ``ValueError`` for a `learning_rate_power` above 0, and for other arguments below 0.
    """

    slots = ("accumulator", "linear")

    def __init__(self, learning_rate: Any = 0.001, learning_rate_power: float = -0.5,
                 initial_accumulator_value: float = 0.1, l1_regularization_strength: float = 0.0,
                 l2_regularization_strength: float = 0.0, name: str = "Ftrl",
                 l2_shrinkage_regularization_strength: float = 0.0, decay: float = 0.0,
                 **keywords: Any) -> None:
        if learning_rate_power > 0:
            raise ValueError(f"learning_rate_power {learning_rate_power:f} needs to be negative or "
                             "zero")
        self._fixed = {"initial_accumulator_value": initial_accumulator_value,
                       "l2_shrinkage_regularization_strength": l2_shrinkage_regularization_strength}
        penalties = {"l1_regularization_strength": l1_regularization_strength,
                     "l2_regularization_strength": l2_regularization_strength}
        for key, value in (self._fixed | penalties).items():
            if value < 0:
                raise ValueError(f"{key} {value:f} needs to be positive or zero")
        super().__init__({"learning_rate": learning_rate, "decay": decay,
                          "learning_rate_power": learning_rate_power, **penalties},
                         name=name, **keywords)

    def _first(self, kind: str) -> float:
        return self._fixed["initial_accumulator_value"] if kind == "accumulator" else 0.0

    def _update(self, var: Any, grad: Any, slots: list, rate: Any, step: Any,
                numbers: dict[str, Any]) -> list:
        l1, l2 = (numbers[f"l{n}_regularization_strength"] for n in (1, 2))
        power, (accumulator, linear) = -numbers["learning_rate_power"], slots
        before, value = hf.identity(accumulator), hf.identity(var)
        after = before + hf.square(grad)
        shrunk = grad + 2.0 * self._fixed["l2_shrinkage_regularization_strength"] * value
        total = linear + shrunk - (hf.pow(after, power) - hf.pow(before, power)) / rate * value
        quadratic = hf.pow(after, power) / rate + 2.0 * l2
        new = hf.where(hf.abs(total) > l1, (hf.sign(total) * l1 - total) / quadratic,
                       hf.zeros_like(total))
        with hf.control_dependencies([after, total, new]):
            return [hf.assign(accumulator, after), hf.assign(linear, total), hf.assign(var, new)]

    def get_config(self) -> dict:
        """Return the arguments, with the numbers that hold now."""
        return super().get_config() | self._fixed


class Adadelta(Optimizer):
    """Steps by the means of squared gradients and of squared steps (arXiv:1212.5701)."""

    slots = ("accum_grad", "accum_var")

    def __init__(self, learning_rate: Any = 0.001, rho: float = 0.95,
                 epsilon: float | None = 1e-7, decay: float = 0.0, **keywords: Any) -> None:
        super().__init__({"learning_rate": learning_rate, "rho": rho,
                          "epsilon": epsilon or 1e-7, "decay": decay}, **keywords)

    def _update(self, var: Variable, grad: Tensor, slots: list, rate: TensorLike, step: Any,
                numbers: dict[str, Any]) -> list:
        rho, epsilon = numbers["rho"], numbers["epsilon"]
        before = hf.identity(slots[1])
        mean = hf.assign(slots[0], rho * slots[0] + (1.0 - rho) * hf.square(grad))
        move = grad * hf.sqrt(before + epsilon) / hf.sqrt(mean + epsilon)
        moved = hf.assign(slots[1], rho * before + (1.0 - rho) * hf.square(move))
        return [hf.assign_sub(var, rate * move), moved]


class _Moments(Optimizer):
    """The base of Adam and its variants: hyperparameters, and the moving averages of gradients."""

    slots: tuple[str, ...] = ("m", "v")

    def __init__(self, learning_rate: Any = 0.001, beta_1: float = 0.9, beta_2: float = 0.999,
                 epsilon: float | None = 1e-7, decay: float = 0.0, **keywords: Any) -> None:
        super().__init__({"learning_rate": learning_rate, "beta_1": beta_1, "beta_2": beta_2,
                          "epsilon": epsilon or 1e-7, "decay": decay}, **keywords)

    @staticmethod
    def _means(grad: Tensor, slots: list, numbers: dict[str, Any]) -> tuple[Any, Any]:
        beta_1, beta_2 = numbers["beta_1"], numbers["beta_2"]
        return (hf.assign(slots[0], beta_1 * slots[0] + (1.0 - beta_1) * grad),
                hf.assign(slots[1], beta_2 * slots[1] + (1.0 - beta_2) * hf.square(grad)))


class Adam(_Moments):
    """Adam (arXiv:1412.6980), with `amsgrad` the variant that keeps the largest v."""

    def __init__(self, learning_rate: Any = 0.001, beta_1: float = 0.9, beta_2: float = 0.999,
                 epsilon: float | None = 1e-7, amsgrad: bool = False, **keywords: Any) -> None:
        super().__init__(learning_rate, beta_1, beta_2, epsilon, **keywords)
        self.amsgrad, self.slots = amsgrad, ("m", "v", "vhat") if amsgrad else ("m", "v")

    def _update(self, var: Variable, grad: Tensor, slots: list, rate: TensorLike, step: Tensor,
                numbers: dict[str, Any]) -> list:
        rate = rate * (hf.sqrt(1.0 - hf.pow(numbers["beta_2"], step))
                       / (1.0 - hf.pow(numbers["beta_1"], step)))
        m, v = self._means(grad, slots, numbers)
        if self.amsgrad:
            v = hf.assign(slots[2], hf.maximum(slots[2], v))
        return [hf.assign_sub(var, rate * m / (hf.sqrt(v) + numbers["epsilon"]))]

    def get_config(self) -> dict:
        """Return the arguments."""
        return {**super().get_config(), "amsgrad": self.amsgrad}


class Adamax(_Moments):
    """Adam by the largest gradients (section 7 of arXiv:1412.6980)."""

    def _update(self, var: Variable, grad: Tensor, slots: list, rate: TensorLike, step: Any,
                numbers: dict[str, Any]) -> list:
        beta_1 = numbers["beta_1"]
        m = hf.assign(slots[0], beta_1 * slots[0] + (1.0 - beta_1) * grad)
        v = hf.assign(slots[1], hf.maximum(numbers["beta_2"] * slots[1], hf.abs(grad)))
        rate = rate / (1.0 - hf.pow(beta_1, step))
        return [hf.assign_sub(var, rate * m / (v + numbers["epsilon"]))]


class Nadam(_Moments):
    """Adam with Nesterov momentum (Dozat, 2016), whose momentum rises by 0.96 every 250 steps."""

    def __init__(self, learning_rate: Any = 0.001, beta_1: float = 0.9, beta_2: float = 0.999,
                 epsilon: float | None = 1e-7, **keywords: Any) -> None:
        self._schedule: Any = None
        keywords.pop("schedule_decay", None)
        super().__init__(learning_rate, beta_1, beta_2, epsilon, **keywords)

    def apply_gradients(self, grads_and_vars: Sequence[tuple[Any, Any]],
                        name: str | None = None) -> Any:
        """Return an operation that updates variables by their gradients."""
        with hf.init_scope(), hf.name_scope(None):
            self._schedule = self._schedule or hf.Variable(
                1.0, trainable=False, name=f"{self._name}/momentum_cache")
        beta_1, step = self.beta_1, hf.cast(self.iterations, hf.float32) + 1.0
        before = hf.identity(self._schedule)
        self._now, self._next = (beta_1 * (1.0 - 0.5 * hf.pow(0.96, 0.004 * (step + n)))
                                 for n in (0.0, 1.0))
        self._product = before * self._now
        moved = super().apply_gradients(grads_and_vars, name)
        with hf.control_dependencies([moved]):
            return hf.assign(self._schedule, self._product).op

    def _update(self, var: Variable, grad: Tensor, slots: list, rate: TensorLike, step: Any,
                numbers: dict[str, Any]) -> list:
        m, v = self._means(grad, slots, numbers)
        towards = grad / (1.0 - self._product)
        mean = m / (1.0 - self._product * self._next)
        square = v / (1.0 - hf.pow(numbers["beta_2"], step))
        move = (1.0 - self._now) * towards + self._next * mean
        return [hf.assign_sub(var, rate * move / (hf.sqrt(square) + numbers["epsilon"]))]


sgd, rmsprop, adagrad, adadelta, adam, adamax, nadam = (
    SGD, RMSprop, Adagrad, Adadelta, Adam, Adamax, Nadam)
_NAMED = {c.__name__.lower(): c for c in (SGD, RMSprop, Adagrad, Adadelta, Adam, Adamax, Nadam,
                                           Ftrl)}


def get(identifier: Any) -> Any:
    """Return the optimizer of a name, a configuration or itself; those of ``train`` too.

    Raises ``ValueError`` for what cannot be understood.
    """
    if isinstance(identifier, str):
        identifier = identifier.lower()
    if isinstance(identifier, dict):
        identifier = {**identifier, "class_name": identifier["class_name"].lower()}
    if isinstance(identifier, (Optimizer, hf.train.Optimizer)):
        return identifier
    return lookup.instance(_NAMED, identifier, "optimizer")


serialize = lookup.serialized
deserialize = get


__getattr__ = named_otherwise(__name__)
