"""``hpcflow.contrib.factorization``: k-means, as a graph and as an estimator, and
factors of sparse matrices."""

from hpcflow.base.late_names import named_otherwise
from hpcflow.contrib.factorization.alternating import WALSModel
from hpcflow.contrib.factorization.clustering import (
    COSINE_DISTANCE,
    KMEANS_PLUS_PLUS_INIT,
    RANDOM_INIT,
    SQUARED_EUCLIDEAN_DISTANCE,
    KMeans,
)
from hpcflow.contrib.factorization.estimator import KMeansClustering

__all__ = ["COSINE_DISTANCE", "KMEANS_PLUS_PLUS_INIT", "KMeans", "KMeansClustering", "RANDOM_INIT",
           "SQUARED_EUCLIDEAN_DISTANCE", "WALSModel"]

__getattr__ = named_otherwise(__name__)
