"""Small files that readers find whole, in their old or their new form."""

from __future__ import annotations

import os
import secrets

from hpcflow.storage.system_errors import system_errors


def write_atomically(filename: str, content: bytes) -> None:
    """Write a file under a temporary name and rename it, so that readers see all or nothing."""
    temporary = f"{filename}.tmp-{secrets.token_hex(6)}"
    with system_errors(f"writing file '{filename}'"):
        try:
            with open(temporary, "wb") as file:
                file.write(content)
            os.replace(temporary, filename)
        except BaseException:
            if os.path.exists(temporary):
                os.unlink(temporary)
            raise
