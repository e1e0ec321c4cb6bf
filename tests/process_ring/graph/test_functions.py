"""Functions of graphs: definition, calls, what becomes of them in a step, gradients."""

import gradcheck
import numpy as np
import pytest

import hpcflow as hf
from hpcflow.framework import function

pytestmark = pytest.mark.usefixtures("form", "checked")


def square_plus():
    @function.Defun(hf.float32, hf.float32)
    def square_plus(x, y):
        return x * x + y

    return square_plus


# ---------------------------------------------------------------- definitions and calls


def test_a_call_is_one_operation(session, graph):
    f = square_plus()
    x = hf.placeholder(hf.float32, [None])
    y = f(x, 1.0, name="here")
    assert y.op.type == f.name and y.op.name == "here" and f.name.startswith("square_plus_")
    assert y.shape.as_list() == [None]
    assert session.run(y, {x: [2.0, 3.0]}).tolist() == [5, 10]
    assert graph.as_graph_def().library.function[0].signature.name == f.name
    assert f.declared_input_types == (hf.float32, hf.float32) and f.stateful_ops == []


def test_results(session):
    @function.Defun(hf.int32, out_names=["more", "less"], func_name="Both")
    def both(x):
        """Two results."""
        return x + 1, x - 1

    more, less = both(5)
    assert session.run([more, less]) == [6, 4] and more.op is less.op
    signature = both.definition.signature
    assert [a.name for a in signature.output_arg] == ["more", "less"] and both.name == "Both"
    assert signature.description == "Two results."

    @function.Defun()
    def three():
        return hf.constant([3.0])

    assert session.run(three()).tolist() == [3] and three().shape.as_list() == [1]


def test_operations_that_wait_for_arguments(session):
    @function.Defun(hf.float32, hf.float32, compiled=True)
    def waiting(a, b):
        with hf.control_dependencies([b]):
            return hf.identity(a) * hf.constant(2.0)

    x = hf.constant(3.0)
    y = waiting(x, hf.constant(1.0))
    assert session.run([y, hf.gradients(y, x)[0]]) == [6.0, 2.0]


def test_the_same_input_may_be_an_output(session):
    @function.Defun(hf.float32, hf.float32)
    def swap(x, y):
        return y, x

    assert session.run(swap(1.0, 2.0)) == (2.0, 1.0)


def test_wrong_definitions_and_calls(graph):
    with pytest.raises(ValueError, match="takes 1 arguments, but 2 specified input types"):
        function.Defun(hf.float32, hf.float32)(lambda x: x)
    with pytest.raises(ValueError, match="defaults or keyword"):
        function.Defun(hf.float32)(lambda x=1: x)
    with pytest.raises(TypeError, match="unexpected arguments: inline"):
        function.Defun(hf.float32, inline=True)
    with pytest.raises(ValueError, match="not both"):
        function.Defun(hf.float32, grad_func=square_plus(), python_grad_func=abs)
    f = square_plus()
    with pytest.raises(ValueError, match=r"arguments: 2 of the types .*, but got 1"):
        f(1.0)
    with pytest.raises(ValueError, match="Expected type float32 for argument 1"):
        f(1.0, hf.constant(2))
    with pytest.raises(ValueError, match="Unknown keyword arguments: other"):
        f(1.0, 2.0, other=3)
    with pytest.raises(ValueError, match="can not return None"):
        function.Defun(hf.float32)(lambda x: (x, None))(1.0)
    with pytest.raises(hf.errors.InvalidArgumentError, match="names size = 3 outputs size = 1"):
        function.Defun(hf.float32, out_names=list("abc"))(lambda x: x)(1.0)
    with pytest.raises(ValueError, match="2 and 3"):
        f(hf.zeros([2]), hf.zeros([3]))


def test_two_functions_of_one_name(graph):
    def named(body):
        return function.Defun(hf.float32, func_name="Named")(body)

    named(lambda x: x + 1)(1.0)
    named(lambda x: x + 1)(2.0)  # the same again
    with pytest.raises(ValueError, match="'Named' is already defined with another body"):
        named(lambda x: x + 2)(1.0)
    with pytest.raises(ValueError, match="name of an op type: MatMul"):
        function.Defun(hf.float32, func_name="MatMul")(lambda x: x)(1.0)


def test_functions_of_the_types_they_are_called_with(session):
    @function.Defun()
    def double(x):
        return x + x

    assert session.run([double(2.0), double(np.int64(3)), double("ab")]) == [4, 6, b"abab"]
    assert double.instantiate([hf.float32]) is double.instantiate([hf.float32])
    with pytest.raises(ValueError, match="Expected 1 arguments: x, but got 2"):
        double(1.0, 2.0)


