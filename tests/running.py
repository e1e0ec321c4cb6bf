"""Running tensors in a session of their own."""

import hpcflow as hf


def run(*tensors):
    """The value of a tensor, or a list of those of several."""
    with hf.Session() as session:
        found = session.run(list(tensors))
    return found[0] if len(found) == 1 else found
