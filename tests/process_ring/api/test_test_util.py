"""``hpcflow.test``: what programs' own tests are made of."""

from __future__ import annotations

import collections
import json
import os
import sys
import unittest

import numpy as np
import pytest

import hpcflow as hf


class ProgramTest(hf.test.TestCase):
    """A test as users write it; run by the functions below and by pytest itself."""

    def test_sessions_share_variables_and_seeds(self):
        with self.test_session() as first:
            variable = hf.Variable(2.0)
            first.run(variable.initializer)
        with self.test_session() as second:
            self.assertIs(first, second)
            self.assertAllEqual(variable.eval(), 2.0)
        with self.test_session(graph=hf.Graph()) as third:
            self.assertIsNot(third, second)
            self.assertIs(hf.get_default_graph(), third.graph)
        self.assertEqual(hf.get_default_graph().seed, 87654321)
        self.assertAllEqual(self.evaluate([hf.constant(1), hf.constant(2)]), [1, 2])

    def test_set_up_begins_anew(self):
        numbers = []
        for _ in range(2):
            self.setUp()
            with self.test_session():
                numbers.append(hf.random_normal([1]).eval()[0])
        self.assertEqual(*numbers)

    def test_kinds_of_sessions(self):
        variable = hf.Variable(2.0)
        with self.cached_session() as first:
            first.run(variable.initializer)
        self.assertAllEqual(self.evaluate(variable), 2.0)
        with self.session() as second:
            self.assertIs(second.graph, hf.get_default_graph())
            with self.assertRaises(hf.errors.FailedPreconditionError):
                self.evaluate(variable)

    def test_more_comparisons(self):
        self.assertAllGreater([1, 2], 0)
        self.assertAllGreaterEqual([1, 2], 1)
        self.assertAllLess([1, 2], 3)
        self.assertAllLessEqual([1, 2], 2)
        self.assertAllInRange([1, 2], 1, 2)
        self.assertAllInSet([1, 2, 1], {1, 2, 3})
        self.assertNotAllClose([1.0], [1.1])
        self.assertNotAllEqual([1, 2], [1, 3])
        for wrong in (lambda: self.assertAllInRange([1, 2], 1, 2, open_upper_bound=True),
                      lambda: self.assertAllInSet([4], {1}),
                      lambda: self.assertNotAllClose([1.0], [1.0]),
                      lambda: self.assertNotAllEqual([1], [1])):
            self.assertRaises(AssertionError, wrong)

    def test_tensors_and_structures_are_compared(self):
        pair = collections.namedtuple("Pair", "a b")
        with self.test_session():
            self.assertAllClose(hf.constant([1.0]), [1.0])
            self.assertAllEqual([1, 2], hf.constant([1, 2]))
            self.assertAllClose({"a": hf.constant(1.0), "b": [2.0, 3.0]}, pair(1.0, [2.0, 3.0]))
        self.assertAllClose([{"a": 1.0}, 2.0], [{"a": 1.0}, 2.0])
        self.assertAllClose([1.0, 2.0], [1.5, 2.0], atol=np.array([1.0, 0.0]))
        with self.assertRaisesRegex(ValueError, "compare dict to non-dict"):
            self.assertAllClose(1.0, {"a": 1.0})

    def test_comparisons(self):
        self.assertAllClose([1.0, np.nan], [1.0 + 1e-8, np.nan])
        self.assertAllClose({"a": [1, 2]}, {"a": np.array([1, 2])})
        self.assertAllClose([[1.0], [1.0, 2.0]], [[1.0], [1.0, 2.0]])
        self.assertAllCloseAccordingToType(np.float16([1]), np.float16([1.0009]))
        self.assertAllEqual(["a", "b"], np.array([b"a", b"b"], object))
        self.assertAllEqual([[[1]], 1, (hf.constant([1, 2]),)], [[[1]], 1, [np.array([1, 2])]])
        self.assertNear(1, 1.1, 0.2)
        self.assertArrayNear([1, 2], [1.1, 2], 0.2)
        self.assertNDArrayNear(np.ones(2), np.zeros(2), 1.5)
        self.assertStartsWith("abc", "ab")
        self.assertShapeEqual(np.ones((2, 3)), hf.ones((2, 3)))
        self.assertDeviceEqual("/job:a/cpu:0", hf.DeviceSpec(job="a", device_type="CPU",
                                                             device_index=0))
        self.assertProtoEquals("name: 'x'", hf.NodeDef(name="x"))

    def test_comparisons_that_fail(self):
        failing = [
            lambda: self.assertAllClose([1.0], [1.1]),
            lambda: self.assertAllClose([1.0], 1.0),
            lambda: self.assertAllClose({"a": 1}, {"b": 1}),
            lambda: self.assertAllEqual([1], [2]),
            lambda: self.assertAllEqual([[1], 1], [[1], 2]),
            lambda: self.assertAllEqual([[1], 1], [[1]]),
            lambda: self.assertNear(1, 2, 0.5),
            lambda: self.assertNear(1, float("nan"), 0.5),
            lambda: self.assertStartsWith("abc", "b"),
            lambda: self.assertShapeEqual(np.ones(2), hf.ones(3)),
            lambda: self.assertProtoEquals("name: 'x'", hf.NodeDef(name="y")),
        ]
        for check in failing:
            with pytest.raises(AssertionError):
                check()

    def test_errors_of_operations(self):
        with self.test_session():
            index = hf.placeholder(hf.int32)
            picked = hf.gather([1, 2], index, name="picked")
            with self.assertRaisesOpError("picked"):
                picked.eval({index: 7})
            with pytest.raises(AssertionError, match="not raised"):
                with self.assertRaisesOpError("picked"):
                    picked.eval({index: 1})
        with self.assertRaisesWithPredicateMatch(ValueError, lambda e: "x" in str(e)):
            raise ValueError("x")
        with pytest.raises(AssertionError, match="does not match"):
            with self.assertRaisesWithPredicateMatch(ValueError, "y"):
                raise ValueError("x")

    def test_threads(self):
        good, bad = self.checkedThread(int), self.checkedThread(int, args=("x",))
        good.start(), bad.start()
        good.join()
        with pytest.raises(AssertionError, match="checkedThread"):
            bad.join()

    def test_directories(self):
        self.assertTrue(os.path.isdir(self.get_temp_dir()))
        self.assertStartsWith(self.get_temp_dir(), hf.test.get_temp_dir())
        self.assertTrue(os.path.isfile(hf.test.test_src_dir_path("version.py")))


