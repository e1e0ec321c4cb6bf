"""Optimizers of models. The learning rate and the other numbers are variables."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import hpcflow as hf
from hpcflow.base.late_names import named_otherwise
from hpcflow.graph.indexed_slices import IndexedSlices
from hpcflow.keras import lookup
from hpcflow.keras.optimizer import Optimizer
from hpcflow.keras.optimizers import schedules


class _Formula(Optimizer):
    """The base of the optimizers of this module.

    A derived class says the names of its `slots`, and in :meth:`_update` what a gradient does to a
    variable. `numbers` are its hyperparameters by name; keywords with these names replace them.

    What a gradient of some rows changes is said by `_rows`: "all" that it changes filled up with
    zeros, these rows of the variable and of its slots "only", or of the variable alone ("moved").
    """

    slots: tuple[str, ...] = ()
    _rows = "all"

    def __init__(self, numbers: dict[str, Any], **keywords: Any) -> None:
        if "lr" in keywords:
            numbers["learning_rate"] = keywords.pop("lr")
        numbers.update((key, keywords.pop(key)) for key in list(keywords) if key in numbers)
        super().__init__(keywords.pop("name", None), **keywords)
        for name, value in numbers.items():
            self._set_hyper(name, value)

    def _create_slots(self, var_list: list) -> None:
        for kind in self.slots:
            for var in var_list:
                self.add_slot(var, kind, hf.constant_initializer(self._first(kind)))

    def _first(self, kind: str) -> float:
        """Return the initial value of a slot's elements."""
        return 0.0

    def _prepare(self, var_list: list) -> dict:
        return {}

    def _takes_rows(self) -> bool:
        return self._rows != "all"

    def _update_of(self, var: Any, grad: Any, rate: Any, step: Any) -> Any:
        """As of the class above where a derived class says the updates, else by the formula."""
        apply = ("_resource_apply_sparse" if isinstance(grad, IndexedSlices)
                 else "_resource_apply_dense")
        if getattr(type(self), apply) is not getattr(_Formula, apply):
            return super()._update_of(var, grad, rate, step)
        return self._by_formula(var, grad, rate, step)

    def _resource_apply_dense(self, grad: Any, var: Any, apply_state: Any = None) -> Any:
        """Return the operation that updates `var` by `grad` in this iteration."""
        step = hf.cast(self.iterations, hf.float32) + 1.0
        return self._by_formula(var, grad, self._rate(), step)

    def _resource_apply_sparse(self, grad: Any, var: Any, indices: Any,
                               apply_state: Any = None) -> Any:
        """Return the operation that updates `var` by the gradients `grad` of some rows."""
        return self._resource_apply_dense(IndexedSlices(grad, indices, hf.shape(var)), var)

    def _by_formula(self, var: Any, grad: Any, rate: Any, step: Any) -> Any:
        dtype = var.dtype.base_dtype
        numbers = {n: self._get_hyper(n, dtype) for n in self._hyper
                   if n not in ("learning_rate", "decay")}
        rate, step = hf.cast(rate, dtype), hf.cast(step, dtype)
        slots = [self.get_slot(var, kind) for kind in self.slots]
        rows = grad.indices if isinstance(grad, IndexedSlices) else None
        only = rows is not None and self._rows == "only"
        move, now = self._update(
            grad.values if only else hf.convert_to_tensor(grad),
            [hf.gather(s, rows) if only else s for s in slots], rate, step, numbers)
        with hf.control_dependencies([move, *now]):
            kept = [hf.scatter_update(s, rows, new) if only else hf.assign(s, new)
                    for s, new in zip(slots, now, strict=True)]
            moved = (hf.assign_add(var, move) if rows is None else hf.scatter_add(
                var, rows, move if only else hf.gather(move, rows)))
        return hf.group(moved, *kept)

    def _update(self, grad: Any, slots: list, rate: Any, step: Any,
                numbers: dict[str, Any]) -> tuple[Any, list]:
        """Return what is added to the variable, and the new values of its slots."""
        raise NotImplementedError

    def get_config(self) -> dict:
        """Return the arguments, with the numbers that hold now."""
        return {**super().get_config(),
                **{name: self._serialize_hyperparameter(name) for name in self._hyper}}


