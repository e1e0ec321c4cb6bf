"""``hpcflow.contrib.rnn``: cells, their wrappers, and networks unrolled in the graph."""

from hpcflow.contrib.rnn.basic_cells import BasicRNNCell, GRUCell
from hpcflow.contrib.rnn.block_cells import GRUBlockCell, LSTMBlockCell
from hpcflow.contrib.rnn.cell import RNNCell
from hpcflow.contrib.rnn.fused import (
    FusedRNNCell,
    FusedRNNCellAdaptor,
    LSTMBlockFusedCell,
    TimeReversedFusedRNN,
)
from hpcflow.contrib.rnn.lstm import BasicLSTMCell, LSTMCell, LSTMStateTuple
from hpcflow.contrib.rnn.static import (
    static_bidirectional_rnn,
    static_rnn,
    static_state_saving_rnn,
)
from hpcflow.contrib.rnn.wrappers import (
    DeviceWrapper,
    DropoutWrapper,
    EmbeddingWrapper,
    InputProjectionWrapper,
    MultiRNNCell,
    OutputProjectionWrapper,
    ResidualWrapper,
)