def test_unittest_runs_the_case_too():
    suite = unittest.defaultTestLoader.loadTestsFromTestCase(ProgramTest)
    result = unittest.TestResult()
    suite.run(result)
    assert not result.failures and not result.errors
    assert [test.id().split(".")[-1] for test, _ in result.skipped] == ["test_session"]


def test_gradient_of_one_input(session):
    x = hf.placeholder(hf.float64, [2])
    y = hf.stack([x[0] * x[1], hf.sin(x[0]), x[1] ** 2])
    with session.as_default():
        found, numerical = hf.test.compute_gradient(x, [2], y, [3], np.array([0.5, 2.0]))
        assert hf.test.compute_gradient_error(x, [2], y, [3]) < 1e-5
    expected = [[2.0, np.cos(0.5), 0], [0.5, 0, 4.0]]
    np.testing.assert_allclose(found, expected)
    np.testing.assert_allclose(numerical, expected, atol=1e-5)


def test_gradient_of_several_and_complex_inputs(session):
    x, z = hf.placeholder(hf.float64, []), hf.placeholder(hf.complex128, [2])
    with session.as_default():
        y = hf.real(z * z) * hf.cast(x, hf.float64)
        pairs = hf.test.compute_gradient([x, z], [[], [2]], y, [2])
        assert [p[0].shape for p in pairs] == [(1, 2), (4, 2)]
        assert hf.test.compute_gradient_error([x, z], [[], [2]], y, [2]) < 1e-5
        constant = hf.ones([2])
        assert hf.test.compute_gradient_error(x, [], constant, [2]) == 0
        with pytest.raises(ValueError, match="initial value has shape"):
            hf.test.compute_gradient(z, [2], y, [2], np.zeros(3))


def test_gradient_needs_a_session(graph):
    x = hf.constant(1.0)
    with pytest.raises(ValueError, match=r"(?i)no default session"):
        hf.test.compute_gradient(x, [], x * x, [])


def test_graph_defs():
    def graph_def(names, value=1):
        with hf.Graph().as_default() as graph:
            for name in names:
                hf.constant(value, name=name)
        return graph.as_graph_def()

    hf.test.assert_equal_graph_def(graph_def("ab"), graph_def("ba"))
    with pytest.raises(AssertionError, match=r"Did not find expected node '\{\{node b\}\}'"):
        hf.test.assert_equal_graph_def(graph_def("a"), graph_def("ab"))
    with pytest.raises(AssertionError, match="node 'a' is"):
        hf.test.assert_equal_graph_def(graph_def("a"), graph_def("a", 2))
    with pytest.raises(TypeError, match="GraphDef"):
        hf.test.assert_equal_graph_def(1, graph_def("a"))


def test_benchmarks(session, capsys):
    class Adding(hf.test.Benchmark):
        def benchmark_add(self):
            self.run_op_benchmark(session, hf.constant(1) + 2, min_iters=3, name="add", mbs=1)

    assert not Adding.is_abstract() and hf.test.Benchmark.is_abstract()
    hf.test.main(["program", "--benchmarks=Adding"])
    report = json.loads(capsys.readouterr().out)
    assert report["name"] == "Adding.add" and report["iters"] == 3 and report["wall_time"] > 0


