"""Dense layers, normalization of batches, changes of shape, functions as layers, masks."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

import hpcflow as hf
from hpcflow.keras import activations, constraints, initializers, lookup, regularizers
from hpcflow.keras.engine.layer import Layer
from hpcflow.keras.layers.function_layer import FunctionLayer, layer_of
from hpcflow.keras.session import learning_phase
from hpcflow.keras.settings import floatx
from hpcflow.shapes import ShapeLike

if TYPE_CHECKING:
    from hpcflow.graph.likes import BoolLike, Identifier, TensorHandle, TensorLike


class _OfFloats(FunctionLayer):
    """A layer that computes in its own type, that of its first inputs unless it is given."""

    def call(self, inputs: Any) -> Any:
        """Return the result. ``TypeError`` for another type than of floats."""
        dtype = self._dtype or inputs.dtype.base_dtype
        if not (dtype.is_floating or dtype.is_complex):
            raise TypeError(f"Unable to build `{type(self).__name__}` layer with non-floating "
                            f"point dtype {dtype}")
        return self._result(inputs if inputs.dtype.base_dtype == dtype else hf.cast(inputs, dtype))


Dense = layer_of("Dense", __name__, hf.layers.dense, _OfFloats, supports_masking=True)


class _Trained(FunctionLayer):
    """A layer that does something else in training."""

    supports_masking = True

    def call(self, inputs: TensorLike, training: BoolLike | None = None) -> Any:
        """Return the result; the learning phase says whether it is training if None."""
        return self._result(inputs, training=learning_phase() if training is None else training)


def _known(shape: Any, inputs: Any) -> Any:
    """A shape with the sizes of the inputs where it is None."""
    if not isinstance(shape, (list, tuple)) or None not in shape:
        return shape
    return hf.stack([hf.shape(inputs)[n] if d is None else d for n, d in enumerate(shape)])


Dropout = layer_of("Dropout", __name__, lambda inputs, rate, noise_shape=None, seed=None,
                   training=False, name=None: hf.layers.dropout(
                       inputs, rate, _known(noise_shape, inputs), seed, training, name), _Trained,
                   __doc__="In training, zeros in the place of a part `rate` of the elements, and "
                           "the others divided by 1 - `rate`; elsewhere the inputs as they are.")


class _OfBatches(_Trained):
    """Batch normalization; what is left out of its configuration belongs to graphs of 1.x."""

    axis: Any

    def build(self, input_shape: ShapeLike) -> None:
        """Make `axis` a list of places counted from the first one."""
        super().build(input_shape)
        rank = hf.TensorShape(input_shape).ndims
        if rank is not None:
            self.axis = [a % rank for a in ([self.axis] if isinstance(self.axis, int)
                                            else self.axis)]

    def get_config(self) -> dict:
        """Return the arguments."""
        config = super().get_config()
        for name in ("fused", "adjustment"):
            config.pop(name)
        if not config["renorm"]:
            for name in ("renorm", "renorm_clipping", "renorm_momentum"):
                config.pop(name)
        if config["virtual_batch_size"] is None:
            config.pop("virtual_batch_size")
        if not isinstance(self.axis, int):
            config["axis"] = list(self.axis)
        return config


BatchNormalization = layer_of(
    "BatchNormalization", __name__,
    lambda inputs, axis=-1, momentum=0.99, epsilon=1e-3, center=True, scale=True,
    beta_initializer="zeros", gamma_initializer="ones", moving_mean_initializer="zeros",
    moving_variance_initializer="ones", beta_regularizer=None, gamma_regularizer=None,
    beta_constraint=None, gamma_constraint=None, renorm=False, renorm_clipping=None,
    renorm_momentum=0.99, fused=None, virtual_batch_size=None, adjustment=None, training=False,
    name=None: hf.layers.batch_normalization(
        inputs, axis, momentum, epsilon, center, scale, beta_initializer, gamma_initializer,
        moving_mean_initializer, moving_variance_initializer, beta_regularizer,
        gamma_regularizer, training, True, name, None, renorm, renorm_clipping, renorm_momentum,
        fused, virtual_batch_size, adjustment, beta_constraint, gamma_constraint), _OfBatches,
    __doc__="Values less their mean, by their standard deviation, times gamma plus beta: of the "
            "batch in training, of moving averages elsewhere. `axis` is that of the channels.")


class Activation(Layer):
    """An activation by name, or a function."""

    supports_masking = True

    def __init__(self, activation: Identifier, **keywords: Any) -> None:
        super().__init__(**keywords)
        self.activation = activations.get(activation)

    def call(self, inputs: TensorLike) -> Any:
        """Return the activation of the inputs."""
        return self.activation(inputs)

    def get_config(self) -> dict:
        """Return the arguments."""
        return {**super().get_config(), "activation": lookup.serialized(self.activation)}


class Flatten(Layer):
    """Everything but the batch as one vector."""

    def __init__(self, data_format: str | None = None, **keywords: Any) -> None:
        super().__init__(**keywords)
        self.data_format = data_format or "channels_last"

    def call(self, inputs: Any) -> Any:
        """Return a matrix."""
        rank = inputs.shape.ndims
        if self.data_format == "channels_first" and rank and rank > 2:
            inputs = hf.transpose(inputs, [0, *range(2, rank), 1])
        return hf.expand_dims(inputs, 1) if rank == 1 else hf.layers.flatten(inputs)

    def get_config(self) -> dict:
        """Return the arguments."""
        return {**super().get_config(), "data_format": self.data_format}


class Reshape(Layer):
    """Another shape of each example; one size may be -1.

    ``ValueError`` where the numbers of elements differ.
    """

    def __init__(self, target_shape: Any, **keywords: Any) -> None:
        super().__init__(**keywords)
        self.target_shape = tuple(target_shape)

    def call(self, inputs: Any) -> Any:
        """Return the inputs in the shape."""
        dims = inputs.shape[1:].as_list()
        target = list(self.target_shape)
        if None not in dims:
            size, known = int(np.prod(dims)), int(np.prod([d for d in target if d != -1]))
            if (-1 in target and (not known or size % known)) or (
                    -1 not in target and size != known):
                raise ValueError("total size of new array must be unchanged: "
                                 f"{dims} cannot become {target}")
            target = [size // known if d == -1 else d for d in target]
        result = hf.reshape(inputs, [-1 if inputs.shape[0].value is None or -1 not in target
                                     else inputs.shape[0].value, *target]
                            if -1 not in target else
                            hf.concat([hf.shape(inputs)[:1], target], 0))
        result.set_shape([inputs.shape[0].value, *(None if d == -1 else d for d in target)])
        return result

    def get_config(self) -> dict:
        """Return the arguments."""
        return {**super().get_config(), "target_shape": self.target_shape}


class Permute(Layer):
    """The dimensions after the batch, counted from 1, in another order."""

    def __init__(self, dims: Any, **keywords: Any) -> None:
        super().__init__(**keywords)
        self.dims = tuple(dims)
        if sorted(self.dims) != list(range(1, len(self.dims) + 1)):
            raise ValueError(f"Invalid permutation `dims` for Permute Layer: {dims}")

    def call(self, inputs: TensorLike) -> Any:
        """Return the inputs with their dimensions in that order."""
        return hf.transpose(inputs, [0, *self.dims])

    def get_config(self) -> dict:
        """Return the arguments."""
        return {**super().get_config(), "dims": self.dims}


class RepeatVector(Layer):
    """Each row of a matrix `n` times, as a sequence."""

    def __init__(self, n: int, **keywords: Any) -> None:
        super().__init__(**keywords)
        self.n = n

    def call(self, inputs: TensorLike) -> Any:
        """Return shape ``[batch, n, size]``."""
        return hf.tile(hf.expand_dims(inputs, 1), [1, self.n, 1])

    def get_config(self) -> dict:
        """Return the arguments."""
        return {**super().get_config(), "n": self.n}


class ActivityRegularization(Layer):
    """The inputs, of which a loss joins the losses."""

    supports_masking = True

    def __init__(self, l1: float = 0.0, l2: float = 0.0, **keywords: Any) -> None:
        from hpcflow.keras.regularizers import L1L2

        super().__init__(activity_regularizer=L1L2(l1, l2), **keywords)
        self.l1, self.l2 = l1, l2

    def get_config(self) -> dict:
        """Return the arguments."""
        return {**super().get_config(), "l1": self.l1, "l2": self.l2}


class Masking(Layer):
    """Masks the time steps all whose values are `mask_value`."""

    supports_masking = True

    def __init__(self, mask_value: float = 0.0, **keywords: Any) -> None:
        super().__init__(**keywords)
        self.mask_value = mask_value

    def compute_mask(self, inputs: TensorHandle, mask: TensorHandle | None = None) -> Any:
        """Return which steps have another value."""
        return hf.reduce_any(hf.not_equal(inputs, self.mask_value), -1)

    def call(self, inputs: Any) -> Any:
        """Return the inputs, zeros where they are masked."""
        kept = hf.reduce_any(hf.not_equal(inputs, self.mask_value), -1, keepdims=True)
        return inputs * hf.cast(kept, inputs.dtype.base_dtype)

    def get_config(self) -> dict:
        """Return the arguments."""
        return {**super().get_config(), "mask_value": self.mask_value}


class Embedding(Layer):
    """A vector for each index.

    Args:
        input_dim: how many indices there are.
        output_dim: size of the vectors.
        embeddings_initializer, embeddings_regularizer, embeddings_constraint: of the variable
            ``embeddings``.
        mask_zero: whether index 0 is masked.
        input_length: length of sequences, if it is known.
    """

    def __init__(self, input_dim: int, output_dim: int,
                 embeddings_initializer: Identifier = "uniform",
                 embeddings_regularizer: Identifier | None = None,
                 activity_regularizer: Identifier | None = None,
                 embeddings_constraint: Identifier | None = None, mask_zero: bool = False,
                 input_length: Any = None, **keywords: Any) -> None:
        if "input_shape" not in keywords and "batch_input_shape" not in keywords:
            lengths = list(input_length) if isinstance(input_length, (list, tuple)) else [
                input_length]
            keywords["batch_input_shape"] = (keywords.pop("batch_size", None), *lengths)
        super().__init__(dtype=keywords.pop("dtype", None) or floatx(),
                         activity_regularizer=activity_regularizer, **keywords)
        self.input_dim, self.output_dim = input_dim, output_dim
        self.embeddings_initializer = initializers.get(embeddings_initializer)
        self.embeddings_regularizer = regularizers.get(embeddings_regularizer)
        self.embeddings_constraint = constraints.get(embeddings_constraint)
        self.mask_zero, self.input_length = mask_zero, input_length

    def build(self, input_shape: ShapeLike) -> None:
        """Make the variable."""
        self.embeddings = self.add_weight(
            "embeddings", [self.input_dim, self.output_dim], None, self.embeddings_initializer,
            self.embeddings_regularizer, constraint=self.embeddings_constraint)
        self.built = True

    def compute_mask(self, inputs: TensorHandle, mask: TensorHandle | None = None) -> Any:
        """Return which indices are not 0, if these are masked."""
        return hf.not_equal(inputs, 0) if self.mask_zero else None

    def call(self, inputs: Any) -> Any:
        """Return the vectors."""
        if not inputs.dtype.base_dtype.is_integer:
            inputs = hf.cast(inputs, hf.int32)
        return hf.nn.embedding_lookup(self.embeddings, inputs)

    def get_config(self) -> dict:
        """Return the arguments."""
        config = super().get_config()
        config.update((k, lookup.serialized(getattr(self, k))) for k in (
            "input_dim", "output_dim", "embeddings_initializer", "embeddings_regularizer",
            "activity_regularizer", "embeddings_constraint", "mask_zero", "input_length"))
        return config
