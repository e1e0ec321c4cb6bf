"""Op types without a comparison, and why."""

from __future__ import annotations

_OWN = "made by the library itself, when a graph is compiled or a checkpoint is written"
_MOVED = "moves values between tasks; made when a graph is cut into parts"
_MPI = "collective calls of MPI, which the reference has not; the mpi ring compares with NumPy"
_LOCKS = "the reference has a lock that unlocks itself; own tests in the process ring"
_SAME = "imported like the stateless type, which is compared"
_BY_GRADIENT = "built by the gradient of the op, which is compared"
_BY_SAVER = "reads or writes checkpoints, each library in its own format; Saver is compared"
_BEYOND = "the reference has no gradient of it; held against finite differences"
_OLDER = "an older name of what is differentiated"
_OF_VARIABLE = "by a variable, which no case differentiates by; own tests in the process ring"

EXEMPT: dict[str, str] = {
    **dict.fromkeys(("_CheckpointCommit", "_CheckpointCreate", "_CheckpointRead",
                     "_CheckpointWrite", "_CheckpointHold", "_CheckpointWriteHeld",
                     "_CheckpointRelease", "_TidyFolder", "_Feed", "_Fetch", "_FetchOp", "_Keep",
                     "_VariableSnapshot",
                     "_HandleSnapshot", "_QueueReopen", "_Arg", "_ConvBias", "_LoopGate",
                     "_LRNGrad", "_MatMulBias", "_MatMulGradientDescent", "_MaxPool", "_Transposed",
                     "_MaxPoolGrad", "_Conv2DBackpropInputSum", "_PyFuncInThread",
                     "_ReluBiasGrad", "_IteratorState", "_SetIteratorState"), _OWN),
    "GatherTree": "an op of contrib, which the reference has no more; compared with plain Python "
                  "in the process ring",
    "BipartiteMatch": "an op of contrib, which the reference has no more; own tests in the process "
                      "ring",
    "CTCLossV2": "the reference has no kernel of it for CPUs; ctc_loss_v2 is compared",
    **dict.fromkeys(("CudnnRNN", "CudnnRNNV2", "CudnnRNNV3", "CudnnRNNBackprop",
                     "CudnnRNNBackpropV2", "CudnnRNNBackpropV3", "CudnnRNNParamsSize",
                     "CudnnRNNParamsToCanonical", "CudnnRNNParamsToCanonicalV2",
                     "CudnnRNNCanonicalToParams", "CudnnRNNCanonicalToParamsV2"),
                    "the reference has no kernel of it for CPUs; the process ring compares with "
                    "cells"),
    "TensorArrayScatter": "has the kernel of TensorArrayScatterV2, which is compared",
    **dict.fromkeys(("MpiAllgather", "MpiAllreduce", "MpiAllreduceSlices", "MpiAlltoall",
                     "MpiBarrier", "MpiBroadcast", "MpiRank", "MpiReduceScatter"), _MPI),
    **dict.fromkeys(("Mutex", "MutexAcquire", "MutexRelease"), _LOCKS),
    **dict.fromkeys(("If", "While", "Case"), _SAME),
    "StatelessCase": "written for tables of branches only; own tests in the process ring",
    "StatefulPartitionedCall": "imported like PartitionedCall, which is compared",
    "BlockLSTMGradV2": "the reference takes the gates for those of V1, against its own finite "
                       "differences; own tests in the process ring",
    "SymbolicGradient": "the gradient of a call; own tests in the process ring",
    "RefNextIteration": "needs a back edge of references, which no Python call makes",
    **dict.fromkeys(("OptionalFromValue", "OptionalGetValue", "OptionalHasValue", "OptionalNone"),
                    "kept by gradients of later writers only; own tests in the process ring"),
    "DisableCopyOnRead": "a hint without a value; in a SavedModel that the process ring loads",
    "PrintV2": "prints; own tests in the process ring",
    "StatelessRandomGetAlg": "the choice of the library; own tests in the process ring",
    "Timestamp": "the time",
    "FakeParam": "a value that nobody reads; own tests in the process ring",
    **dict.fromkeys(("LookupTableRemove", "LookupTableRemoveV2", "MutableDenseHashTableV2",
                     "QueueIsClosed", "QueueIsClosedV2", "StageClear", "StagePeek", "StageSize",
                     *(f"{kind}Map{name}" for kind in ("", "Ordered") for name in (
                         "Stage", "Unstage", "UnstageNoKey", "Peek", "Size", "IncompleteSize",
                         "Clear"))),
                    "reads or changes state that steps share; own tests in the process ring"),
    **dict.fromkeys(("SummaryWriter", "CreateSummaryFileWriter", "FlushSummaryWriter",
                     "CloseSummaryWriter", "ImportEvent", *(f"Write{kind}Summary" for kind in (
                         "", "RawProto", "Scalar", "Histogram", "Image", "Audio", "Graph"))),
                    "writes files; own tests in the process ring"),
    "RecordInput": "random; own tests in the process ring",
    "VarHandleOp": "every case of a resource variable has one",
    "_SwitchN": "only the reference's own rewriting makes it; own tests in the process ring",
    "Abort": "ends the process; own tests in the process ring",
    **dict.fromkeys((
        "BatchDataset", "FixedLengthRecordDataset", "Iterator", "IteratorFromStringHandle",
        "IteratorGetNextAsOptional", "IteratorGetNextSync", "MapAndBatchDatasetV2", "ModelDataset",
        "OptimizeDataset", "PaddedBatchDataset", "ParallelInterleaveDataset",
        "ParallelInterleaveDatasetV2", "ParallelMapDatasetV2", *(f"Experimental{name}" for name in (
            "CSVDataset", "DatasetToSingleElement", "DirectedInterleaveDataset",
            "GroupByReducerDataset", "GroupByWindowDataset",
            "IgnoreErrorsDataset", "MapAndBatchDataset", "ParallelInterleaveDataset",
            "RandomDataset", "ScanDataset", "TakeWhileDataset", "UnbatchDataset",
            "UniqueDataset"))),
        "an older or newer form of a data set that is compared; own tests in the process ring"),
    **dict.fromkeys((f"{prefix}{name}Dataset" for prefix in ("", "Experimental") for name in (
        "AssertNext", "BytesProducedStats", "LatencyStats", "MaxIntraOpParallelism",
        "NonSerializable", "PrivateThreadPool")),
        "passes its elements on; own tests in the process ring"),
    **dict.fromkeys((f"{prefix}{name}" for prefix in ("", "Experimental") for name in (
        "DatasetToTFRecord", "MatchingFilesDataset")),
        "writes files or lists them; own tests in the process ring"),
    **dict.fromkeys(("RandomDataset", "ShuffleAndRepeatDataset", "ShuffleDataset"),
                    "random; own tests in the process ring"),
    **dict.fromkeys(("SerializeIterator", "DeserializeIterator"),
                    "the states of iterators are compared through checkpoints"),
    **dict.fromkeys(("_Send", "_Recv", "_SendControl", "_RecvControl"), _MOVED),
    **dict.fromkeys(("Restore", "RestoreSlice", "RestoreV2", "Save", "SaveSlices", "SaveV2",
                     "MergeV2Checkpoints", "LoadAndRemapMatrix"), _BY_SAVER),
    **dict.fromkeys(("TensorArrayGrad", "TensorArrayGradV2", "TensorArrayGradV3"), _BY_GRADIENT),
    **dict.fromkeys(("BatchNormWithGlobalNormalization", "BatchNormWithGlobalNormalizationGrad"),
                    "refused in new graphs; the successor is a Python function"),
    **dict.fromkeys(("DebugNanCount", "DebugNumericSummary", "DebugIdentity"),
                    "the reference runs them under its debugger only"),
    **dict.fromkeys(("TextLineReader", "WholeFileReader", "FixedLengthRecordReader",
                     "IdentityReader", "TFRecordReader", "ReaderRead", "ReaderReadUpTo",
                     "ReaderNumRecordsProduced", "ReaderNumWorkUnitsCompleted", "ReaderReset",
                     "ReaderSerializeState", "ReaderRestoreState"),
                    "of handles by reference; the V2 types are compared"),
    **dict.fromkeys(("Skipgram", "NegTrain"), "refused in new graphs, without a successor"),
    "ImmutableConst": "of a file, which a case has not; its own tests compare it",
    "FakeQueue": "of the reference's own tests",
    "PlaceholderV2": "Placeholder, refused in new graphs; every case has one",
    "RandomCrop": "refused in new graphs; its successor is a Python function",
    **dict.fromkeys(("SelfAdjointEig", "BatchSelfAdjointEig"),
                    "refused in new graphs; both outputs of SelfAdjointEigV2 in one"),
    "AdjustContrast": "refused in new graphs; compared with its formula in the process ring",
    "TileGrad": "refused in new graphs; the gradient of Tile is compared",
    "QuantizedAvgPool": "the reference rounds or not, as its library of kernels does",
    **dict.fromkeys(("QuantizedBatchNormWithGlobalNormalization", "Requantize",
                     "RequantizationRange", "QuantizeDownAndShrinkRange"),
                    "of 32-bit integers, which the reference computes in float32; the process "
                    "ring compares with exact arithmetic"),
    "QuantizedReluX": "the reference's is refused in sessions; compared in the process ring",
    "QuantizeAndDequantize": "refused in new graphs; compared in the process ring",
}

