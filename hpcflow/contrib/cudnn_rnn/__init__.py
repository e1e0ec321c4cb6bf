"""``hpcflow.contrib.cudnn_rnn``: recurrent networks of several layers as one op.

They run on every device; on a GPU cuDNN computes them where it is installed. The cells compute the
same step by step, and their checkpoints are those of the layers.
"""

from hpcflow.contrib.cudnn_rnn.cells import CudnnCompatibleGRUCell, CudnnCompatibleLSTMCell
from hpcflow.contrib.cudnn_rnn.conversion import (
    CudnnParamsFormatConverterGRU,
    CudnnParamsFormatConverterLSTM,
    CudnnParamsFormatConverterRelu,
    CudnnParamsFormatConverterTanh,
)
from hpcflow.contrib.cudnn_rnn.layers import CudnnGRU, CudnnLSTM, CudnnRNNRelu, CudnnRNNTanh
from hpcflow.contrib.cudnn_rnn.saveables import (
    CudnnGRUSaveable,
    CudnnLSTMSaveable,
    CudnnRNNReluSaveable,
    CudnnRNNTanhSaveable,
)
