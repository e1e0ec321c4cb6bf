"""Convolutions, pooling, and what changes the size of images and sequences."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import hpcflow as hf
from hpcflow.keras import backend, lookup
from hpcflow.keras.engine.layer import Layer
from hpcflow.keras.layers.function_layer import (
    REQUIRED,
    FunctionLayer,
    OptionLayer,
    layer_of,
    understood,
)
from hpcflow.shapes import ShapeLike

if TYPE_CHECKING:
    from hpcflow.graph.likes import Sizes, TensorHandle, TensorLike

# ---------------------------------------------------------------- convolutions

Conv2D = Convolution2D = layer_of("Conv2D", __name__, hf.layers.conv2d, rank=2)
Conv3D = Convolution3D = layer_of("Conv3D", __name__, hf.layers.conv3d, rank=3)


class _Separable(FunctionLayer):
    """A separable convolution; arguments of a ``kernel``, which it has not, change nothing."""

    def __init__(self, *args: Any, kernel_initializer: Any = "glorot_uniform",
                 kernel_regularizer: Any = None, kernel_constraint: Any = None,
                 **keywords: Any) -> None:
        super().__init__(*args, **keywords)
        self._unused = {k: understood(k, v) for k, v in (
            ("kernel_initializer", kernel_initializer), ("kernel_regularizer", kernel_regularizer),
            ("kernel_constraint", kernel_constraint))}

    def get_config(self) -> dict:
        """Return the arguments."""
        return {**super().get_config(),
                **{k: lookup.serialized(v) for k, v in self._unused.items()}}


SeparableConv1D = SeparableConvolution1D = layer_of(
    "SeparableConv1D", __name__, hf.layers.separable_conv1d, _Separable, rank=1)
SeparableConv2D = SeparableConvolution2D = layer_of(
    "SeparableConv2D", __name__, hf.layers.separable_conv2d, _Separable, rank=2)


class Conv1D(FunctionLayer):
    """A convolution over one dimension; its padding may be ``causal``: no output sees what comes
    after it."""

    function = staticmethod(hf.layers.conv1d)
    rank = 1
    padding: str

    def call(self, inputs: TensorLike) -> Any:
        """Return the result of the convolution."""
        if self.padding != "causal":
            return self._result(inputs)
        if self.data_format != "channels_last":
            raise ValueError("causal padding needs data_format channels_last")
        size, rate = (v if isinstance(v, int) else v[0] for v in (self.kernel_size,
                                                                  self.dilation_rate))
        padded = hf.pad(inputs, [[0, 0], [rate * (size - 1), 0], [0, 0]])
        self.padding = "valid"
        try:
            return self._result(padded)
        finally:
            self.padding = "causal"


Convolution1D = Conv1D


class DepthwiseConv2D(OptionLayer):
    """A convolution of each channel by itself, with `depth_multiplier` results for each."""

    arguments: Mapping[str, Any] = {
        "kernel_size": REQUIRED, "strides": 1, "padding": "valid", "depth_multiplier": 1,
        "data_format": None, "activation": None, "use_bias": True,
        "depthwise_initializer": "glorot_uniform", "bias_initializer": "zeros",
        "depthwise_regularizer": None, "bias_regularizer": None, "activity_regularizer": None,
        "depthwise_constraint": None, "bias_constraint": None, "dilation_rate": 1}

    def build(self, input_shape: ShapeLike) -> None:
        """Make the variables."""
        channels = self._channels(input_shape)
        self.depthwise_kernel = self._add(
            "depthwise_kernel", [*self.kernel_size, channels, self.depth_multiplier], "depthwise")
        if self.use_bias:
            self.bias = self._add("bias", [channels * self.depth_multiplier])
        self.built = True

    def call(self, inputs: TensorLike) -> Any:
        """Return the convolution."""
        first = self.data_format == "channels_first"
        steps = list(self.strides)
        outputs = hf.nn.depthwise_conv2d(
            inputs, self.depthwise_kernel, [1, 1, *steps] if first else [1, *steps, 1],
            self.padding.upper(), list(self.dilation_rate),
            data_format="NCHW" if first else "NHWC")
        if self.use_bias:
            outputs = backend.bias_add(outputs, self.bias, self.data_format)
        return self.activation(outputs)


def _pair(value: Any) -> tuple:
    return (value, value) if isinstance(value, int) else tuple(value)


# ---------------------------------------------------------------- pooling


class _Pooling(FunctionLayer):
    """A pooling layer, whose strides are the size of its windows if None."""

    def __init__(self, *args: Any, **keywords: Any) -> None:
        super().__init__(*args, **keywords)
        if self._options["strides"] is None:
            self._options["strides"] = self._options["pool_size"]
            vars(self).update(self._options)


def _pooling(name: str, rank: int, pool: Callable[..., Any]) -> Any:
    size: Any = 2 if rank == 1 else (2,) * rank

    def pooled(inputs: TensorLike, pool_size: Sizes = size, strides: Sizes | None = None,
               padding: str = "valid", data_format: Any = None, name: str | None = None) -> Any:
        return pool(inputs, pool_size, pool_size if strides is None else strides, padding,
                    data_format or "channels_last", name)

    pooled.__doc__ = f"As ``layers.{pool.__name__}``, by default over windows of 2."
    return layer_of(name, __name__, pooled, _Pooling, rank=rank)


MaxPooling1D = MaxPool1D = _pooling("MaxPooling1D", 1, hf.layers.max_pooling1d)
MaxPooling2D = MaxPool2D = _pooling("MaxPooling2D", 2, hf.layers.max_pooling2d)
MaxPooling3D = MaxPool3D = _pooling("MaxPooling3D", 3, hf.layers.max_pooling3d)
AveragePooling1D = AvgPool1D = _pooling("AveragePooling1D", 1, hf.layers.average_pooling1d)
AveragePooling2D = AvgPool2D = _pooling("AveragePooling2D", 2, hf.layers.average_pooling2d)
AveragePooling3D = AvgPool3D = _pooling("AveragePooling3D", 3, hf.layers.average_pooling3d)


class _Global(Layer):
    """A reduction over all of space."""

    rank = 1
    reduce: Any = None

    def __init__(self, data_format: str | None = None, **keywords: Any) -> None:
        super().__init__(**keywords)
        self.data_format = data_format or backend.image_data_format()

    def _axes(self) -> list[int]:
        start = 2 if self.data_format == "channels_first" else 1
        return list(range(start, start + self.rank))

    def call(self, inputs: TensorLike) -> Any:
        """Return shape ``[batch, channels]``."""
        return type(self).reduce(inputs, self._axes())

    def get_config(self) -> dict:
        """Return the arguments."""
        return {**super().get_config(), "data_format": self.data_format}


class GlobalAveragePooling1D(_Global):
    """The means over time, of the steps that are not masked."""

    reduce = staticmethod(hf.reduce_mean)
    supports_masking = True

    def call(self, inputs: Any, mask: Any = None) -> Any:
        """Return shape ``[batch, channels]``."""
        if mask is None:
            return super().call(inputs)
        axis = self._axes()[0]
        own = hf.expand_dims(hf.cast(mask, inputs.dtype.base_dtype), 3 - axis)
        return hf.reduce_sum(inputs * own, axis) / hf.reduce_sum(own, axis)

    def compute_mask(self, inputs: TensorHandle, mask: TensorHandle | None = None) -> Any:
        """There is no time any more."""
        return None


def _global(name: str, rank: int, reduce: Callable[..., Any]) -> Any:
    what = "means" if reduce is hf.reduce_mean else "maxima"
    return type(name, (_Global,), {"rank": rank, "reduce": staticmethod(reduce),
                                   "__doc__": f"The {what} over space.", "__module__": __name__})


GlobalAveragePooling2D = _global("GlobalAveragePooling2D", 2, hf.reduce_mean)
GlobalAveragePooling3D = _global("GlobalAveragePooling3D", 3, hf.reduce_mean)
GlobalMaxPooling1D = GlobalMaxPool1D = _global("GlobalMaxPooling1D", 1, hf.reduce_max)
GlobalMaxPooling2D = GlobalMaxPool2D = _global("GlobalMaxPooling2D", 2, hf.reduce_max)
GlobalMaxPooling3D = GlobalMaxPool3D = _global("GlobalMaxPooling3D", 3, hf.reduce_max)
GlobalAvgPool1D, GlobalAvgPool2D, GlobalAvgPool3D = (
    GlobalAveragePooling1D, GlobalAveragePooling2D, GlobalAveragePooling3D)

# ---------------------------------------------------------------- sizes


class _Bordered(Layer):
    """A layer with amounts at both ends of each dimension of space."""

    rank = 1
    what = ""
    default: Any = 1

    def __init__(self, amounts: Any = None, data_format: str | None = None,
                 **keywords: Any) -> None:
        amounts = keywords.pop(self.what, amounts)
        super().__init__(**keywords)
        self.data_format = data_format or backend.image_data_format()
        self._amounts = _borders(self.default if amounts is None else amounts, self.rank)
        setattr(self, self.what, tuple(self._amounts) if self.rank > 1 else self._amounts[0])

    def _first_axis(self) -> int:
        return 2 if self.data_format == "channels_first" and self.rank > 1 else 1

    def get_config(self) -> dict:
        """Return the arguments."""
        config = {**super().get_config(), self.what: getattr(self, self.what)}
        return config if self.rank == 1 else {**config, "data_format": self.data_format}


def _borders(amounts: Any, rank: int) -> list[tuple[int, int]]:
    if isinstance(amounts, int):
        return [(amounts, amounts)] * rank
    amounts = tuple(amounts)
    if rank == 1 and isinstance(amounts[0], int):
        return [amounts]  # type: ignore[list-item]
    if len(amounts) != rank:
        raise ValueError(f"expected {rank} amounts, or pairs of them, got {amounts}")
    return [(a, a) if isinstance(a, int) else tuple(a) for a in amounts]


class ZeroPadding1D(_Bordered):
    """Zeros before and after sequences."""

    what = "padding"

    def call(self, inputs: Any) -> Any:
        """Return the inputs with zeros around."""
        first, rank = self._first_axis(), inputs.shape.ndims
        pads = [[0, 0]] * first + [list(a) for a in self._amounts]
        return hf.pad(inputs, pads + [[0, 0]] * (rank - len(pads)))


class ZeroPadding2D(ZeroPadding1D):
    """Zeros around images."""

    rank = 2


class ZeroPadding3D(ZeroPadding1D):
    """Zeros around volumes."""

    rank = 3


class Cropping1D(_Bordered):
    """Sequences without some of both ends."""

    what = "cropping"

    def call(self, inputs: Any) -> Any:
        """Return what lies within."""
        kept: list = [slice(None)] * self._first_axis()
        kept += [slice(a, -b if b else None) for a, b in self._amounts]
        return inputs[tuple(kept)]


class Cropping2D(Cropping1D):
    """Images without some of their borders."""

    rank, default = 2, 0


class Cropping3D(Cropping1D):
    """Volumes without some of their borders."""

    rank = 3


class UpSampling1D(Layer):
    """Each step `size` times."""

    def __init__(self, size: int = 2, **keywords: Any) -> None:
        super().__init__(**keywords)
        self.size = int(size)

    def call(self, inputs: TensorLike) -> Any:
        """Return longer sequences."""
        return backend.repeat_elements(inputs, self.size, 1)

    def get_config(self) -> dict:
        """Return the arguments."""
        return {**super().get_config(), "size": self.size}


class UpSampling2D(Layer):
    """Images larger by whole factors, by ``nearest`` or ``bilinear`` interpolation."""

    def __init__(self, size: TensorLike = (2, 2), data_format: str | None = None,
                 interpolation: str = "nearest", **keywords: Any) -> None:
        super().__init__(**keywords)
        if interpolation not in ("nearest", "bilinear"):
            raise ValueError('`interpolation` argument should be one of `"nearest"` or '
                             f'`"bilinear"`, got {interpolation!r}')
        self.size, self.interpolation = _pair(size), interpolation
        self.data_format = data_format or backend.image_data_format()

    def call(self, inputs: TensorLike) -> Any:
        """Return larger images."""
        rows, columns = self.size
        return backend.resize_images(inputs, rows, columns, self.data_format,
                                     self.interpolation)

    def get_config(self) -> dict:
        """Return the arguments."""
        return {**super().get_config(), "size": self.size, "data_format": self.data_format,
                "interpolation": self.interpolation}


class UpSampling3D(Layer):
    """Each value of volumes repeated along all three dimensions."""

    def __init__(self, size: Any = (2, 2, 2), data_format: str | None = None,
                 **keywords: Any) -> None:
        super().__init__(**keywords)
        self.size = (size,) * 3 if isinstance(size, int) else tuple(size)
        self.data_format = data_format or backend.image_data_format()

    def call(self, inputs: TensorLike) -> Any:
        """Return larger volumes."""
        first = 2 if self.data_format == "channels_first" else 1
        for axis, times in enumerate(self.size, first):
            inputs = backend.repeat_elements(inputs, times, axis)
        return inputs

    def get_config(self) -> dict:
        """Return the arguments."""
        return {**super().get_config(), "size": self.size, "data_format": self.data_format}


