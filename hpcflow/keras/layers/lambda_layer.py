"""Lambda: a function of tensors as a layer."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

import hpcflow as hf
from hpcflow.framework import nest
from hpcflow.keras import function_files
from hpcflow.keras.engine.layer import Layer, _parameters
from hpcflow.keras.session import learning_phase
from hpcflow.keras.settings import floatx
from hpcflow.keras.tf_utils import convert_shapes

if TYPE_CHECKING:
    from hpcflow.graph.likes import BoolLike, TensorHandle, TensorLike


class Lambda(Layer):
    """A function of tensors as a layer. Variables that it makes are those of the layer, and are
    made in its first call alone.

    Args:
        function: what is called with the inputs, and with ``mask`` and ``training`` if it takes
            these.
        output_shape: the shape of the result without the batch, or a function of that of the
            inputs; found by calling the function if None.
        mask: the mask of the result, or a function of the inputs and their mask.
        arguments: more arguments of the function.
    """

    def __init__(self, function: Callable, output_shape: Any = None,
                 mask: TensorLike | None = None, arguments: dict | None = None,
                 **keywords: Any) -> None:
        super().__init__(**keywords)
        self.function, self.arguments = function, dict(arguments or {})
        self.mask, self._output_shape = mask, output_shape
        self._variable_dict: dict[str, Any] = {}
        if mask is not None:
            self.supports_masking = True

    def call(self, inputs: TensorLike, mask: TensorLike | None = None,
             training: BoolLike | None = None) -> Any:
        """Return the result of the function."""
        names = _parameters(self.function)
        options = dict(self.arguments)
        if "mask" in names:
            options["mask"] = mask
        if "training" in names:
            options["training"] = learning_phase() if training is None else training
        with hf.variable_creator_scope(self._variable):
            return self.function(inputs, **options)

    def _variable(self, create: Callable, **keywords: Any) -> Any:
        """The variable of a name that the function makes, the same one in all calls."""
        name = keywords["name"] or "Variable"
        if name not in self._variable_dict:
            own_name = f"{self._scope.original_name_scope if self._scope else ''}{name}"
            with hf.init_scope(), hf.name_scope(None):
                self._variable_dict[name] = create(**{**keywords, "name": own_name})
        return self._variable_dict[name]

    def compute_mask(self, inputs: TensorHandle, mask: TensorHandle | None = None) -> Any:
        """Return the mask that was given for the result."""
        return self.mask(inputs, mask) if callable(self.mask) else self.mask

    def compute_output_shape(self, input_shape: Any) -> Any:
        """Return the static shape of the result for inputs of a shape, as nested as the result.

        ``NotImplementedError`` where `output_shape` does not say it and the function cannot be
        called on such inputs.
        """
        shapes = convert_shapes(input_shape, to_tuples=False)
        if callable(self._output_shape):
            return convert_shapes(self._output_shape(convert_shapes(input_shape)), False)
        if self._output_shape is not None:
            batch = nest.flatten(shapes)[0][:1]
            return nest.map_structure(batch.concatenate,
                                      convert_shapes(self._output_shape, to_tuples=False))
        try:
            with hf.Graph().as_default():
                result = self.function(nest.map_structure(
                    lambda s: hf.placeholder(self._dtype or floatx(), s), shapes),
                    **self.arguments)
        except Exception as error:
            raise NotImplementedError("We could not automatically infer the shape of the Lambda's "
                                      "output. Please specify `output_shape` for this "
                                      "Lambda.") from error
        return nest.map_structure(lambda t: t.get_shape(), result)

    def get_config(self) -> dict:
        """Return the arguments, functions as their code."""
        config = {**super().get_config(), **function_files.written(self.function, "function",
                                                                   "module"),
                  **function_files.written(self._output_shape, "output_shape",
                                           "output_shape_module", raw=True)}
        if self.mask is not None:
            config.update(function_files.written(self.mask, "mask", "mask_module"))
        return {**config, "arguments": self.arguments}

    @classmethod
    def from_config(cls, config: dict, custom_objects: Mapping[str, Any] | None = None) -> Any:
        """Return a layer of a configuration; its functions run code that this contains."""
        config = dict(config)
        for key, module in (("function", "module"), ("output_shape", "output_shape_module"),
                            ("mask", "mask_module")):
            if f"{key}_type" in config:
                config[key] = function_files.read(config, key, module, custom_objects)
        config["arguments"] = {
            k: np.array(v["value"]) if isinstance(v, dict) and v.get("type") == "ndarray" else v
            for k, v in (config.get("arguments") or {}).items()}
        return cls(**config)
