"""Failures of the operating system as the errors of graph execution."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from hpcflow import errors
from hpcflow.storage.raw_files import NotARegularFile

_BY_CLASS: dict[type[errors.OpError], tuple[int, ...]] = {
    errors.NotFoundError: (errno.ENOENT, errno.ENOTDIR, errno.ENXIO, errno.ENODEV),
    errors.PermissionDeniedError: (errno.EACCES, errno.EPERM, errno.EROFS),
    errors.ResourceExhaustedError: (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EMFILE,
                                    errno.ENFILE, errno.ENOMEM, errno.EMLINK),
    errors.FailedPreconditionError: (errno.EISDIR, errno.ENOTEMPTY, errno.EBUSY, errno.ETXTBSY),
    errors.InvalidArgumentError: (errno.EINVAL, errno.ENAMETOOLONG, errno.ELOOP),
    errors.AlreadyExistsError: (errno.EEXIST,),
    errors.UnimplementedError: (errno.ENOSYS, errno.EOPNOTSUPP),
    errors.UnavailableError: (errno.EAGAIN, errno.EINTR, errno.ETIMEDOUT),
    errors.DataLossError: (errno.EIO,),
}
_CLASSES = {code: cls for cls, codes in _BY_CLASS.items() for code in codes}
#: What a file system reports that a second try would report again.
FILE_ERRORS: tuple[type[errors.OpError], ...] = tuple(
    [cls for cls in (*_BY_CLASS, errors.UnknownError) if cls is not errors.UnavailableError])


@contextmanager
def system_errors(what: str) -> Iterator[None]:
    """Turn an OSError of the body into the matching OpError whose message starts with `what`."""
    try:
        yield
    except OSError as error:
        raise op_error_of(error, what) from error


@contextmanager
def file_errors(path: str) -> Iterator[None]:
    """Turn an OSError of the body into the matching OpError, worded as in 1.x: path; reason."""
    try:
        yield
    except OSError as error:
        cls: Any = class_of(error)
        raise cls(None, None, f"{path}; {error.strerror or error}") from error


def class_of(error: OSError) -> type[errors.OpError]:
    """The class of OpErrors for an OSError; UnknownError where no other fits."""
    if isinstance(error, NotARegularFile):
        return errors.FailedPreconditionError
    return _CLASSES.get(error.errno or 0, errors.UnknownError)


def op_error_of(error: OSError, what: str) -> errors.OpError:
    """The OpError for an OSError; UnknownError where no other class fits."""
    cls: Any = class_of(error)
    return cls(None, None, f"{what}: {os.strerror(error.errno) if error.errno else error}")
