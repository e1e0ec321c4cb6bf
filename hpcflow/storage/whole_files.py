"""Small files that readers find whole, in their old or their new form."""

from __future__ import annotations

import os

from hpcflow.storage.paths import temporary_path
from hpcflow.storage.system_errors import system_errors


def write_atomically(filename: str, content: bytes | memoryview) -> None:
    """Write a file under a temporary name and rename it, so that readers see all or nothing.

    What was renamed is durable. Raises the OpError of what the file system reports.
    """
    temporary = temporary_path(filename)
    with system_errors(f"writing {len(content)} bytes of file '{filename}'"):
        try:
            with open(temporary, "wb") as file:
                file.write(content)
                file.flush()
                os.fsync(file.fileno())
            os.replace(temporary, filename)
        except BaseException:
            if os.path.exists(temporary):
                os.unlink(temporary)
            raise
