"""The sources of the module paths below ``python.training`` of 1.x."""

from __future__ import annotations

from hpcflow.api.entry import RAW, Entry, members

_API = "hpcflow"
_TRAIN = "hpcflow.train"
_MORE_PROTOS = "hpcflow.base.formats.protos"

TRAINING = {name: Entry((_TRAIN, _API)) for name in (
    "adadelta", "adagrad", "adagrad_da", "adam", "basic_loops", "basic_session_run_hooks",
    "checkpoint_state_pb2", "coordinator", "device_setter", "ftrl", "gradient_descent", "input",
    "learning_rate_decay", "momentum", "monitored_session", "moving_averages", "optimizer",
    "proximal_adagrad", "proximal_gradient_descent", "queue_runner", "queue_runner_impl",
    "rmsprop", "saver", "server_lib", "session_manager", "session_run_hook", "slot_creator",
    "summary_io", "supervisor", "sync_replicas_optimizer", "training", "training_ops",
    "training_util",
)}  # fmt: skip
TRAINING["basic_session_run_hooks"] = Entry((_TRAIN, "hpcflow.train.step_timer", _API))
TRAINING["summary_io"] = Entry(("hpcflow.summary", _TRAIN), {
    "SummaryWriter": "hpcflow.summary:FileWriter",
    "SummaryWriterCache": "hpcflow.summary:FileWriterCache"})
TRAINING["checkpoint_state_pb2"] = Entry((_MORE_PROTOS,))
_EVALUATION = "hpcflow.contrib.training.evaluation"
TRAINING["evaluation"] = Entry((_EVALUATION, "hpcflow.train.hooks"), {
    f"_{name}": f"{_EVALUATION}:{name}" for name in (
        "StopAfterNEvalsHook", "evaluate_once", "get_or_create_eval_step")})
TRAINING["device_setter"] = Entry((_TRAIN,), {
    "_RoundRobinStrategy": "hpcflow.train.device_setter:_RoundRobin",
    "STANDARD_PS_OPS": "hpcflow.train.device_setter:STATE_TYPES"})
TRAINING["monitored_session"] = Entry((_TRAIN, _API), {
    "_HookedSession": "hpcflow.train.session_layers:_Hooked",
    "_MonitoredSession": "hpcflow.train.monitored_session:_Monitored"})
TRAINING["optimizer"] = Entry((_TRAIN, _API), {
    "_deduplicate_indexed_slices": "hpcflow.optimizers.optimizer:deduplicated",
    "_var_key": "hpcflow.optimizers.slots:slot_key"})
TRAINING["moving_averages"] = Entry((_TRAIN, "hpcflow.optimizers.moving_averages"))
TRAINING["saver"] = Entry((_TRAIN, _API), {
    **members("hpcflow.train.saveable", "BaseSaverBuilder"),
    "_get_saver_or_default": "hpcflow.train.scaffold:saver_or_default"})
TRAINING["slot_creator"] = Entry(("hpcflow.optimizers.slots",))
TRAINING["training_util"] = Entry((_TRAIN, _API), {
    "_get_or_create_global_step_read": "hpcflow.optimizers.global_step:global_step_read",
    "_increment_global_step": "hpcflow.optimizers.global_step:increment_global_step"})
TRAINING["training_ops"] = Entry((RAW,))
TRAINING["gen_training_ops"] = Entry((RAW,))
TRAINING["checkpoint_management"] = Entry((_TRAIN, "hpcflow.train.checkpoint_files"), {
    "update_checkpoint_state_internal": f"{_TRAIN}:update_checkpoint_state"})
TRAINING["checkpoint_utils"] = Entry(("hpcflow.contrib.framework", _TRAIN,
                                       "hpcflow.train.checkpoint_files"))
TRAINING["tracking.util"] = Entry((_TRAIN,))
for _name in ("base", "data_structures", "tracking"):
    TRAINING[f"tracking.{_name}"] = Entry(("hpcflow.base.tracking",))
TRAINING["checkpoint_ops"] = Entry((), {
    f"_{name}": f"hpcflow.train.vocabularies:{name}" for name in (
        "load_and_remap_matrix", "load_and_remap_matrix_initializer",
        "load_embedding_initializer")})
TRAINING["warm_starting_util"] = Entry(("hpcflow.train.warm_starting",), {
    "warm_start": _TRAIN + ":warm_start"})
TRAINING["tensorboard_logging"] = Entry(("hpcflow.platform.event_logging",), {
    "_clear_summary_writer": "hpcflow.platform.event_logging:clear_summary_writer"})