def test_any_number_of_arguments(session):
    @function.Defun(hf.float32, hf.float32, hf.float32)
    def total(*values):
        return hf.add_n(list(values))

    assert session.run(total(1.0, 2.0, 3.0)) == 6


def test_functions_call_functions(session, graph):
    inner = square_plus()

    @function.Defun(hf.float32)
    def outer(x):
        return inner(inner(x, x), x)

    x = hf.constant(2.0)
    assert session.run(outer(x)) == 38
    assert len(graph.as_graph_def().library.function) == 2


def test_what_a_function_reads_from_outside(session):
    v = hf.Variable([1.0, 2.0])
    c = hf.constant(3.0)

    @function.Defun(hf.float32)
    def inner(x):
        return x * c

    @function.Defun(hf.float32)
    def outer(x):
        assert function.get_extra_inputs() == []
        y = inner(x) + v
        assert len(function.get_extra_inputs()) == len(function.get_extra_args()) == 2
        return y

    y = outer(2.0)
    assert function.get_extra_inputs() == function.get_extra_vars() == []
    assert len(outer.captured_inputs) == 2 and len(y.op.inputs) == 3
    session.run(v.initializer)
    assert session.run(y).tolist() == [7, 8]
    grads = session.run(hf.gradients(y, [c, v]))
    assert grads[0] == 4 and grads[1].tolist() == [1, 1]


def test_variables_made_in_a_function_belong_to_the_graph(session):
    @function.Defun(hf.float32)
    def layer(x):
        w = hf.get_variable("w", [2, 2], initializer=hf.ones_initializer())
        assert [u.name for u in function.get_extra_vars()] == ["w:0"] == [w.name]
        return hf.matmul(x, w)

    y = layer([[1.0, 2.0]])
    (w,) = hf.trainable_variables()
    session.run(hf.global_variables_initializer())
    assert session.run(y).tolist() == [[3, 3]]
    step = hf.train.GradientDescentOptimizer(0.5).minimize(y)
    session.run(step)
    assert session.run(w).tolist() == [[0.5, 0.5], [0, 0]]


def test_recursion_is_refused(session):
    @function.Defun(hf.float32, func_name="Again")
    def again(x):
        return again(x - 1.0)

    with pytest.raises(ValueError, match=r"'Again' calls itself"):
        again(1.0)
    declared = function.Declare("Odd", [("x", hf.float32)], [("y", hf.float32)])

    @function.Defun(hf.float32, func_name="Even")
    def even(x):
        return declared(x)

    @function.Defun(hf.float32, func_name="Odd")
    def odd(x):
        return even(x)

    y = even(1.0)
    odd.add_to_graph(hf.get_default_graph())
    with pytest.raises(hf.errors.InvalidArgumentError, match="Even -> Odd -> Even"):
        session.run(y)


def test_functions_defined_later(session, graph):
    later = function.Declare("Later", [("x", hf.float32)], [("y", hf.float32)])
    y = later(3.0)
    assert y.shape.ndims is None
    with pytest.raises(hf.errors.InvalidArgumentError, match="no function called 'Later'"):
        session.run(y)
    function.Defun(hf.float32, func_name="Later")(lambda x: x * 2).add_to_graph(graph)
    with hf.Session() as other:
        assert other.run(y) == 6
    with pytest.raises(ValueError, match="expects 1 arguments"):
        later(1.0, 2.0)


def test_errors_name_the_line_inside(session):
    @function.Defun(hf.int32)
    def pick(i):
        return hf.gather([1, 2, 3], i)

    with pytest.raises(hf.errors.InvalidArgumentError) as caught:
        session.run(pick(7, name="call"))
    assert "'call/" in caught.value.message and "test_functions.py" in caught.value.message
    assert caught.value.message.count("in pick") == 1


# ---------------------------------------------------------------- state and control


def test_effects_happen_once_per_call_and_step(session):
    seen = []

    @function.Defun(hf.float32)
    def noted(x):
        hf.py_func(seen.append, [x], [])
        return x + 1

    y = noted(1.0) + noted(2.0)
    assert [session.run(y), sorted(seen)] == [5, [1, 2]]
    assert noted.stateful_ops == [("PyFunc", "PyFunc")] and noted.definition.signature.is_stateful