class SGD(_Formula):
    """v = momentum v - rate g; w += v, with nesterov momentum v - rate g."""

    _rows = "only"

    def __init__(self, learning_rate: Any = 0.01, momentum: float = 0.0, nesterov: bool = False,
                 decay: float = 0.0, **keywords: Any) -> None:
        super().__init__({"learning_rate": learning_rate, "momentum": momentum, "decay": decay},
                         **keywords)
        self.nesterov, self.slots = nesterov, ("momentum",) if momentum else ()

    def _update(self, grad: Any, slots: list, rate: Any, step: Any,
                numbers: dict[str, Any]) -> tuple[Any, list]:
        if not slots:
            return -rate * grad, []
        velocity = numbers["momentum"] * slots[0] - rate * grad
        return (numbers["momentum"] * velocity - rate * grad if self.nesterov else velocity,
                [velocity])

    def get_config(self) -> dict:
        """Return the arguments."""
        return {**super().get_config(), "nesterov": self.nesterov}


class RMSprop(_Formula):
    """a = rho a + (1 - rho) g²; w -= rate g / (√a + epsilon).

    Args:
        learning_rate, rho, epsilon: as above.
        decay: the learning rate is divided by 1 + decay * iterations.
        momentum: of the steps, m = momentum m + rate g / √(a + epsilon); w -= m.
        centered: subtract the square of the mean gradient from a.
    """

    def __init__(self, learning_rate: Any = 0.001, rho: float = 0.9,
                 epsilon: float | None = 1e-7, decay: float = 0.0, momentum: float = 0.0,
                 centered: bool = False, **keywords: Any) -> None:
        super().__init__({"learning_rate": learning_rate, "rho": rho, "epsilon": epsilon or 1e-7,
                          "decay": decay, "momentum": momentum}, **keywords)
        self.centered, self._has_momentum = centered, bool(momentum)
        self.slots = ("rms", *["momentum"] * self._has_momentum, *["mg"] * centered)
        self._rows = "only" if self._has_momentum else "all"

    def _update(self, grad: Any, slots: list, rate: Any, step: Any,
                numbers: dict[str, Any]) -> tuple[Any, list]:
        rho, epsilon = numbers["rho"], numbers["epsilon"]
        old = dict(zip(self.slots, slots, strict=True))
        new = {"rms": rho * old["rms"] + (1.0 - rho) * hf.square(grad)}
        spread = new["rms"]
        if self.centered:
            new["mg"] = rho * old["mg"] + (1.0 - rho) * grad
            spread = spread - hf.square(new["mg"])
        if self._has_momentum:
            new["momentum"] = (numbers["momentum"] * old["momentum"]
                               + rate * grad / hf.sqrt(spread + epsilon))
            return -new["momentum"], [new[kind] for kind in self.slots]
        return -rate * grad / (hf.sqrt(spread) + epsilon), [new[kind] for kind in self.slots]

    def get_config(self) -> dict:
        """Return the arguments."""
        return {**super().get_config(), "centered": self.centered}


class Adagrad(_Formula):
    """a += g²; w -= rate g / (√a + epsilon)."""

    slots = ("accumulator",)

    def __init__(self, learning_rate: Any = 0.001, initial_accumulator_value: float = 0.1,
                 epsilon: float | None = 1e-7, decay: float = 0.0, **keywords: Any) -> None:
        self._begin = initial_accumulator_value
        super().__init__({"learning_rate": learning_rate, "epsilon": epsilon or 1e-7,
                          "decay": decay}, **keywords)

    def get_config(self) -> dict:
        """Return the configuration."""
        return {**super().get_config(), "initial_accumulator_value": self._begin}

    @classmethod
    def from_config(cls, config: dict) -> Any:
        """Return an optimizer of a configuration; as in 1.x its sums begin at 0 unless told
        otherwise, so those of ``"adagrad"`` do."""
        return super().from_config({"initial_accumulator_value": 0.0, **config})

    def _first(self, kind: str) -> float:
        return self._begin

    def _update(self, grad: Any, slots: list, rate: Any, step: Any,
                numbers: dict[str, Any]) -> tuple[Any, list]:
        total = slots[0] + hf.square(grad)
        return -rate * grad / (hf.sqrt(total) + numbers["epsilon"]), [total]


class Adadelta(_Formula):
    """Steps by the means of squared gradients and of squared steps (arXiv:1212.5701)."""

    slots = ("accum_grad", "accum_var")
    _rows = "only"

    def __init__(self, learning_rate: Any = 0.001, rho: float = 0.95,
                 epsilon: float | None = 1e-7, decay: float = 0.0, **keywords: Any) -> None:
        super().__init__({"learning_rate": learning_rate, "rho": rho,
                          "epsilon": epsilon or 1e-7, "decay": decay}, **keywords)

    def _update(self, grad: Any, slots: list, rate: Any, step: Any,
                numbers: dict[str, Any]) -> tuple[Any, list]:
        rho, epsilon = numbers["rho"], numbers["epsilon"]
        mean = rho * slots[0] + (1.0 - rho) * hf.square(grad)
        move = grad * hf.sqrt(slots[1] + epsilon) / hf.sqrt(mean + epsilon)
        return -rate * move, [mean, rho * slots[1] + (1.0 - rho) * hf.square(move)]


