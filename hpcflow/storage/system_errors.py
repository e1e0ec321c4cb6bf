"""Failures of the operating system as the errors of graph execution."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from hpcflow import errors

_CLASSES: dict[int, type[errors.OpError]] = {
    errno.ENOENT: errors.NotFoundError,
    errno.ENOTDIR: errors.NotFoundError,
    errno.EACCES: errors.PermissionDeniedError,
    errno.EPERM: errors.PermissionDeniedError,
    errno.EROFS: errors.PermissionDeniedError,
    errno.ENOSPC: errors.ResourceExhaustedError,
    errno.EDQUOT: errors.ResourceExhaustedError,
    errno.EFBIG: errors.ResourceExhaustedError,
    errno.EMFILE: errors.ResourceExhaustedError,
    errno.ENFILE: errors.ResourceExhaustedError,
    errno.EISDIR: errors.FailedPreconditionError,
    errno.EIO: errors.DataLossError,
}


@contextmanager
def system_errors(what: str) -> Iterator[None]:
    """Turn an OSError of the body into the matching OpError whose message starts with `what`."""
    try:
        yield
    except OSError as error:
        raise op_error_of(error, what) from error


def op_error_of(error: OSError, what: str) -> errors.OpError:
    """The OpError for an OSError; UnknownError where no other class fits."""
    if error.errno is None:
        return errors.UnknownError(None, None, f"{what}: {error}")
    cls: Any = _CLASSES.get(error.errno, errors.UnknownError)
    return cls(None, None, f"{what}: {os.strerror(error.errno)}")
