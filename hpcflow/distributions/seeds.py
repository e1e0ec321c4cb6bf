"""Seeds made of other seeds, for what draws several times."""

from __future__ import annotations

import hashlib
from typing import Any


def gen_new_seed(seed: int | None, salt: str) -> int | None:
    """A seed made from `seed` and the text `salt`, that of TensorFlow; None for None."""
    if seed is None:
        return None
    digest = hashlib.md5(f"{seed}{salt}".encode(), usedforsecurity=False).hexdigest()
    return int(digest[:8], 16) & 0x7FFFFFFF


class SeedStream:
    """Seeds one after the other: each call gives the next one.

    Args:
        seed: a number or another stream; all seeds are None for None.
        salt: a text that makes these seeds other ones than those of other uses of `seed`.
    """

    def __init__(self, seed: Any, salt: str) -> None:
        self._seed = seed.original_seed if isinstance(seed, SeedStream) else seed
        self._salt, self._count = salt, 0

    @property
    def original_seed(self) -> Any:
        """What it was made with."""
        return self._seed

    @property
    def salt(self) -> str:
        """The text that it was made with."""
        return self._salt

    def __call__(self) -> int | None:
        """Return the next seed."""
        self._count += 1
        if self._seed is None:
            return None
        text = str((self._seed, self._count, self._salt))
        return int(hashlib.sha512(text.encode()).hexdigest(), 16)