class _Moments(_Formula):
    """The base of Adam and its variants: hyperparameters, and the moving averages of gradients."""

    slots: tuple[str, ...] = ("m", "v")

    def __init__(self, learning_rate: Any = 0.001, beta_1: float = 0.9, beta_2: float = 0.999,
                 epsilon: float | None = 1e-7, decay: float = 0.0, **keywords: Any) -> None:
        super().__init__({"learning_rate": learning_rate, "beta_1": beta_1, "beta_2": beta_2,
                          "epsilon": epsilon or 1e-7, "decay": decay}, **keywords)

    @staticmethod
    def _means(grad: Any, slots: list, numbers: dict[str, Any]) -> tuple[Any, Any]:
        beta_1, beta_2 = numbers["beta_1"], numbers["beta_2"]
        return (beta_1 * slots[0] + (1.0 - beta_1) * grad,
                beta_2 * slots[1] + (1.0 - beta_2) * hf.square(grad))


class Adam(_Moments):
    """Adam (arXiv:1412.6980), with `amsgrad` the variant that keeps the largest v."""

    def __init__(self, learning_rate: Any = 0.001, beta_1: float = 0.9, beta_2: float = 0.999,
                 epsilon: float | None = 1e-7, amsgrad: bool = False, **keywords: Any) -> None:
        super().__init__(learning_rate, beta_1, beta_2, epsilon, **keywords)
        self.amsgrad, self.slots = amsgrad, ("m", "v", "vhat") if amsgrad else ("m", "v")

    def _update(self, grad: Any, slots: list, rate: Any, step: Any,
                numbers: dict[str, Any]) -> tuple[Any, list]:
        rate = rate * (hf.sqrt(1.0 - hf.pow(numbers["beta_2"], step))
                       / (1.0 - hf.pow(numbers["beta_1"], step)))
        now = list(self._means(grad, slots, numbers))
        if self.amsgrad:
            now.append(hf.maximum(slots[2], now[1]))
        return -rate * now[0] / (hf.sqrt(now[-1]) + numbers["epsilon"]), now

    def get_config(self) -> dict:
        """Return the arguments."""
        return {**super().get_config(), "amsgrad": self.amsgrad}


class Adamax(_Moments):
    """Adam by the largest gradients (section 7 of arXiv:1412.6980)."""

    _rows = "only"

    def _update(self, grad: Any, slots: list, rate: Any, step: Any,
                numbers: dict[str, Any]) -> tuple[Any, list]:
        beta_1 = numbers["beta_1"]
        m = beta_1 * slots[0] + (1.0 - beta_1) * grad
        v = hf.maximum(numbers["beta_2"] * slots[1], hf.abs(grad))
        return -rate / (1.0 - hf.pow(beta_1, step)) * m / (v + numbers["epsilon"]), [m, v]


class Nadam(_Moments):
    """Adam with Nesterov momentum (Dozat, 2016), which rises by 0.96 ** (schedule_decay * step).

    As in 1.x, configurations have `schedule_decay`, 0.004 if it is not given, as `decay`; a `decay`
    that is given is passed over.
    """

    _rows = "moved"

    def __init__(self, learning_rate: Any = 0.001, beta_1: float = 0.9, beta_2: float = 0.999,
                 epsilon: float | None = 1e-7, **keywords: Any) -> None:
        keywords["decay"] = keywords.pop("schedule_decay", 0.004)
        super().__init__(learning_rate, beta_1, beta_2, epsilon, **keywords)

    def _rate(self) -> Any:
        return self._scheduled()

    def _cache(self) -> Any:
        """The variable of the product of all momenta so far."""
        if "momentum_cache" not in self._made:
            with hf.init_scope(), hf.name_scope(None):
                self._made["momentum_cache"] = hf.Variable(
                    1.0, trainable=False, name=f"training/{self._name}/momentum_cache")
        return self._made["momentum_cache"]

    @property
    def weights(self) -> list:
        """The number of iterations, the product of the momenta and the slots."""
        first, *slots = super().weights
        return [first, self._cache(), *slots]

    def apply_gradients(self, grads_and_vars: Sequence[tuple[Any, Any]],
                        name: str | None = None) -> Any:
        """Return an operation that updates variables by their gradients."""
        beta_1, step = self.beta_1, hf.cast(self.iterations, hf.float32) + 1.0
        before = hf.identity(self._cache())
        self._now, self._next = (beta_1 * (1.0 - 0.5 * hf.pow(0.96, self.decay * (step + n)))
                                 for n in (0.0, 1.0))
        self._product = before * self._now
        moved = super().apply_gradients(grads_and_vars, name)
        with hf.control_dependencies([moved]):
            return hf.assign(self._cache(), self._product).op

    def _update(self, grad: Any, slots: list, rate: Any, step: Any,
                numbers: dict[str, Any]) -> tuple[Any, list]:
        m, v = self._means(grad, slots, numbers)
        now, following, product = (hf.cast(x, grad.dtype.base_dtype)
                                   for x in (self._now, self._next, self._product))
        towards = grad / (1.0 - product)
        mean = m / (1.0 - product * following)
        square = v / (1.0 - hf.pow(numbers["beta_2"], step))
        move = (1.0 - now) * towards + following * mean
        return -rate * move / (hf.sqrt(square) + numbers["epsilon"]), [m, v]


