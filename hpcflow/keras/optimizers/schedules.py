"""Learning rates that follow from the number of steps, as objects for optimizers."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import hpcflow as hf
from hpcflow.keras import lookup
from hpcflow.layers.helpers import show_arguments

if TYPE_CHECKING:
    from hpcflow.graph.likes import TensorLike

__all__ = ["ExponentialDecay", "InverseTimeDecay", "LearningRateSchedule",
           "PiecewiseConstantDecay", "PolynomialDecay", "deserialize", "serialize"]


class LearningRateSchedule:
    """Base of schedules: a derived class is called with the number of steps, and returns the
    learning rate; ``get_config`` returns its arguments."""

    def __call__(self, step: TensorLike) -> Any:
        """Return the learning rate at a step."""
        raise NotImplementedError("Learning rate schedule must override __call__")

    def get_config(self) -> dict:
        """Return the arguments."""
        raise NotImplementedError("Learning rate schedule must override get_config")

    @classmethod
    def from_config(cls, config: dict) -> Any:
        """Return a schedule of a configuration."""
        return cls(**config)


class _OfFunction(LearningRateSchedule):
    """The schedule that a function of ``hf.train`` computes, with its other arguments."""

    function: Callable
    _takes: Sequence[inspect.Parameter] = ()
    _of_step = ("global_step", "x")

    def __init_subclass__(cls) -> None:
        cls._takes = [p.replace(name=p.name.replace("learning_rate", "initial_learning_rate")
                                if p.name == "learning_rate" else p.name, annotation=p.empty)
                      for p in inspect.signature(cls.function).parameters.values()
                      if p.name not in cls._of_step]
        show_arguments(cls, cls._takes)

    def __init__(self, *args: Any, **keywords: Any) -> None:
        bound = inspect.Signature(self._takes).bind(*args, **keywords)
        bound.apply_defaults()
        self._options = bound.arguments
        vars(self).update(self._options)

    def __call__(self, step: TensorLike) -> Any:
        """Return the learning rate at a step, a tensor."""
        options = dict(self._options)
        if "initial_learning_rate" in options:
            options["learning_rate"] = options.pop("initial_learning_rate")
        names = inspect.signature(type(self).function).parameters
        place = next(n for n in self._of_step if n in names)
        return type(self).function(**options, **{place: hf.convert_to_tensor(step)})

    def get_config(self) -> dict:
        """Return the arguments."""
        return dict(self._options)


def _schedule(name: str, function: Callable) -> Any:
    return type(name, (_OfFunction,), {
        "function": staticmethod(function), "__module__": __name__,
        "__doc__": f"``hf.train.{function.__name__}`` as an object."})


ExponentialDecay = _schedule("ExponentialDecay", hf.train.exponential_decay)
InverseTimeDecay = _schedule("InverseTimeDecay", hf.train.inverse_time_decay)
PiecewiseConstantDecay = _schedule("PiecewiseConstantDecay", hf.train.piecewise_constant)
PolynomialDecay = _schedule("PolynomialDecay", hf.train.polynomial_decay)
CosineDecay = _schedule("CosineDecay", hf.train.cosine_decay)
CosineDecayRestarts = _schedule("CosineDecayRestarts", hf.train.cosine_decay_restarts)
LinearCosineDecay = _schedule("LinearCosineDecay", hf.train.linear_cosine_decay)
NoisyLinearCosineDecay = _schedule("NoisyLinearCosineDecay", hf.train.noisy_linear_cosine_decay)

_NAMED = {n: v for n, v in globals().items()
          if isinstance(v, type) and issubclass(v, LearningRateSchedule)}

serialize = lookup.serialized


def deserialize(config: Any, custom_objects: dict | None = None) -> Any:
    """Return the schedule of a configuration. ``ValueError`` for the name of another class."""
    with lookup.custom_object_scope(custom_objects or {}):
        found = lookup.named(_NAMED, config["class_name"], "decay")
    return found.from_config(config["config"])
