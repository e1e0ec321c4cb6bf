"""``hpcflow.contrib.tensorboard.plugins``: ``projector``, pictures of embeddings."""

from hpcflow.contrib.tensorboard.plugins import projector
