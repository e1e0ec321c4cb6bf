"""``hpcflow.contrib.tensorboard``: settings of TensorBoard's ``plugins``."""

from hpcflow.contrib.tensorboard import plugins
