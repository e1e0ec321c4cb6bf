"""The sources of the module paths below ``python.keras`` of 1.x."""

from __future__ import annotations

from hpcflow.api.entry import Entry

KERAS = {
    **{name: Entry((f"hpcflow.{name}",)) for name in ("keras", *map("keras.{}".format, (
        "activations", "backend", "callbacks", "constraints", "initializers", "layers", "losses",
        "metrics", "models", "optimizers", "preprocessing", "preprocessing.image",
        "preprocessing.sequence", "preprocessing.text", "regularizers", "utils",
        "wrappers", "wrappers.scikit_learn")))},
    **{f"keras.layers.{name}": Entry(("hpcflow.keras.layers",)) for name in (
        "advanced_activations", "convolutional", "core", "embeddings", "merge", "normalization",
        "convolutional_recurrent", "cudnn_recurrent", "dense_attention", "local", "noise",
        "normalization_v2", "pooling", "recurrent", "serialization", "wrappers")},
    "keras.layers.recurrent_v2": Entry(("hpcflow.keras.layers.recurrent_v2",
                                        "hpcflow.keras.layers")),
    "keras.callbacks_v1": Entry(("hpcflow.keras.callbacks",)),
    "keras.backend_config": Entry(("hpcflow.keras.backend",)),
    "keras.optimizer_v2.optimizer_v2": Entry(("hpcflow.keras.optimizer",), {
        "OptimizerV2": "hpcflow.keras.optimizer:Optimizer"}),
    **{f"keras.optimizer_v2.{name}": Entry(("hpcflow.keras.optimizers",)) for name in (
        "adadelta", "adagrad", "adam", "adamax", "ftrl", "gradient_descent", "nadam",
        "rmsprop")},
    "keras.optimizer_v2.learning_rate_schedule": Entry(("hpcflow.keras.optimizers.schedules",)),
    "keras.engine.base_layer": Entry(("hpcflow.keras.engine.layer", "hpcflow.layers")),
    "keras.engine.input_spec": Entry(("hpcflow.keras.engine.layer", "hpcflow.layers")),
    "keras.engine.input_layer": Entry(("hpcflow.keras.engine.inputs",)),
    "keras.engine.sequential": Entry(("hpcflow.keras.engine.sequential",)),
    "keras.engine.training": Entry(("hpcflow.keras",)),
    **{f"keras.saving{name}": Entry(("hpcflow.keras.models",)) for name in (
        "", ".model_config", ".save")},
    "keras.engine.network": Entry(("hpcflow.keras",), {"Network": "hpcflow.keras:Model"}),
    **{f"keras.saving.{name}": Entry(("hpcflow.keras.models",)) for name in (
        "hdf5_format", "save")},
    "keras.utils.conv_utils": Entry(("hpcflow.layers.helpers",)),
    "keras.utils.tf_utils": Entry(("hpcflow.keras.tf_utils",)),
    "keras.utils.losses_utils": Entry(("hpcflow.keras.losses_utils",)),
    **{f"keras.utils.{name}": Entry(("hpcflow.keras.utils",), {
        "to_snake_case": "hpcflow.layers.base:_snake_case"}) for name in (
        "data_utils", "generic_utils", "io_utils", "layer_utils", "multi_gpu_utils", "np_utils",
        "vis_utils")},
}
