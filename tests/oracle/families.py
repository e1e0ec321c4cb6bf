"""Import every module that has cases."""

import cases.array
import cases.audio
import cases.elementwise
import cases.files
import cases.image
import cases.index
import cases.later
import cases.linalg
import cases.math
import cases.nn
import cases.parsing
import cases.quantized
import cases.ragged
import cases.random
import cases.recurrent
import cases.shape
import cases.sparse
import cases.state
import cases.strings
import cases.windows  # noqa: F401
