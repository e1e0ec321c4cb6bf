"""Categories, each with a number."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Hashable


class CategoricalVocabulary:
    """Numbers categories in the order in which they are first seen; 0 is the unknown one.

    Args:
        unknown_token: the category of number 0.
        support_reverse: keep what :meth:`reverse` needs.
    """

    def __init__(self, unknown_token: str = "<UNK>", support_reverse: bool = True) -> None:
        self._unknown_token, self._support_reverse = unknown_token, support_reverse
        self._mapping: dict[Hashable, int] = {unknown_token: 0}
        self._reverse_mapping: list[Hashable] = [unknown_token]
        self._freq: dict[Hashable, int] = defaultdict(int)
        self._freeze = False

    def __len__(self) -> int:
        return len(self._mapping)

    def freeze(self, freeze: bool = True) -> None:
        """Let :meth:`get` give 0 for new categories from now on, or number them again."""
        self._freeze = freeze

    def get(self, category: Hashable) -> int:
        """Return the number of a category; a new one gets the next number, or 0 once frozen."""
        if category not in self._mapping:
            if self._freeze:
                return 0
            self._append(category)
        return self._mapping[category]

    def _append(self, category: Hashable) -> None:
        self._mapping[category] = len(self._mapping)
        if self._support_reverse:
            self._reverse_mapping.append(category)

    def add(self, category: Hashable, count: int = 1) -> None:
        """Count a category that was seen `count` times; a frozen vocabulary counts no new one."""
        number = self.get(category)
        if number > 0:
            self._freq[category] += count

    def trim(self, min_frequency: int, max_frequency: int = -1) -> None:
        """Keep the categories seen more than `min_frequency` times, the most frequent ones first.

        Args:
            min_frequency: what is seen no more often is dropped.
            max_frequency: what is seen as often is dropped too; -1 for no limit.
        """
        by_count = sorted(sorted(self._freq.items(), key=lambda item: str(item[0])),
                          key=lambda item: item[1], reverse=True)
        self._mapping = {self._unknown_token: 0}
        self._reverse_mapping = [self._unknown_token]
        kept: list[tuple[Hashable, int]] = []
        for category, count in by_count:
            if count > min_frequency and not 0 < max_frequency <= count:
                kept.append((category, count))
                self._append(category)
        self._freq = defaultdict(int, kept)

    def reverse(self, class_id: int) -> Hashable:
        """Return the category of a number. Raises ``ValueError`` if that was not supported."""
        if not self._support_reverse:
            raise ValueError("This vocabulary wasn't initialized with support_reverse to support "
                             "reverse() function.")
        return self._reverse_mapping[class_id]
