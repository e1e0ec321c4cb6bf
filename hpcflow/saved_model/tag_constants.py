"""Common tags of the MetaGraphs of a SavedModel."""

SERVING = "serve"
TRAINING = "train"
GPU = "gpu"
TPU = "tpu"
