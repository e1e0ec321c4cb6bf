"""Op types without a comparison, and why."""

from __future__ import annotations

_OWN = "made by the library itself, when a graph is compiled or a checkpoint is written"
_MOVED = "moves values between tasks; made when a graph is cut into parts"
_BY_GRADIENT = "built by the gradient of the op, which is compared"
_BY_SAVER = "reads or writes checkpoints, each library in its own format; Saver is compared"

EXEMPT: dict[str, str] = {
    **dict.fromkeys(("_CheckpointCommit", "_CheckpointCreate", "_CheckpointRead",
                     "_CheckpointWrite", "_Feed", "_Fetch", "_FetchOp", "_VariableSnapshot",
                     "_HandleSnapshot", "_QueueReopen"), _OWN),
    **dict.fromkeys(("_Send", "_Recv", "_SendControl", "_RecvControl"), _MOVED),
    **dict.fromkeys(("Restore", "RestoreSlice", "RestoreV2", "Save", "SaveSlices", "SaveV2",
                     "MergeV2Checkpoints"), _BY_SAVER),
    **dict.fromkeys(("TensorArrayGrad", "TensorArrayGradV2", "TensorArrayGradV3"), _BY_GRADIENT),
    **dict.fromkeys(("BatchNormWithGlobalNormalization", "BatchNormWithGlobalNormalizationGrad"),
                    "refused in new graphs; the successor is a Python function"),
    "FakeQueue": "of the reference's own tests",
    "PlaceholderV2": "Placeholder, refused in new graphs; every case has one",
    "RandomCrop": "refused in new graphs; its successor is a Python function",
    "TileGrad": "refused in new graphs; the gradient of Tile is compared",
}