def test_reports_of_benchmarks_in_files(session, monkeypatch, tmp_path):
    from hpcflow.core.util.test_log_pb2 import BenchmarkEntries
    from hpcflow.python.platform import benchmark

    class Reporting(hf.test.Benchmark):
        def benchmark_first(self):
            self.report_benchmark(iters=2, name="first/64", extras={"number": 3, "text": "a"})

        def benchmark_add(self):
            return self.run_op_benchmark(session, hf.constant(1) + 2, min_iters=3,
                                         store_trace=True)

    assert Reporting in benchmark.GLOBAL_BENCHMARK_REGISTRY
    monkeypatch.setenv(benchmark.TEST_REPORTER_TEST_ENV, f"{tmp_path}/r_")
    reporting = Reporting()
    reporting.benchmark_first()
    extras = reporting.benchmark_add()["extras"]
    assert json.loads(extras["full_trace_chrome_format"])["traceEvents"]
    (first,), (added,) = (
        BenchmarkEntries.FromString((tmp_path / f"r_Reporting.{n}").read_bytes()).entry
        for n in ("first__64", "benchmark_add"))
    assert first.name == "Reporting.first/64" and first.iters == 2
    assert (first.extras["number"].double_value, first.extras["text"].string_value) == (3, "a")
    assert added.wall_time > 0 and added.extras["allocator_maximum_num_bytes_cpu"].double_value > 0
    with pytest.raises(OSError):
        reporting.benchmark_first()


def test_devices():
    assert hf.test.is_gpu_available() == bool(hf.test.gpu_device_name())
    assert isinstance(hf.test.is_built_with_cuda(), bool)
    assert hf.test.mock.Mock


def test_decorators_of_tests():
    from hpcflow.python.framework import test_util

    class Case(hf.test.TestCase):
        @test_util.run_in_graph_and_eager_modes
        def test_plain(self):
            self.assertEqual(self.evaluate(hf.constant(2) + 1), 3)

        @test_util.run_in_graph_and_eager_modes(use_gpu=False)
        def test_with_arguments(self):
            self.assertEqual(hf.constant(4).eval(), 4)

        @test_util.run_deprecated_v1
        @test_util.disable_xla("a reason")
        def test_unchanged(self):
            with self.test_session():
                self.assertEqual(hf.constant(5).eval(), 5)

    result = unittest.TestResult()
    unittest.defaultTestLoader.loadTestsFromTestCase(Case).run(result)
    assert result.testsRun >= 3 and result.wasSuccessful(), result.errors


def test_squeezable_dimensions():
    from hpcflow.python.ops import confusion_matrix

    labels, predictions = confusion_matrix.remove_squeezable_dimensions([[1], [2]], [1, 2])
    assert labels.shape.as_list() == predictions.shape.as_list() == [2]
    labels, predictions = confusion_matrix.remove_squeezable_dimensions(
        [1, 2], np.zeros((2, 5)), expected_rank_diff=1)
    assert predictions.shape.as_list() == [2, 5]


def test_a_local_cluster():
    workers, servers = hf.test.create_local_cluster(num_workers=2, num_ps=1)
    try:
        with hf.Graph().as_default():
            with hf.device("/job:ps/task:0"):
                v = hf.Variable(3.0)
            with hf.device("/job:worker/task:1"):
                y = v * 2.0
            with hf.Session(workers[0].target) as session:
                session.run(v.initializer)
                assert session.run(y) == 6.0
        assert len({s.target for s in [*workers, *servers]}) == 3
    finally:
        for server in [*workers, *servers]:
            server._server.close()


def test_a_scalar_of_shape_one_in_gradient_checks():
    x = hf.constant([1.0, 2.0])
    loss = hf.reduce_sum(hf.square(x)) + hf.reduce_sum(x)
    with hf.Session():
        assert hf.test.compute_gradient_error(x, [2], loss, [1], delta=1e-2) < 1e-2


class WritingTest(hf.test.TestCase):
    """What is written to streams of the process, below Python as well."""

    def test_writes_are_captured(self):
        with self.captureWritesToStream(sys.stderr) as captured:
            self.evaluate(hf.print("a", hf.constant(2)))
            self.assertEqual(captured.contents(), "a 2\n")
            os.write(sys.stderr.fileno(), b"below\n")
        self.assertEqual(captured.contents(), "a 2\nbelow\n")


def test_decorators_that_leave_tests_out():
    from hpcflow.python.framework import test_util

    ran = []
    test_util.skip_if(lambda: True)(ran.append)(1)
    test_util.skip_if(False)(ran.append)(2)
    for method in (test_util.run_v2_only(ran.append), test_util.run_v2_only()(ran.append)):
        with pytest.raises(unittest.SkipTest, match="v2"):
            method(3)
    assert ran == [2]


def test_operations_of_graphs_by_name(graph):
    from hpcflow.python.framework import test_util

    hf.constant(1, name="one")
    assert test_util.assert_ops_in_graph({"one": "Const"}, graph)["one"].op == "Const"
    for wrong in ({"two": "Const"}, {"one": "Variable"}):
        with pytest.raises(ValueError, match="Expected the operation"):
            test_util.assert_ops_in_graph(wrong, graph)
    assert test_util.get_node_def_from_graph("two", graph.as_graph_def()) is None


def test_deterministic_cudnn():
    from hpcflow import config
    from hpcflow.python.framework import test_util

    @test_util.use_deterministic_cudnn
    def flag():
        return config.flags.deterministic

    before = config.flags.deterministic
    assert flag() is True and config.flags.deterministic is before
