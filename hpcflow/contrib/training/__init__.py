"""``hpcflow.contrib.training``: training operations, buckets, changed gradients, HParams."""

from hpcflow.base.late_names import named_otherwise
from hpcflow.contrib.training.bucketing import bucket, bucket_by_sequence_length
from hpcflow.contrib.training.evaluation import (
    StopAfterNEvalsHook,
    SummaryAtEndHook,
    evaluate_once,
    evaluate_repeatedly,
    get_or_create_eval_step,
    train,
)
from hpcflow.contrib.training.gradients import (
    add_gradients_summaries,
    clip_gradient_norms,
    clip_gradient_norms_fn,
    create_train_op,
    multiply_gradients,
)
from hpcflow.contrib.training.hparams import HParams, parse_values
from hpcflow.contrib.training.placing import (
    GreedyLoadBalancingStrategy,
    RandomStrategy,
    byte_size_load_fn,
)
from hpcflow.contrib.training.resampling import (
    rejection_sample,
    resample_at_rate,
    stratified_sample,
    weighted_resample,
)
from hpcflow.contrib.training.sequence_batches import batch_sequences_with_states
from hpcflow.contrib.training.state_saver import (
    NextQueuedSequenceBatch,
    SequenceQueueingStateSaver,
)
from hpcflow.train.checkpoint_files import checkpoints_iterator, wait_for_new_checkpoint

__getattr__ = named_otherwise(__name__)
