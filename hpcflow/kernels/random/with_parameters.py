"""Kernels of random op types whose distributions have parameters: gamma, Poisson, normal between
bounds."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np

from hpcflow.host import memory
from hpcflow.host.tuning import kernels as tuning
from hpcflow.kernels import late_errors
from hpcflow.kernels.common.device_windows import programs_of
from hpcflow.kernels.common.parallel import over_rows
from hpcflow.kernels.random import device_rejection, rejection
from hpcflow.kernels.random.philox import Sequence, Start
from hpcflow.kernels.random.random import sequence_of, to_dims
from hpcflow.kernels.random.stateless_random import start_of_key, start_of_seeds
from hpcflow.kernels.registry import KernelNode, invalid, kernel, shown

_NARROW = frozenset({np.dtype(np.float16), np.dtype(ml_dtypes.bfloat16)})


# ---------------------------------------------------------------- on the CPU


def _filled(start: Start, size: int, dtype: np.dtype,
            draw: Callable[[np.ndarray, np.ndarray], np.ndarray]) -> np.ndarray:
    """A vector of what ``draw(numbers, places)`` gives for the numbers of elements."""
    made = memory.empty((size,), dtype)
    stride = np.uint64(rejection.STRIDE)

    def work(part: slice) -> None:
        numbers = np.arange(part.start, part.stop)
        with np.errstate(all="ignore"):
            made[part] = _rounded(draw(numbers, numbers.astype(np.uint64) * stride), dtype)

    if size:
        over_rows(size, tuning.REJECTION_ROW_BYTES, work, tuning.REJECTION_BLOCK_BYTES)
    return made


def _rounded(values: np.ndarray, dtype: np.dtype) -> np.ndarray:
    """Numbers as a device rounds them: to the narrow types by way of float32; whole ones end at
    the largest of their type."""
    if dtype.kind != "i":
        return values.astype(np.float32) if dtype in _NARROW else values
    most = np.iinfo(dtype).max
    return np.where(values < most, values, 0).astype(dtype) + np.where(
        values < most, 0, most).astype(dtype)


def _by_parameter(draw: rejection.Draw, start: Start, parameter: np.ndarray, samples: int,
                  dtype: np.dtype) -> np.ndarray:
    """``[samples, parameters]``: those of a parameter come one after the other in the sequence."""
    values = parameter.astype(np.float64).reshape(-1)

    def some(numbers: np.ndarray, places: np.ndarray) -> np.ndarray:
        first, last = numbers[0] // samples, numbers[-1] // samples
        return draw(start, places, values[first] if first == last else values[numbers // samples])

    drawn = _filled(start, samples * values.size, dtype, some)
    return np.ascontiguousarray(drawn.reshape(values.size, samples).T)


def _between(start: Start, dims: tuple[int, ...], parameters: list[np.ndarray],
             dtype: np.dtype) -> np.ndarray:
    """Normal numbers of all batches, each with its own mean, deviation and bounds."""
    samples = math.prod(dims[1:])
    means, deviations, least, most = [np.broadcast_to(p.astype(np.float64).reshape(-1), dims[:1])
                                      for p in parameters]
    with np.errstate(all="ignore"):
        low, high = (least - means) / deviations, (most - means) / deviations

    def some(numbers: np.ndarray, places: np.ndarray) -> np.ndarray:
        first, last = numbers[0] // samples, numbers[-1] // samples
        which = first if first == last else numbers // samples
        found = rejection.normal_between(start, places, low[which], high[which])
        return np.clip(found * deviations[which] + means[which], least[which], most[which])

    return _filled(start, samples * dims[0], dtype, some).reshape(dims)


# ---------------------------------------------------------------- gamma, Poisson


def _register(kind: str, draw: rejection.Draw, wrong: Callable[[Any], Any],
              error: str, *op_types: str) -> None:
    """Register op types of a shape and a parameter; ``wrong(parameter)`` are those without
    numbers."""

    def sizes(shape: Any, parameter: Any) -> tuple[tuple[int, ...], int]:
        dims = to_dims(shape)
        return dims + parameter.shape, math.prod(dims)

    def on_cpu(node: KernelNode) -> Callable:
        sequence, dtype = sequence_of(node), node.np_dtype()

        def run(shape: Any, parameter: Any) -> Any:
            given = np.asarray(parameter)
            if wrong(given).any():
                raise invalid(f"{error}, got {given.min()}")
            dims, samples = sizes(shape, given)
            start = sequence.take(rejection.STRIDE * math.prod(dims))
            return _by_parameter(draw, start, given, samples, dtype).reshape(dims)

        return run

    def on_device(node: KernelNode) -> Callable:
        programs, xp, dtype = programs_of(node.device), node.xp, node.np_dtype()
        if programs is None:
            return _by_host(node, on_cpu(node))
        sequence, drawn = sequence_of(node), node.device.drawn
        fill = programs.elements(device_rejection.kernel_of(kind, dtype.name))

        def run(shape: Any, parameter: Any) -> Any:
            dims, samples = sizes(shape, parameter)
            late_errors.note(xp, wrong(parameter).any(), lambda: invalid(error))
            start = drawn(lambda: sequence.take(rejection.STRIDE * math.prod(dims)).words64())
            made = xp.empty(dims, dtype)
            fill(made.size, start, _wide(xp, parameter), made, samples, parameter.size)
            return made

        return run

    kernel(*op_types, device="CPU", fresh=True)(on_cpu)
    kernel(*op_types, device="GPU", fresh=True, host_inputs=(0,))(on_device)


def _wide(xp: Any, parameter: Any) -> Any:
    return xp.ascontiguousarray(parameter.astype(np.float64))


def _by_host(node: KernelNode, function: Callable) -> Callable:
    """What a device without kernels of its own does: values go to the host and back."""
    send, bring = node.device.to_device, node.device.to_host
    return lambda *inputs: send(function(*map(bring, inputs)))


_register("gamma", rejection.gamma, lambda alpha: alpha < 0,
          "alpha must not be negative", "RandomGamma")
_register("poisson", rejection.poisson, lambda rate: ~(rate >= 0),
          "rate must not be negative or NaN", "RandomPoisson", "RandomPoissonV2")


# ---------------------------------------------------------------- without state


def _register_stateless(draw: rejection.Draw, wrong: Callable[[Any], Any], error: str,
                        start_of: Callable[..., Start], *op_types: str) -> None:
    """Register op types of a shape, what `start_of` makes a start of, and a parameter for each
    element of the last dimensions."""

    @kernel(*op_types, device="CPU", fresh=True)
    def factory(node: KernelNode) -> Callable:
        dtype = node.np_dtype()

        def run(shape: Any, *rest: Any) -> Any:
            dims, given = to_dims(shape), np.asarray(rest[-1])
            start = start_of(*rest[:-1])
            if dims[len(dims) - given.ndim :] != given.shape or len(dims) < given.ndim:
                raise invalid(f"shape {shown(dims)} must end with that of the parameter "
                              f"{shown(given)}")
            if wrong(given).any():
                raise invalid(f"{error}, got {given.min()}")
            samples = math.prod(dims[: len(dims) - given.ndim])
            return _by_parameter(draw, start, given, samples, dtype).reshape(dims)[()]

        return run


for _start_of, _op_type in ((start_of_seeds, "StatelessRandomGammaV2"),
                            (start_of_key, "StatelessRandomGammaV3")):
    _register_stateless(rejection.gamma, lambda alpha: alpha < 0, "alpha must not be negative",
                        _start_of, _op_type)
_register_stateless(rejection.poisson, lambda rate: ~(rate >= 0),
                    "lam must not be negative or NaN", start_of_seeds, "StatelessRandomPoisson")


# ---------------------------------------------------------------- normal, between bounds


_REASON = "stdevs must be positive, means and stdevs finite and minvals less than maxvals"


def _batches(shape: Any, parameters: tuple) -> tuple[int, ...]:
    """The dims; InvalidArgumentError if a parameter has not one element, or one for each batch."""
    dims = to_dims(shape)
    if not dims:
        raise invalid("shape must have at least one dimension, the batch")
    for values in parameters:
        if values.ndim > 1 or values.ndim == 1 and len(values) not in (1, dims[0]):
            raise invalid("parameters must be scalars or have one element per batch "
                          f"({dims[0]}), got shape {shown(values)}")
    return dims


def _wrong_bounds(xp: Any, means: Any, deviations: Any, least: Any, most: Any) -> Any:
    right = xp.isfinite(means) & xp.isfinite(deviations) & (deviations > 0) & (least < most)
    return ~right.all()


def _take(sequence: Sequence, dims: tuple[int, ...]) -> Start:
    return sequence.take(rejection.STRIDE * math.prod(dims))


@kernel("ParameterizedTruncatedNormal", device="CPU", fresh=True)
def _between_bounds(node: KernelNode) -> Callable:
    sequence, dtype = sequence_of(node), node.np_dtype()

    def run(shape: Any, *parameters: Any) -> Any:
        given = [np.asarray(p) for p in parameters]
        dims = _batches(shape, tuple(given))
        if _wrong_bounds(np, *given):
            raise invalid(_REASON)
        return _between(_take(sequence, dims), dims, given, dtype)

    return run


@kernel("ParameterizedTruncatedNormal", device="GPU", fresh=True, host_inputs=(0,))
def _between_bounds_there(node: KernelNode) -> Callable:
    """Drawn on the device."""
    programs, xp, dtype = programs_of(node.device), node.xp, node.np_dtype()
    if programs is None:
        return _by_host(node, _between_bounds(node))
    sequence, drawn = sequence_of(node), node.device.drawn
    fill = programs.elements(device_rejection.between_kernel(dtype.name))

    def run(shape: Any, *parameters: Any) -> Any:
        dims = _batches(shape, parameters)
        late_errors.note(xp, _wrong_bounds(xp, *parameters), lambda: invalid(_REASON))
        start = drawn(lambda: _take(sequence, dims).words64())
        made = xp.empty(dims, dtype)
        fill(made.size, start, *[_wide(xp, p) for p in parameters], made, math.prod(dims[1:]),
             *[p.size for p in parameters])
        return made

    return run
