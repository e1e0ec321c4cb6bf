"""The elements that data sets give."""

from __future__ import annotations

import numpy as np

import hpcflow as hf


def elements(session, dataset):
    """All elements, errors as their class; of a pass that was initialized."""
    iterator = dataset.make_initializable_iterator()
    following = iterator.get_next()
    session.run(iterator.initializer)
    return rest(session, following)


def rest(session, following):
    """What is left, errors as their class."""
    found = []
    while True:
        try:
            found.append(session.run(following))
        except hf.errors.OutOfRangeError:
            return found
        except hf.errors.OpError as e:
            found.append(type(e))


def numbers(session, dataset):
    """The elements as nested lists."""
    return [np.asarray(e).tolist() for e in elements(session, dataset)]
