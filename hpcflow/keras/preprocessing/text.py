"""Texts as sequences of the numbers of their words."""

from __future__ import annotations

from collections import OrderedDict, defaultdict
from collections.abc import Iterable
from typing import Any

import numpy as np

_MARKS = '!"#$%&()*+,-./:;<=>?@[\\]^_`{|}~\t\n'


def text_to_word_sequence(text: str, filters: str = _MARKS, lower: bool = True,
                          split: str = " ") -> list[str]:
    """Return the words of a text; the characters `filters` separate them too."""
    text = text.lower() if lower else text
    for mark in filters:
        text = text.replace(mark, split)
    return [w for w in text.split(split) if w]


class Tokenizer:
    """Gives words numbers, from 1 on, the most frequent first.

    Args:
        num_words: only words with smaller numbers are kept, all if None.
        filters, lower, split: as of :func:`text_to_word_sequence`.
        char_level: whether characters take the place of words.
        oov_token: what stands for words that are not known; they are left out if None.
    """

    def __init__(self, num_words: int | None = None, filters: str = _MARKS, lower: bool = True,
                 split: str = " ", char_level: bool = False, oov_token: str | None = None,
                 document_count: int = 0, **others: Any) -> None:
        self.num_words, self.filters, self.lower = num_words, filters, lower
        self.split, self.char_level, self.oov_token = split, char_level, oov_token
        self.document_count = document_count
        self.word_counts: OrderedDict[Any, int] = OrderedDict()
        self.word_docs: defaultdict[Any, int] = defaultdict(int)
        self.word_index: dict[Any, int] = {}
        self.index_word: dict[int, Any] = {}
        self.index_docs: defaultdict[int, int] = defaultdict(int)

    def _words(self, text: str) -> list:
        if isinstance(text, list):
            return [w.lower() for w in text] if self.lower else text
        if self.char_level:
            return list(text.lower() if self.lower else text)
        return text_to_word_sequence(text, self.filters, self.lower, self.split)

    def fit_on_texts(self, texts: Iterable) -> None:
        """Give the words of texts their numbers."""
        for text in texts:
            self.document_count += 1
            words = self._words(text)
            for word in words:
                self.word_counts[word] = self.word_counts.get(word, 0) + 1
            for word in set(words):
                self.word_docs[word] += 1
        ordered = sorted(self.word_counts, key=lambda w: -self.word_counts[w])
        first = [] if self.oov_token is None else [self.oov_token]
        self.word_index = {w: n for n, w in enumerate([*first, *ordered], 1)}
        self.index_word = {n: w for w, n in self.word_index.items()}
        for word, count in self.word_docs.items():
            self.index_docs[self.word_index[word]] = count

    def texts_to_sequences(self, texts: Iterable) -> list[list[int]]:
        """Return the numbers of the words of each text."""
        return [self._numbers(text) for text in texts]

    def _numbers(self, text: str) -> list[int]:
        unknown = self.word_index.get(self.oov_token) if self.oov_token is not None else None
        numbers = []
        for word in self._words(text):
            number = self.word_index.get(word)
            if number is None or (self.num_words and number >= self.num_words):
                number = unknown
            if number is not None:
                numbers.append(number)
        return numbers

    def sequences_to_texts(self, sequences: Iterable) -> list[str]:
        """Return the words of numbers, joined by spaces."""
        return [" ".join(self.index_word[n] for n in s if n in self.index_word)
                for s in sequences]

    def texts_to_matrix(self, texts: Iterable, mode: str = "binary") -> np.ndarray:
        """Return :meth:`sequences_to_matrix` of the numbers of texts."""
        return self.sequences_to_matrix(self.texts_to_sequences(texts), mode)

    def sequences_to_matrix(self, sequences: list, mode: str = "binary") -> np.ndarray:
        """Return a row for each sequence: for each word whether it occurs (``binary``), how often
        (``count``, ``freq``), or ``tfidf``."""
        columns = self.num_words or len(self.word_index) + 1
        rows = np.zeros((len(sequences), columns))
        for row, sequence in zip(rows, sequences, strict=True):
            for number in set(sequence):
                if number < columns:
                    row[number] = self._value(sequence.count(number), number, len(sequence), mode)
        return rows

    def _value(self, count: int, number: int, length: int, mode: str) -> float:
        if mode == "binary":
            return 1.0
        if mode == "count":
            return count
        if mode == "freq":
            return count / length
        if mode == "tfidf":
            rarity = np.log(1 + self.document_count / (1 + self.index_docs.get(number, 0)))
            return float((1 + np.log(count)) * rarity)
        raise ValueError(f"Unknown vectorization mode: {mode}")


def one_hot(text: str, n: int, filters: str = _MARKS, lower: bool = True,
            split: str = " ") -> list[int]:
    """Return the hashes of words, from 1 to n - 1."""
    return hashing_trick(text, n, None, filters, lower, split)


def hashing_trick(text: str, n: int, hash_function: Any = None, filters: str = _MARKS,
                  lower: bool = True, split: str = " ") -> list[int]:
    """Return the hashes of words, from 1 to n - 1; by Python's ``hash``, ``md5`` or a function."""
    if hash_function is None:
        hash_function = hash
    elif hash_function == "md5":
        from hashlib import md5

        def hash_function(word: str) -> int:
            return int(md5(word.encode()).hexdigest(), 16)
    return [hash_function(w) % (n - 1) + 1
            for w in text_to_word_sequence(text, filters, lower, split)]