# Op types with a gradient that no case differentiates, and why.
UNDIFFERENTIATED: dict[str, str] = {
    **dict.fromkeys(("MaxPoolGradV2",
                     "IRFFT3D", "RFFT3D", "Lu", "MatrixLogarithm", "MaxPoolGradWithArgmax",
                     "MaxPoolGradGradWithArgmax", "ParallelConcat", "ResizeBicubicGrad",
                     "ResizeBilinearGrad", "ResizeNearestNeighborGrad", "SparseAddGrad",
                     "SparseSegmentMeanGrad", "SparseSegmentSqrtNGrad", "SparseSegmentSumGrad",
                     "GRUBlockCell", "LSTMBlockCell", "SparseDenseCwiseAdd"), _BEYOND),
    **dict.fromkeys(("BatchCholesky", "BatchFFT", "BatchFFT2D", "BatchFFT3D", "BatchIFFT",
                     "BatchIFFT2D", "BatchIFFT3D", "BatchMatrixDeterminant", "BatchMatrixInverse",
                     "BatchMatrixSolve", "BatchMatrixSolveLs", "BatchMatrixTriangularSolve",
                     "BatchSelfAdjointEigV2", "BatchSvd"), _OLDER),
    **dict.fromkeys(("ReadVariableOp", "ResourceGather", "ResourceGatherNd"), _OF_VARIABLE),
    **dict.fromkeys(("FractionalAvgPool", "FractionalMaxPool", "RandomGamma"),
                    "of random numbers; the ops that it is made of are compared"),
    **dict.fromkeys(("CudnnRNN", "CudnnRNNV2", "CudnnRNNV3", "CudnnRNNParamsToCanonical",
                     "CudnnRNNParamsToCanonicalV2", "CudnnRNNCanonicalToParams",
                     "CudnnRNNCanonicalToParamsV2"),
                    "not computed by the reference on CPUs; held against finite differences"),
    "BlockLSTMV2": "the reference's gradient is wrong, see BlockLSTMGradV2",
}
