"""Monitored sessions: initialization, restoring, hooks, threads, recovery, the end."""

from __future__ import annotations

import threading
import time

import numpy as np
import pytest
from speed import patience

import hpcflow as hf
from hpcflow import config


@pytest.fixture(autouse=True)
def graph():
    with hf.Graph().as_default() as g:
        yield g
    hf.summary.FileWriterCache.clear()


def test_variables_are_initialized_and_the_graph_is_final(graph):
    v = hf.Variable([1.0, 2.0])
    local = hf.Variable(3.0, collections=[hf.GraphKeys.LOCAL_VARIABLES])
    with hf.train.MonitoredSession() as session:
        assert session.graph is graph and graph.finalized
        np.testing.assert_array_equal(session.run(v), [1, 2])
        assert session.run({"a": local, "b": [v]})["a"] == 3.0
    assert not graph.finalized
    assert session.graph is None and session.should_stop()
    with pytest.raises(RuntimeError, match="closed Session"):
        session.run(v)


def test_training_goes_on_from_the_last_checkpoint(tmp_path):
    def train(steps):
        with hf.Graph().as_default():
            step = hf.train.get_or_create_global_step()
            hf.summary.scalar("s", step)
            add = hf.assign_add(step, 1)
            with hf.train.MonitoredTrainingSession(
                    checkpoint_dir=str(tmp_path),
                    hooks=[hf.train.StopAtStepHook(num_steps=steps)]) as session:
                while not session.should_stop():
                    last = session.run(add)
            return last

    assert train(5) == 5
    assert hf.train.latest_checkpoint(str(tmp_path)).endswith("-5")
    assert train(4) == 9
    assert hf.train.latest_checkpoint(str(tmp_path)).endswith("-9")


def train_for(steps, **arguments):
    """Steps of a session with checkpoints after every other step, and summaries."""
    with hf.Graph().as_default():
        step = hf.train.get_or_create_global_step()
        hf.summary.scalar("s", step)
        add = hf.assign_add(step, 1)
        with hf.train.MonitoredTrainingSession(**arguments) as session:
            for _ in range(steps):
                session.run(add)


def test_checkpoints_after_steps_and_summaries_elsewhere(tmp_path):
    models, events = tmp_path / "models", tmp_path / "events"
    train_for(5, checkpoint_dir=str(models), save_checkpoint_steps=2, summary_dir=str(events))
    saved = {p.name.partition(".ckpt-")[2].partition(".")[0] for p in models.glob("*.ckpt-*")}
    assert {"0", "2", "4", "5"} <= saved
    assert list(events.glob("events*"))


def test_nothing_is_saved_if_neither_steps_nor_seconds_are_given(tmp_path):
    train_for(2, checkpoint_dir=str(tmp_path), save_checkpoint_secs=None,
              save_summaries_steps=None, log_step_count_steps=None)
    assert not list(tmp_path.iterdir())


def test_a_worker_waits_no_longer_than_it_may():
    hf.Variable(1.0)
    with pytest.raises(hf.errors.DeadlineExceededError, match="not ready"):
        hf.train.MonitoredTrainingSession(is_chief=False, max_wait_secs=0)


def test_a_step_in_several_parts():
    v = hf.Variable(1.0)
    add, seen = v.assign_add(1.0), []

    class Hook(hf.train.SessionRunHook):
        def after_run(self, run_context, run_values):
            seen.append("step")

    def part(step_context):
        before = step_context.session.run(v)  # which hooks do not see
        return before, step_context.run_with_hooks(add), step_context.run_with_hooks(
            fetches=[v], feed_dict=None)

    def last(step_context):
        step_context.request_stop()
        raise AssertionError("unreached")

    with hf.train.MonitoredSession(hooks=[Hook()]) as session:
        assert session.run_step_fn(part) == (1.0, 2.0, [2.0])
        assert seen == ["step", "step"]
        with pytest.raises(ValueError, match="step_context"):
            session.run_step_fn(lambda context: None)
        session.run_step_fn(last)
        raise AssertionError("the block is over")
    with pytest.raises(RuntimeError, match="closed"):
        session.run_step_fn(part)


def test_hooks_are_called_in_order():
    calls = []

    class Hook(hf.train.SessionRunHook):
        def __init__(self, name, fetch):
            self.name, self.fetch = name, fetch

        def begin(self):
            calls.append((self.name, "begin"))

        def after_create_session(self, session, coord):
            calls.append((self.name, "created", session.graph.finalized))

        def before_run(self, run_context):
            calls.append((self.name, "before", run_context.original_args.fetches is x))
            return hf.train.SessionRunArgs(self.fetch) if self.fetch is not None else None

        def after_run(self, run_context, run_values):
            calls.append((self.name, "after", run_values.results))

        def end(self, session):
            calls.append((self.name, "end"))

    x = hf.constant(1) + 0
    hooks = [Hook("a", {"y": x * 2}), Hook("b", None)]
    with hf.train.MonitoredSession(hooks=hooks) as session:
        assert session.run(x) == 1
    assert calls == [
        ("a", "begin"), ("b", "begin"), ("a", "created", True), ("b", "created", True),
        ("a", "before", True), ("b", "before", True), ("a", "after", {"y": 2}),
        ("b", "after", None), ("a", "end"), ("b", "end")]


