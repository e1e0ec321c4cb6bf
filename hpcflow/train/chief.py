"""The parts of a training session that only its chief has: what it restores from, and the hooks
that save and write. Another rank has them ready in case the chief is lost and the others go on."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from hpcflow.errors import FailedPreconditionError
from hpcflow.framework.session_run_hook import SessionRunHook
from hpcflow.train.preemption import PreemptionHook
from hpcflow.train.saving_hooks import CheckpointSaverHook, StepCounterHook, SummarySaverHook
from hpcflow.train.scaffold import Scaffold
from hpcflow.train.session_creators import ChiefSessionCreator

if TYPE_CHECKING:
    from google.protobuf.message import Message

    from hpcflow.runtime.cluster.server import Regrouped


@dataclass(frozen=True)
class ChiefParts:
    """The arguments of ``MonitoredTrainingSession`` that count for the chief; intervals that are
    None or 0 stand for none."""

    scaffold: Scaffold
    master: str
    config: Message | None
    checkpoint_dir: str | None
    summary_dir: str | None
    only_hooks: Sequence[SessionRunHook]
    save_secs: float | None
    save_steps: int | None
    summary_secs: float | None
    summary_steps: int | None
    log_steps: int | None

    def creator(self) -> ChiefSessionCreator:
        """Return what restores or initializes the model."""
        return ChiefSessionCreator(self.scaffold, self.master, self.config, self.checkpoint_dir)

    def hooks(self) -> list[SessionRunHook]:
        """Return the hooks that save checkpoints and write summaries, and the user's."""
        every = list(self.only_hooks)
        folder = self.summary_dir or self.checkpoint_dir
        if folder:
            if self.log_steps:
                every.append(StepCounterHook(self.log_steps, output_dir=folder))
            if self.summary_steps or self.summary_secs:
                every.append(SummarySaverHook(None if self.summary_secs else self.summary_steps,
                                              self.summary_secs, folder, scaffold=self.scaffold))
        if self.checkpoint_dir and (self.save_steps or self.save_secs):
            every.append(CheckpointSaverHook(self.checkpoint_dir, self.save_secs or None,
                                             self.save_steps or None, scaffold=self.scaffold))
        return every

    def preemption_path(self) -> str | None:
        """Return the path that the hook for preemption saves to, if no other hook saves."""
        saves = self.save_steps or self.save_secs
        return os.path.join(self.checkpoint_dir, "model.ckpt") if (
            self.checkpoint_dir and not saves) else None


def check_chief(found: Regrouped) -> None:
    """Raise ``FailedPreconditionError`` if no rank that is left restores and saves."""
    if not found.has_chief:
        raise FailedPreconditionError(
            None, None, f"The chief is lost, and none of the {found.size} ranks that are left can "
            "take its place: expected a MonitoredTrainingSession, whose arguments are the same on "
            "all of them")


def come_together(is_chief: bool) -> None:
    """If ranks are lost, and the others are to go on, wait for those; the chief must be one."""
    from hpcflow.runtime.cluster.server import regroup

    found = regroup("chief" if is_chief else "")
    if found is not None:
        check_chief(found)


def succeed(parts: ChiefParts, hooks: list[SessionRunHook]) -> ChiefSessionCreator:
    """Let this rank, whose session has `hooks`, be the chief from now on: adds those of the chief,
    and returns its session creator."""
    first = 0
    for hook in hooks:
        if isinstance(hook, PreemptionHook):
            first = hooks.index(hook) + 1
            if (path := parts.preemption_path()) is not None:
                hook.save_at(path)
        elif hasattr(hook, "succeed"):
            hook.succeed()
    more = parts.hooks()
    for hook in more:
        hook.begin()
    hooks[first:first] = more
    return parts.creator()
