"""Import every module that has cases."""

import cases.array  # noqa: F401
import cases.elementwise  # noqa: F401
import cases.files  # noqa: F401
import cases.image  # noqa: F401
import cases.index  # noqa: F401
import cases.linalg  # noqa: F401
import cases.math  # noqa: F401
import cases.nn  # noqa: F401
import cases.parsing  # noqa: F401
import cases.quantized  # noqa: F401
import cases.ragged  # noqa: F401
import cases.random  # noqa: F401
import cases.recurrent  # noqa: F401
import cases.shape  # noqa: F401
import cases.sparse  # noqa: F401
import cases.state  # noqa: F401
import cases.strings  # noqa: F401
import cases.windows  # noqa: F401