def test_a_failure_skips_the_end_and_closes(graph):
    ended = []

    class Hook(hf.train.SessionRunHook):
        def end(self, session):
            ended.append(1)

    x = hf.check_numerics(hf.placeholder(hf.float32, []), "deliberate")
    with pytest.raises(hf.errors.InvalidArgumentError, match="deliberate"):
        with hf.train.MonitoredSession(hooks=[Hook()]) as session:
            session.run(x, {x.op.inputs[0]: np.nan})
    assert not ended and not graph.finalized
    with pytest.raises(KeyError):
        with hf.train.MonitoredSession(hooks=[Hook()]):
            raise KeyError("of the program")
    assert not ended


def test_the_end_of_the_data_ends_the_block():
    names = hf.train.string_input_producer(["a", "b", "c"], num_epochs=2, shuffle=False)
    name = names.dequeue()
    got = []
    with hf.train.MonitoredSession() as session:
        while not session.should_stop():
            got.append(session.run(name))
    assert got == [b"a", b"b", b"c"] * 2
    assert not [t for t in threading.enumerate() if "QueueRunner" in t.name]


def test_what_a_thread_raises_reaches_the_loop():
    q = hf.FIFOQueue(5, hf.float32, [[]])
    bad = hf.check_numerics(hf.placeholder_with_default(np.nan, []), "deliberate")
    hf.train.add_queue_runner(hf.train.QueueRunner(q, [q.enqueue(bad)]))
    take = q.dequeue()
    with pytest.raises(hf.errors.InvalidArgumentError, match="deliberate"):
        with hf.train.MonitoredSession() as session:
            while not session.should_stop():
                session.run(take)


def test_recovery():
    """A session that was lost is replaced by a new one, restored as the creator does it."""
    v = hf.Variable(1)
    made, failures = [], [hf.errors.AbortedError(None, None, "lost"),
                          hf.errors.UnavailableError(None, None, "gone")]

    class Creator(hf.train.SessionCreator):
        def create_session(self):
            made.append(hf.Session())
            made[-1].run(v.initializer)
            return made[-1]

    class Failing(hf.train.SessionRunHook):
        def before_run(self, run_context):
            if failures and len(made) == 3 - len(failures):
                raise failures.pop(0)

    with hf.train.MonitoredSession(Creator(), [Failing()]) as session:
        assert session.run(v) == 1
        assert len(made) == 3 and not failures
    with pytest.raises(RuntimeError, match="closed"):
        made[0].run(v)


def test_a_singular_session_does_not_recover():
    v = hf.Variable(1)

    class Failing(hf.train.SessionRunHook):
        def before_run(self, run_context):
            raise hf.errors.AbortedError(None, None, "lost")

    with pytest.raises(hf.errors.AbortedError, match="lost"):
        with hf.train.SingularMonitoredSession([Failing()]) as session:
            assert session.raw_session().run(v) == 1
            session.run(v)


def test_running_after_a_stop():
    v = hf.Variable(1)

    class Stopping(hf.train.SessionRunHook):
        def after_run(self, run_context, run_values):
            run_context.request_stop()

    with hf.train.MonitoredSession(hooks=[Stopping()]) as session:
        session.run(v)
        assert session.should_stop()
        with pytest.raises(RuntimeError, match="after should_stop"):
            session.run(v)


def test_workers_wait_for_the_chief(capsys, monkeypatch):
    monkeypatch.setattr(config.flags, "stall_seconds", 0.01)
    server = hf.train.Server.create_local_server()
    try:
        v = hf.Variable(4.0, name="v")
        manager = hf.train.SessionManager(ready_op=hf.report_uninitialized_variables())
        said = ""
        for seconds in (0.2, 2.0, 20.0, 200.0):  # for as long as it takes to look a second time
            with pytest.raises(hf.errors.DeadlineExceededError, match="not initialized: v"):
                manager.wait_for_session(server.target, max_wait_secs=seconds)
            if said := capsys.readouterr().err:
                break
        assert said == (
            "hpcflow: this worker has waited 0.01 s for the chief to make the model ready: "
            "Variables not initialized: v\n")
        values = []

        def work():
            with v.graph.as_default(), hf.train.MonitoredSession(
                    hf.train.WorkerSessionCreator(master=server.target)) as session:
                values.append(session.run(v))

        worker = threading.Thread(target=work)
        worker.start()
        time.sleep(0.2)
        assert not values
        with hf.Session(server.target) as session:
            session.run(v.initializer)
            worker.join(patience())
        assert values == [4.0]
    finally:
        server._server.close()


