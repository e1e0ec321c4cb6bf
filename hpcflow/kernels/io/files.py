"""Kernels of files as strings: ReadFile, WriteFile, MatchingFiles; and of folders."""

from __future__ import annotations

import glob
import os
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import numpy as np

from hpcflow.kernels.common.background import in_background
from hpcflow.kernels.common.text import as_bytes, as_text, texts
from hpcflow.kernels.registry import ASYNC, KernelNode, kernel
from hpcflow.storage.system_errors import system_errors


@kernel("ReadFile", device="CPU", mode=ASYNC)
def _read_file(node: KernelNode) -> Callable:
    def read(filename: Any) -> bytes:
        path = as_text(filename)
        with system_errors(f"reading file '{path}'"), open(path, "rb") as file:
            return file.read()

    return in_background(read)


@kernel("WriteFile", device="CPU", mode=ASYNC)
def _write_file(node: KernelNode) -> Callable:
    def write(filename: Any, contents: Any) -> None:
        path = as_text(filename)
        with system_errors(f"writing file '{path}'"):
            os.makedirs(os.path.dirname(os.path.abspath(path)), exist_ok=True)
            with open(path, "wb") as file:
                file.write(as_bytes(contents))

    return in_background(write)


@kernel("MatchingFiles", device="CPU", mode=ASYNC)
def _matching_files(node: KernelNode) -> Callable:
    def match(pattern: Any) -> np.ndarray:
        found = sorted({name for p in texts(pattern) for name in glob.glob(p)})
        result = np.empty(len(found), dtype=object)
        result[:] = [name.encode() for name in found]
        return result

    return in_background(match)


@kernel("_TidyFolder", device="CPU", mode=ASYNC)
def _tidy_folder(node: KernelNode) -> Callable:
    def tidy(folder: Any, keep: Any) -> None:
        path, kept = as_text(folder), tuple(texts(keep))
        with system_errors(f"folder '{path}'"):
            os.makedirs(path, exist_ok=True)
            for name in os.listdir(path):
                file = os.path.join(path, name)
                if not name.startswith(kept) and not os.path.isdir(file):
                    with suppress(FileNotFoundError):
                        os.unlink(file)

    return in_background(tidy)