def test_a_function_without_results(session):
    seen = []

    @function.Defun(hf.float32)
    def note(x):
        return hf.py_func(seen.append, [x], [])

    op = note(3.0)
    assert isinstance(op, hf.Operation)
    with hf.control_dependencies([op]):
        after = hf.py_func(lambda: np.int64(len(seen)), [], hf.int64)
    session.run(op)
    assert session.run(after) == 2 and seen == [3, 3]


def test_a_call_waits_for_its_control_inputs(session):
    v = hf.Variable(1.0)
    session.run(v.initializer)
    order = []

    @function.Defun()
    def note():
        return hf.py_func(lambda: np.float32(order.append("call") or 1), [], hf.float32)

    with hf.control_dependencies([hf.py_func(lambda: order.append("before"), [], [])]):
        y = note()
    assert session.run(y) == 1 and order == ["before", "call"]


def test_only_the_branch_taken_runs(session):
    @function.Defun(hf.int32)
    def fails(x):
        with hf.control_dependencies([hf.Assert(False, ["never"])]):
            return hf.identity(x)

    p, x = hf.placeholder(hf.bool, []), hf.placeholder(hf.int32, [])
    y = hf.cond(p, lambda: x + 1, lambda: fails(x))
    assert session.run(y, {p: True, x: 3}) == 4
    with pytest.raises(hf.errors.InvalidArgumentError, match="never"):
        session.run(y, {p: False, x: 3})
    loop = hf.while_loop(lambda y: p, lambda y: fails(y), [x])
    assert session.run(loop, {p: False, x: 3}) == 3


def test_effects_in_branches_and_loops_of_a_body(session):
    seen = []

    @function.Defun(hf.int32, hf.bool)
    def noted(x, p):
        def inside():
            hf.py_func(lambda v: seen.append(("branch", v)), [x], [])
            return x

        def body(i):
            hf.py_func(lambda v: seen.append(("loop", v)), [i], [])
            return i + 1

        hf.cond(p, inside, lambda: x)
        hf.while_loop(lambda i: i < x, body, [0])
        return x + 1

    p = hf.placeholder(hf.bool, [])
    y = noted(2, p)
    assert session.run(y, {p: True}) == 3
    assert sorted(seen, key=str) == [("branch", 2), ("loop", 0), ("loop", 1)]
    seen.clear()
    assert session.run(y, {p: False}) == 3
    assert sorted(seen) == [("loop", 0), ("loop", 1)]


def test_inside_a_loop(session):
    f = square_plus()
    x = hf.constant(1.5)
    y = hf.while_loop(lambda i, v: i < 3, lambda i, v: (i + 1, f(v, x)), [0, x])[1]
    value, grad = np.float32(1.5), np.float32(1)
    for _ in range(3):
        value, grad = value * value + np.float32(1.5), 2 * value * grad + 1
    got = session.run([y, hf.gradients(y, x)[0]])
    np.testing.assert_allclose(got, [value, grad], rtol=1e-6)


def test_state_of_its_own_for_every_call(session):
    hf.set_random_seed(7)

    @function.Defun()
    def draw():
        return hf.random_uniform([4])

    a, b = draw(), draw()
    first, second = session.run([a, b]), session.run([a, b])
    assert (first[0] != second[0]).any() and (first[1] != second[1]).any()


def test_devices_of_calls(session):
    f = square_plus()
    with hf.device("/cpu:0"):
        y = f(1.0, 2.0)
    assert y.device == "/device:CPU:0" and session.run(y) == 3