def test_a_model_that_is_not_ready(tmp_path):
    hf.Variable(1.0, name="a")
    b = hf.Variable(2.0, name="b")
    scaffold = hf.train.Scaffold(init_op=b.initializer)
    with pytest.raises(RuntimeError, match=r"not make model ready.*not initialized: a"):
        hf.train.MonitoredSession(hf.train.ChiefSessionCreator(scaffold))
    with pytest.raises(ValueError, match="both"):
        hf.train.SessionManager().prepare_session(
            "", saver=hf.train.Saver(), checkpoint_dir=str(tmp_path),
            checkpoint_filename_with_path="x")


def test_scaffold_takes_what_it_is_given():
    v = hf.Variable(0.0)
    x = hf.placeholder(hf.float32, [])
    calls = []
    scaffold = hf.train.Scaffold(init_op=hf.assign(v, x).op, init_feed_dict={x: 7.0},
                                 init_fn=lambda s, session: calls.append((s, session.run(v))))
    with hf.train.MonitoredSession(hf.train.ChiefSessionCreator(scaffold)) as session:
        assert session.run(v) == 7.0
        assert calls == [(scaffold, 7.0)]
        assert scaffold.saver is hf.get_collection(hf.GraphKeys.SAVERS)[0]
        assert scaffold.summary_op is None
    hf.add_to_collection(hf.GraphKeys.READY_OP, 1)
    with pytest.raises(RuntimeError, match="More than one item"):
        hf.train.Scaffold.get_or_default("ready_op", hf.GraphKeys.READY_OP, None)


def test_options_of_hooks_are_merged():
    seen = []

    class Hook(hf.train.SessionRunHook):
        def __init__(self, **options):
            self.options = hf.RunOptions(**options)

        def before_run(self, run_context):
            return hf.train.SessionRunArgs(None, options=self.options)

        def after_run(self, run_context, run_values):
            seen.append(run_values)

    x = hf.constant(1) + 1
    hooks = [Hook(timeout_in_ms=5000), Hook(trace_level=1, output_partition_graphs=True)]
    with hf.train.MonitoredSession(hooks=hooks) as s:
        assert s.run(x, options=hf.RunOptions(timeout_in_ms=100)) == 2
    assert seen[0].options.timeout_in_ms == 5000 and seen[0].options.trace_level == 1
    assert len(seen[0].run_metadata.partition_graphs) == 1


def test_hooks_that_ask_for_nothing_get_empty_messages():
    seen = []

    class Hook(hf.train.SessionRunHook):
        def after_run(self, run_context, run_values):
            seen.append(run_values)

    x = hf.constant(1) + 1
    with hf.train.MonitoredSession(hooks=[Hook()]) as s:
        s.run(x)
    assert seen == [hf.train.SessionRunValues(None, hf.RunOptions(), hf.RunMetadata())]


def test_hooks_without_anything_around_a_step_cost_nothing(monkeypatch):
    """The messages that `after_run` gets are not made where no hook has one."""
    from hpcflow.train import session_layers

    made, calls = [], []

    class Ends(hf.train.SessionRunHook):
        def end(self, session):
            calls.append("end")

    hook = Ends()
    monkeypatch.setattr(session_layers, "empty", lambda name: made.append(name))
    with hf.Graph().as_default():
        one = hf.constant(1.0)
        with hf.train.MonitoredSession(hooks=[hook]) as session:
            assert session.run(one) == 1.0
            assert not made
    hook.after_run = lambda context, values: calls.append(values.results)  # of this hook alone
    with hf.Graph().as_default():
        one = hf.constant(1.0)
        with hf.train.MonitoredSession(hooks=[hook]) as session:
            assert session.run(one) == 1.0
    assert calls == ["end", None, "end"] and made == ["RunOptions", "RunMetadata"]


def test_local_initialization_needs_its_operation(graph):
    hf.Variable(1.0)
    with pytest.raises(ValueError, match="must also pass a local_init_op"):
        hf.train.SessionManager(ready_for_local_init_op=hf.report_uninitialized_variables())


def test_a_target_that_nobody_serves_is_an_error_soon(monkeypatch):
    """Nothing is tried again after a while."""
    sleep = time.sleep

    def only_in_the_background(seconds):
        assert threading.current_thread() is not threading.main_thread()
        sleep(seconds)

    monkeypatch.setattr(config.flags, "connect_timeout", 1e6)
    monkeypatch.setattr(time, "sleep", only_in_the_background)
    hf.train.get_or_create_global_step()
    with pytest.raises(hf.errors.UnavailableError, match=r"No server in this process.*nobody:1"):
        hf.train.MonitoredTrainingSession("grpc://nobody:1")