class Ftrl(_Formula):
    """Follow the regularized leader (McMahan et al., 2013), with the shrinkage of 1.x."""

    slots = ("accumulator", "linear")

    def __init__(self, learning_rate: Any = 0.001, learning_rate_power: float = -0.5,
                 initial_accumulator_value: float = 0.1, l1_regularization_strength: float = 0.0,
                 l2_regularization_strength: float = 0.0, name: str = "Ftrl",
                 l2_shrinkage_regularization_strength: float = 0.0, **keywords: Any) -> None:
        if initial_accumulator_value < 0:
            raise ValueError(f"initial_accumulator_value {initial_accumulator_value} needs to be "
                             "positive or zero")
        if learning_rate_power > 0:
            raise ValueError(f"learning_rate_power {learning_rate_power} needs to be negative or "
                             "zero")
        self._begin = initial_accumulator_value
        self._shrinkage = l2_shrinkage_regularization_strength
        super().__init__({
            "learning_rate": learning_rate, "decay": keywords.pop("decay", 0.0),
            "learning_rate_power": learning_rate_power,
            "l1_regularization_strength": l1_regularization_strength,
            "l2_regularization_strength": l2_regularization_strength}, name=name, **keywords)

    def _first(self, kind: str) -> float:
        return self._begin if kind == "accumulator" else 0.0

    def _create_slots(self, var_list: list) -> None:
        for var in var_list:
            super()._create_slots([var])

    def _update_of(self, var: Any, grad: Any, rate: Any, step: Any) -> Any:
        power, l1, l2 = (self._get_hyper(name, var.dtype.base_dtype) for name in (
            "learning_rate_power", "l1_regularization_strength", "l2_regularization_strength"))
        rate = hf.cast(rate, var.dtype.base_dtype)
        slots = [self.get_slot(var, kind) for kind in self.slots]
        before, linear, value = (hf.identity(v) for v in (*slots, var))
        total = before + hf.square(grad)
        toward = grad + 2.0 * self._shrinkage * value if self._shrinkage else grad
        linear += toward - (hf.pow(total, -power) - hf.pow(before, -power)) / rate * value
        squared = hf.pow(total, -power) / rate + 2.0 * l2
        now = [total, linear, (hf.clip_by_value(linear, -l1, l1) - linear) / squared]
        with hf.control_dependencies(now):
            return hf.group(*[hf.assign(v, x) for v, x in zip((*slots, var), now, strict=True)])

    def get_config(self) -> dict:
        """Return the arguments."""
        return {**super().get_config(), "initial_accumulator_value": self._begin,
                "l2_shrinkage_regularization_strength": self._shrinkage}


sgd, rmsprop, adagrad, adadelta, adam, adamax, nadam = (
    SGD, RMSprop, Adagrad, Adadelta, Adam, Adamax, Nadam)
_NAMED = {c.__name__.lower(): c for c in (
    SGD, RMSprop, Adagrad, Adadelta, Adam, Adamax, Nadam, Ftrl)}


def get(identifier: Any) -> Any:
    """Return the optimizer of a name, a configuration or itself; those of ``train`` too.

    Raises ``ValueError`` for what cannot be understood.
    """
    if isinstance(identifier, str):
        identifier = {"class_name": identifier.lower(), "config": {}}
    if isinstance(identifier, dict):
        name, config = identifier["class_name"], dict(identifier.get("config", {}))
        made = lookup.named(_NAMED, name.lower() if name.lower() in _NAMED else name, "optimizer")
        return made.from_config(config) if hasattr(made, "from_config") else made(**config)
    if isinstance(identifier, (Optimizer, hf.train.Optimizer)):
        return identifier
    return lookup.instance(_NAMED, identifier, "optimizer")


serialize = lookup.serialized
deserialize = get


__getattr__ = named_otherwise(__name__)