def test_steps_compiled_by_several_threads(session):
    import threading

    f = square_plus()
    x = hf.placeholder(hf.float32)  # bodies are made when the steps are compiled
    ys = [f(hf.reshape(x, [2 + i // 4, -1]), float(i)) for i in range(8)]
    results = {}

    grads = [hf.gradients(y, x)[0] for y in ys]

    def run(i):
        results[i] = session.run(grads[i], {x: np.ones(60)})

    threads = [threading.Thread(target=run, args=(i,)) for i in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert all(results[i].tolist() == [2.0] * 60 for i in range(8))


# ---------------------------------------------------------------- gradients


def test_gradients_against_difference_quotients():
    def build(x, y):
        @function.Defun(hf.float64, hf.float64)
        def f(x, y):
            return hf.sin(x) * y, hf.reduce_sum(x * x * y)

        return f(x, y)

    rng = np.random.default_rng(1)
    gradcheck.check_gradient(build, rng.normal(size=3), rng.normal(size=3))


def test_gradients_of_control_flow_in_a_function():
    def build(x):
        @function.Defun(hf.float64)
        def f(x):
            def body(i, v):
                v = hf.cond(hf.reduce_sum(v) > 1.0, lambda: v * x, lambda: hf.sin(v) + x)
                return i + 1, v

            return hf.while_loop(lambda i, v: i < 3, body, [0, x])[1]

        return f(x)

    gradcheck.check_gradient(build, np.array([0.4, 0.9]), second=False, forms=["static"])


def test_gradients_of_calls_by_attribute():
    """As newer graphs call functions, and functions that are declared."""
    later = function.Declare("CubeOf", [("x", hf.float64)], [("y", hf.float64)])

    def build(x):
        cube = function.Defun(hf.float64, func_name="CubeOf")(lambda x: x * x * x)
        cube.add_to_graph(hf.get_default_graph())
        return later(x), hf.raw_ops.PartitionedCall(args=[x], Tout=[hf.float64], f="CubeOf")[0]

    gradcheck.check_gradient(build, np.array([0.5, -1.5]))


def test_a_gradient_function(session, graph):
    @function.Defun(hf.float32, hf.float32)
    def pretended(x, dy):
        return 100 * x * dy

    @function.Defun(hf.float32, grad_func=pretended)
    def square(x):
        return x * x

    x = hf.constant(3.0)
    y = square(x)
    g = hf.gradients(y, x)[0]
    assert session.run([y, g]) == [9, 300] and g.op.type == "SymbolicGradient"
    assert square.grad_func_name == pretended.name
    assert session.run(hf.gradients(g, x)[0]) == 100
    library = graph.as_graph_def().library
    assert [(d.function_name, d.gradient_func) for d in library.gradient] == [
        (square.name, pretended.name)]


def test_a_python_gradient_function(session):
    def gradient(op, dy, _):
        assert op.type == f.name
        return 10 * dy, None

    @function.Defun(hf.float32, hf.float32, python_grad_func=gradient)
    def f(x, y):
        return x + y, y

    x, y = hf.constant(1.0), hf.constant(2.0)
    gx, gy = hf.gradients(f(x, y)[0], [x, y])
    assert session.run(gx) == 10 and gy is None


def test_an_overridden_gradient(session, graph):
    f = square_plus()
    x = hf.constant(3.0)
    f.add_to_graph(graph)
    hf.RegisterGradient(f"Overridden_{f.name}_{id(f)}")(lambda op, dy: (dy * 7, None))
    with graph.gradient_override_map({f.name: f"Overridden_{f.name}_{id(f)}"}):
        y = f(x, 1.0)
    assert session.run(hf.gradients(y, x)[0]) == 7


def test_symbolic_gradient_as_an_operation(session):
    f = function.Defun(hf.float32, func_name="Cube")(lambda x: x * x * x)
    f.add_to_graph(hf.get_default_graph())
    (dx,) = hf.raw_ops.SymbolicGradient(input=[2.0, 1.0], Tout=[hf.float32], f="Cube")
    assert session.run(dx) == 12
    (bad,) = hf.raw_ops.SymbolicGradient(input=[2.0, 1.0], Tout=[hf.float32], f="None")
    with pytest.raises(hf.errors.InvalidArgumentError, match="no function called 'None'"):
        session.run(bad)


def test_random_numbers_are_drawn_once_for_value_and_gradient(session):
    calls = []

    @function.Defun(hf.float32)
    def dropped(x):
        mask = hf.py_func(lambda: calls.append(1) or np.float32(len(calls)), [], hf.float32)
        mask.set_shape([])
        return x * mask * hf.random_uniform([3])

    x = hf.placeholder(hf.float32, [])
    y = dropped(x)
    g = hf.gradients(y, x)[0]
    value, grad = session.run([y, g], {x: 2.0})
    assert len(calls) == 1
    np.testing.assert_allclose(value.sum(), 2 * grad, rtol=1e-6)


def test_integers_and_unused_inputs_have_no_gradient(session):
    @function.Defun(hf.float32, hf.int32, hf.float32)
    def f(x, n, unused):
        return x * hf.cast(n, hf.float32), n + 1

    x, n, u = hf.constant(2.0), hf.constant(3), hf.constant(1.0)
    gx, gn, gu = hf.gradients(f(x, n, u)[0], [x, n, u])
    assert gn is None and session.run([gx, gu]) == [3, 0]


# ---------------------------------------------------------------- export and import


def test_there_and_back(session, graph):
    inner = square_plus()
    w = hf.constant([0.5, 2.0])

    @function.Defun(hf.float32)
    def outer(x):
        y = hf.while_loop(lambda i, v: i < 2, lambda i, v: (i + 1, inner(v, w)), [0, x])[1]
        return hf.split(y, 2)

    x = hf.placeholder(hf.float32, [2], name="x")
    y = hf.identity(hf.concat(outer(x), 0), name="y")
    g = hf.identity(hf.gradients(y, x)[0], name="g")
    wanted = session.run([y, g], {x: [1, 2]})
    proto = hf.GraphDef.FromString(graph.as_graph_def().SerializeToString())
    with hf.Graph().as_default() as other, hf.Session() as session2:
        x2, y2, g2 = hf.import_graph_def(proto, return_elements=["x:0", "y:0", "g:0"])
        again = hf.gradients(y2, x2)[0]
        for got in (session2.run([y2, g2], {x2: [1, 2]}), session2.run([y2, again], {x2: [1, 2]})):
            np.testing.assert_array_equal(got, wanted)
        assert other.as_graph_def().library == proto.library


def test_an_import_that_fails_leaves_no_functions(graph):
    with hf.Graph().as_default() as other:
        square_plus()(1.0, 2.0)
        proto = other.as_graph_def()
    proto.node.add(name="odd", op="NoSuchOp")
    proto.library.function[0].node_def.add(name="odd2", op="NeverHeardOf")
    with pytest.raises(ValueError, match="NeverHeardOf, NoSuchOp in the registered ops"):
        hf.import_graph_def(proto)
    assert not graph.get_operations() and not graph.as_graph_def().library.function


def test_identity_n():
    gradcheck.check_gradient(lambda x, y: hf.raw_ops.IdentityN(input=[x, y]),
                             np.ones(2), np.ones((2, 2)))
    gradcheck.check_gradient(lambda x: hf.raw_ops.IdentityN(input=[x]), np.ones(2))


# ---------------------------------------------------------------- tasks and devices


def test_a_call_on_another_task():
    """The body is where its call is, or where its operations say."""
    spec = hf.train.ClusterSpec({"ps": ["here:1"], "worker": ["here:2"]})
    servers = [hf.train.Server(spec, job, 0) for job in ("ps", "worker")]
    try:
        with hf.Graph().as_default():
            with hf.device("/job:ps"):
                v = hf.Variable([1.0, 2.0])

            @function.Defun(hf.float32)
            def scaled(x):
                y = hf.while_loop(lambda i, a: i < 2, lambda i, a: (i + 1, a * v), [0, x])[1]
                with hf.device("/job:worker"):
                    return y + 1.0

            x = hf.placeholder(hf.float32, [2])
            with hf.device("/job:ps"):
                y = scaled(x)
            g = hf.gradients(y, [x, v])
            with hf.Session(servers[1].target) as session:
                session.run(v.initializer)
                got = session.run([y, *g], {x: [3.0, 4.0]})
            assert [a.tolist() for a in got] == [[4, 17], [1, 4], [6, 16]]
    finally:
        for server in servers:
            server._server.close()


def test_on_an_accelerator(form):
    from fake_accelerator import fake_accelerators

    with fake_accelerators(1), hf.Graph().as_default(), hf.Session() as session:
        f = square_plus()
        x = hf.placeholder(hf.float32, [2])
        with hf.device("/device:FAKE:0"):
            y = f(x, 1.0)
        g = hf.gradients(y, x)[0]
        assert [v.tolist() for v in session.run([y, g], {x: [2.0, 3.0]})] == [[5, 10], [4, 6]]


def test_equal_bodies_keep_their_own_gradients(session):
    @function.Defun(hf.float32, hf.float32)
    def backwards(x, dy):
        return x + dy

    def halved(op, dy):
        return op.inputs[0] * dy / 2

    def doubled(**options):
        @function.Defun(hf.float32, **options)
        def double(x):
            return x * 2

        return double

    x = hf.constant(100.0)
    options = [{}, {"grad_func": backwards}, {"python_grad_func": halved}]
    gradients = [hf.gradients(doubled(**o)(x), x)[0] for o in options]
    assert session.run(gradients) == [2, 101, 50]


def test_conditionals_on_a_captured_predicate(session):
    wanted, queue = hf.placeholder(hf.bool, []), hf.FIFOQueue(10, hf.int64, [])

    @function.Defun(hf.int64)
    def maybe_taken(x):
        return hf.cond(wanted, lambda: x + queue.dequeue(), lambda: x)

    y = maybe_taken(hf.constant(3, hf.int64))
    session.run(queue.enqueue([hf.constant(4, hf.int64)]))
    assert session.run(y, {wanted: False}) == 3
    assert session.run(queue.size()) == 1
    assert session.run(y, {wanted: True}) == 7
