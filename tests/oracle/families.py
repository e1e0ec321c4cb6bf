"""Import every module that has cases."""

import cases_array  # noqa: F401
import cases_elementwise  # noqa: F401
import cases_files  # noqa: F401
import cases_image  # noqa: F401
import cases_index  # noqa: F401
import cases_linalg  # noqa: F401
import cases_math  # noqa: F401
import cases_nn  # noqa: F401
import cases_parsing  # noqa: F401
import cases_quantized  # noqa: F401
import cases_ragged  # noqa: F401
import cases_random  # noqa: F401
import cases_recurrent  # noqa: F401
import cases_shape  # noqa: F401
import cases_sparse  # noqa: F401
import cases_state  # noqa: F401
import cases_strings  # noqa: F401
import cases_windows  # noqa: F401
