"""Texts as rows of numbers: of words in a vocabulary, or of bytes."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator

import numpy as np

from hpcflow.contrib.learn.preprocessing.vocabulary import CategoricalVocabulary
from hpcflow.platform import gfile

# Words in capitals, parts of words that begin with one, and other words with - and '.
_WORDS = re.compile(r"[A-Z]{2,}(?![a-z])|[A-Z][a-z]+(?=[A-Z])|[\'\w\-]+")


def tokenizer(iterator: Iterable[str]) -> Iterator[list[str]]:
    """Yield the words of each text."""
    for value in iterator:
        yield _WORDS.findall(value)


class ByteProcessor:
    """Makes rows of `max_document_length` bytes of texts, cut or filled up with zeros."""

    def __init__(self, max_document_length: int) -> None:
        self.max_document_length = max_document_length

    def fit(self, x: object) -> ByteProcessor:
        """Return the processor, which learns nothing."""
        return self

    def fit_transform(self, x: Iterable) -> Iterator[np.ndarray]:
        """Return :meth:`transform`."""
        return self.transform(x)

    def transform(self, x: Iterable) -> Iterator[np.ndarray]:
        """Yield a row of integers for each text, which is a string or bytes."""
        for document in x:
            data = document if isinstance(document, bytes) else str(document).encode("utf-8")
            found = np.frombuffer(data[:self.max_document_length], np.uint8).astype(np.int64)
            yield np.pad(found, (0, self.max_document_length - found.size))

    def reverse(self, x: Iterable) -> Iterator[str]:
        """Yield the text of each row, without zeros; bytes that are no UTF-8 are left out."""
        for row in x:
            data = bytes(int(number) for number in row if number)
            yield data.decode("utf-8", "ignore")


class VocabularyProcessor:
    """Makes rows of the numbers of words of texts, cut or filled up with zeros.

    Args:
        max_document_length: the length of a row.
        min_frequency: words that occur no more often while it is fit count as unknown.
        vocabulary: as :class:`CategoricalVocabulary`; a new one if None.
        tokenizer_fn: yields the words of each of several texts; :func:`tokenizer` if None.

    Attributes:
        vocabulary_: the words and their numbers.
    """

    def __init__(self, max_document_length: int, min_frequency: int = 0,
                 vocabulary: CategoricalVocabulary | None = None,
                 tokenizer_fn: Callable[[Iterable], Iterable] | None = None) -> None:
        self.max_document_length, self.min_frequency = max_document_length, min_frequency
        self.vocabulary_ = vocabulary or CategoricalVocabulary()
        self._tokenizer = tokenizer_fn or tokenizer

    def fit(self, raw_documents: Iterable, unused_y: object = None) -> VocabularyProcessor:
        """Learn the words of texts, and return the processor."""
        for words in self._tokenizer(raw_documents):
            for word in words:
                self.vocabulary_.add(word)
        if self.min_frequency > 0:
            self.vocabulary_.trim(self.min_frequency)
        self.vocabulary_.freeze()
        return self

    def fit_transform(self, raw_documents: Iterable,
                      unused_y: object = None) -> Iterator[np.ndarray]:
        """Learn the words of texts, and return :meth:`transform` of them."""
        self.fit(raw_documents)
        return self.transform(raw_documents)

    def transform(self, raw_documents: Iterable) -> Iterator[np.ndarray]:
        """Yield the numbers of the words of each text, int64 ``[max_document_length]``."""
        for words in self._tokenizer(raw_documents):
            row = np.zeros(self.max_document_length, np.int64)
            for place, word in enumerate(words):
                if place >= self.max_document_length:
                    break
                row[place] = self.vocabulary_.get(word)
            yield row

    def reverse(self, documents: Iterable) -> Iterator[str]:
        """Yield the words of each row of numbers, with blanks between."""
        for row in documents:
            yield " ".join(str(self.vocabulary_.reverse(number)) for number in row)

    def save(self, filename: str) -> None:
        """Write words, numbers and lengths to a file (JSON), for :meth:`restore`."""
        held = self.vocabulary_
        saved = {"max_document_length": self.max_document_length,
                 "min_frequency": self.min_frequency,
                 "words": sorted(held._mapping, key=lambda word: held._mapping[word]),
                 "counts": dict(held._freq), "frozen": held._freeze}
        with gfile.Open(filename, "w") as file:
            file.write(json.dumps(saved))

    @classmethod
    def restore(cls, filename: str) -> VocabularyProcessor:
        """Return the processor that :meth:`save` wrote, with the usual tokenizer.

        Raises ``ValueError`` for another file: pickled processors are not read.
        """
        with gfile.Open(filename, "rb") as file:
            data = file.read()
        try:
            saved = json.loads(data)
            words, counts = list(saved["words"]), dict(saved["counts"])
        except (ValueError, KeyError, TypeError):
            raise ValueError(f"{filename} is not a vocabulary that VocabularyProcessor.save of "
                             "hpcflow wrote: pickled ones are not read, fit it again") from None
        held = CategoricalVocabulary(unknown_token=words[0])
        for word in words[1:]:
            held.get(word)
        held._freq.update(counts)
        held.freeze(saved["frozen"])
        return cls(saved["max_document_length"], saved["min_frequency"], held)
