"""``hpcflow.contrib.rnn``: cells, their wrappers, and networks unrolled in the graph."""

from hpcflow.base.late_names import named_otherwise
from hpcflow.contrib.rnn.attention_cell import AttentionCellWrapper
from hpcflow.contrib.rnn.basic_cells import BasicRNNCell, GRUCell, UGRNNCell
from hpcflow.contrib.rnn.block_cells import GRUBlockCell, GRUBlockCellV2, LSTMBlockCell
from hpcflow.contrib.rnn.cell import RNNCell
from hpcflow.contrib.rnn.cell import RNNCell as LayerRNNCell
from hpcflow.contrib.rnn.convolutional_cells import (
    Conv1DLSTMCell,
    Conv2DLSTMCell,
    Conv3DLSTMCell,
    ConvLSTMCell,
)
from hpcflow.contrib.rnn.coupled_cell import CoupledInputForgetGateLSTMCell
from hpcflow.contrib.rnn.fused import (
    FusedRNNCell,
    FusedRNNCellAdaptor,
    LSTMBlockFusedCell,
    LSTMBlockWrapper,
    TimeReversedFusedRNN,
)
from hpcflow.contrib.rnn.grid_cells import (
    BidirectionalGridLSTMCell,
    GridLSTMCell,
    TimeFreqLSTMCell,
)
from hpcflow.contrib.rnn.grouped_cell import GLSTMCell
from hpcflow.contrib.rnn.highway_cells import IntersectionRNNCell, SRUCell
from hpcflow.contrib.rnn.independent_cells import IndRNNCell, IndyGRUCell, IndyLSTMCell
from hpcflow.contrib.rnn.lstm import BasicLSTMCell, LSTMCell, LSTMStateTuple
from hpcflow.contrib.rnn.nas_cell import NASCell
from hpcflow.contrib.rnn.normalized_lstm import LayerNormBasicLSTMCell
from hpcflow.contrib.rnn.phased_cell import PhasedLSTMCell
from hpcflow.contrib.rnn.stacked import (
    best_effort_input_batch_size,
    stack_bidirectional_dynamic_rnn,
    stack_bidirectional_rnn,
    transpose_batch_time,
)
from hpcflow.contrib.rnn.static import (
    static_bidirectional_rnn,
    static_rnn,
    static_state_saving_rnn,
)
from hpcflow.contrib.rnn.wrappers import (
    CompiledWrapper,
    DeviceWrapper,
    DropoutWrapper,
    EmbeddingWrapper,
    HighwayWrapper,
    InputProjectionWrapper,
    MultiRNNCell,
    OutputProjectionWrapper,
    ResidualWrapper,
)

__getattr__ = named_otherwise(__name__)
