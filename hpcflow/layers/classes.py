"""The layers of this package as classes: their arguments are given once, and applied often."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from hpcflow import dtypes
from hpcflow.graph.graph import Graph, get_collection
from hpcflow.graph.keys import GraphKeys
from hpcflow.graph.likes import TensorLike
from hpcflow.layers.base import Layer
from hpcflow.layers.building import OpenScope, regularizer_below
from hpcflow.layers.convolutional import (
    conv1d,
    conv2d,
    conv2d_transpose,
    conv3d,
    conv3d_transpose,
    separable_conv1d,
    separable_conv2d,
)
from hpcflow.layers.dense import dense
from hpcflow.layers.dropout import dropout
from hpcflow.layers.flattening import flatten
from hpcflow.layers.helpers import get_reachable_from_inputs, show_arguments
from hpcflow.layers.normalization import batch_normalization
from hpcflow.layers.pooling import (
    average_pooling1d,
    average_pooling2d,
    average_pooling3d,
    max_pooling1d,
    max_pooling2d,
    max_pooling3d,
)
from hpcflow.ops.arrays.constants import placeholder
from hpcflow.ops.state.variable_scope import VariableScope, variable_scope
from hpcflow.shapes import ShapeLike

_OF_CALLS = ("inputs", "training", "reuse")  # not said when a layer is made


class FunctionLayer(Layer):
    """A layer that one of the functions of this package computes.

    The arguments of the function are those of the class and become attributes, except `training`,
    which is given with each call. So do the variables, by their names: ``kernel``, ``bias``.
    """

    function: Callable
    made: tuple[str, ...] = ()  # the names of the variables that it may have

    _takes: Sequence[inspect.Parameter] = ()

    def __init_subclass__(cls) -> None:
        if "function" in vars(cls):
            cls._takes = [p.replace(annotation=p.empty)
                          for p in inspect.signature(cls.function).parameters.values()
                          if p.name not in _OF_CALLS]
            show_arguments(cls, cls._takes)

    def __init__(self, *args: Any, **keywords: Any) -> None:
        own = {k: keywords.pop(k) for k in ("dtype", "_reuse", "_scope") if k in keywords}
        bound = inspect.Signature(self._takes).bind(*args, **keywords)
        bound.apply_defaults()
        name = bound.arguments.pop("name", None)
        super().__init__(bound.arguments.get("trainable", True), name, **own)
        self._options = dict(bound.arguments)
        vars(self).update(self._options, **dict.fromkeys(self.made))

    def build(self, input_shape: ShapeLike) -> None:
        """Make the variables for inputs of a shape."""
        if self._scope is None:  # called by the program, not by a call of the layer
            self(placeholder(self._dtype or dtypes.float32, input_shape))

    def call(self, inputs: TensorLike, **keywords: Any) -> Any:
        """Return the result of the function; `keywords` may have `training`."""
        with self._noting_variables() as scope, self._noting_losses():
            before, losses = len(get_collection(GraphKeys.UPDATE_OPS)), len(self._losses)
            name = OpenScope(scope.original_name_scope)
            outputs = type(self).function(inputs, **self._options, **keywords, name=name)
            added = get_collection(GraphKeys.UPDATE_OPS)[before:]
            self._updates += added
            for update in added:
                self._note_inputs(update, inputs)
        self._note_reached(self._losses[losses:], inputs)
        return outputs

    def _note_reached(self, losses: list, inputs: Any) -> None:
        """Note which losses are of results, not of variables."""
        reached = get_reachable_from_inputs(inputs, losses) if losses else set()
        for loss in losses:
            self._note_inputs(loss, inputs if loss in reached else None)

    def compute_output_shape(self, input_shape: ShapeLike) -> Any:
        """Return the static shape of the result for inputs of a shape.

        Raises ``ValueError`` for shapes that the layer does not take.
        """
        with Graph().as_default():
            inputs = placeholder(self._dtype or dtypes.float32, input_shape)
            return type(self).function(inputs, **self._options).get_shape()

    def _regularize(self, outputs: Any, inputs: Any) -> None:
        """The function has done so."""

    @contextmanager
    def _noting_variables(self) -> Iterator[VariableScope]:
        def noting(getter: Callable, name: str, **keywords: Any) -> Any:
            own = name.rsplit("/", 1)[-1]
            if keywords.get("regularizer") not in (None, scope.regularizer):
                keywords["regularizer"] = regularizer_below(
                    f"{scope.original_name_scope}{own}", keywords["regularizer"])
            variable = getter(name=name, **keywords)
            setattr(self, own, variable)
            # A custom getter around it may have decided that it is not trained.
            trained = keywords["trainable"] and getattr(variable, "trainable", True)
            self._note_variable(variable, trained)
            return variable

        with variable_scope(self._scope, custom_getter=noting, auxiliary_name_scope=False,
                            reuse=self._called or self._reuse or None) as scope:
            yield scope


_KERNEL = ("kernel", "bias")
_KERNELS = ("depthwise_kernel", "pointwise_kernel", "bias")


def _layer(name: str, function: Callable, made: tuple[str, ...] = ()) -> Any:
    doc = f"The layer of :func:`{function.__name__}` as an object."
    return type(name, (FunctionLayer,), {"function": staticmethod(function), "made": made,
                                         "__doc__": doc, "__module__": __name__})


Dense: Any = _layer("Dense", dense, _KERNEL)
Dropout: Any = _layer("Dropout", dropout)
Flatten: Any = _layer("Flatten", flatten)
Conv1D: Any = _layer("Conv1D", conv1d, _KERNEL)
Conv2D: Any = _layer("Conv2D", conv2d, _KERNEL)
Conv3D: Any = _layer("Conv3D", conv3d, _KERNEL)
Conv2DTranspose: Any = _layer("Conv2DTranspose", conv2d_transpose, _KERNEL)
Conv3DTranspose: Any = _layer("Conv3DTranspose", conv3d_transpose, _KERNEL)
SeparableConv1D: Any = _layer("SeparableConv1D", separable_conv1d, _KERNELS)
SeparableConv2D: Any = _layer("SeparableConv2D", separable_conv2d, _KERNELS)
BatchNormalization: Any = _layer("BatchNormalization", batch_normalization,
                                 ("beta", "gamma", "moving_mean", "moving_variance"))
MaxPooling1D: Any = _layer("MaxPooling1D", max_pooling1d)
MaxPooling2D: Any = _layer("MaxPooling2D", max_pooling2d)
MaxPooling3D: Any = _layer("MaxPooling3D", max_pooling3d)
AveragePooling1D: Any = _layer("AveragePooling1D", average_pooling1d)
AveragePooling2D: Any = _layer("AveragePooling2D", average_pooling2d)
AveragePooling3D: Any = _layer("AveragePooling3D", average_pooling3d)
