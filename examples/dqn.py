"""Deep Q-learning of balancing a pole, by workers that share a network on parameter servers.

Every worker has a cart with a pole of its own, a memory of what happened, and a copy of the network
that judges the future, taken from time to time from the shared one (Mnih and others, 2015; with
several asynchronous actors, as in their paper of 2016). The network is on the parameter servers.
The cart is pushed to the left or to the right; an episode ends when the pole has fallen, or stands
for 200 steps.

    python examples/dqn.py                                 one process, no MPI
    python -m hpcflow run -n 3 --ps 1 examples/dqn.py      a server, two workers

Prints the mean length of the last episodes now and then, and at the end that of 20 episodes in
which the network alone decides.
"""

from __future__ import annotations

import argparse
import math
from collections import deque

import numpy as np

import hpcflow as tf

FALLEN, OUTSIDE, LONGEST, ACTIONS, REPORTS = 12 * math.pi / 180, 2.4, 200, 2, 10


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--moves", type=int, default=12_000, help="moves of each worker's cart")
    parser.add_argument("--batch", type=int, default=64, help="memories of a training step")
    parser.add_argument("--copy", type=int, default=100, help="moves between copies of the network")
    return parser.parse_args()


class Cart:
    """A cart with a pole, by the equations of Barto, Sutton and Anderson (1983)."""

    def __init__(self, seed: int) -> None:
        self.random = np.random.default_rng(seed)
        self.begin()

    def begin(self) -> np.ndarray:
        """Put the pole up; return place, speed, angle and its speed."""
        self.state, self.moves = self.random.uniform(-0.05, 0.05, 4), 0
        return self.state

    def push(self, action: int) -> tuple[np.ndarray, bool, bool]:
        """Push for 1/50 s; return the state, and whether the pole fell, or time was over."""
        _, speed, angle, turning = self.state
        force, sine, cosine = 10.0 if action else -10.0, math.sin(angle), math.cos(angle)
        pull = (force + 0.05 * turning**2 * sine) / 1.1
        angular = (9.8 * sine - cosine * pull) / (0.5 * (4 / 3 - 0.1 * cosine**2 / 1.1))
        linear = pull - 0.05 * angular * cosine / 1.1
        self.state = self.state + 0.02 * np.array([speed, linear, turning, angular])
        self.moves += 1
        fell = abs(self.state[0]) > OUTSIDE or abs(self.state[2]) > FALLEN
        return self.state, bool(fell), self.moves >= LONGEST


def network(states: tf.Tensor, name: str, trainable: bool = True) -> tf.Tensor:
    """The value of each action in states ``[batch, 4]``."""
    with tf.variable_scope(name):
        for units in (64, 64):
            states = tf.layers.dense(states, units, tf.nn.relu, trainable=trainable)
        return tf.layers.dense(states, ACTIONS, trainable=trainable)


class Learner:
    """The graph of a worker; the learning rate falls during the first `moves` steps."""

    def __init__(self, index: int, moves: int) -> None:
        self.states = tf.placeholder(tf.float32, [None, 4], name="states")
        self.actions = tf.placeholder(tf.int32, [None], name="actions")
        self.rewards = tf.placeholder(tf.float32, [None], name="rewards")
        self.after = tf.placeholder(tf.float32, [None, 4], name="after")
        self.ended = tf.placeholder(tf.float32, [None], name="ended")
        values = network(self.states, "shared")
        judged = network(self.after, f"copy_{index}", trainable=False)
        self.best = tf.argmax(values, 1)
        # The shared network chooses the next action, the copy judges it (double Q-learning).
        with tf.variable_scope("", reuse=True):
            chosen = tf.argmax(network(self.after, "shared"), 1)
        future = tf.reduce_sum(judged * tf.one_hot(chosen, ACTIONS), 1)
        target = tf.stop_gradient(self.rewards + 0.99 * (1 - self.ended) * future)
        taken = tf.reduce_sum(values * tf.one_hot(self.actions, ACTIONS), 1)
        loss = tf.losses.huber_loss(target, taken)
        shared = tf.get_collection(tf.GraphKeys.GLOBAL_VARIABLES, "shared")
        copies = tf.get_collection(tf.GraphKeys.GLOBAL_VARIABLES, f"copy_{index}")
        self.copy = tf.group(*(c.assign(v) for c, v in zip(copies, shared)))
        self.step = tf.train.get_or_create_global_step()
        rate = tf.train.polynomial_decay(2e-3, self.step, moves, 1e-4)
        self.train = tf.train.AdamOptimizer(rate).minimize(loss, self.step, var_list=shared)
        self.own = tf.variables_initializer(copies)

    def act(self, session: tf.Session, state: np.ndarray) -> int:
        """The action that the network thinks best."""
        return int(session.run(self.best, {self.states: state[None]})[0])

    def learn(self, session: tf.Session, memories: list[tuple]) -> None:
        """Make a training step from memories."""
        states, actions, rewards, after, ended = map(np.array, zip(*memories))
        session.run(self.train, {self.states: states, self.actions: actions, self.after: after,
                                 self.rewards: rewards, self.ended: ended})


def play(session: tf.Session, learner: Learner, args: argparse.Namespace, index: int) -> None:
    """Move the cart, remember, learn."""
    random, cart = np.random.default_rng(index), Cart(seed=index)
    memory: deque[tuple] = deque(maxlen=10_000)
    lengths: deque[int] = deque(maxlen=20)
    state = cart.begin()
    for move in range(1, args.moves + 1):
        curious = max(0.05, 1 - 3 * move / args.moves)
        action = (int(random.integers(ACTIONS)) if random.random() < curious
                  else learner.act(session, state))
        after, fell, over = cart.push(action)
        memory.append((state, action, 1.0, after, float(fell)))
        state = after
        if fell or over:
            lengths.append(cart.moves)
            state = cart.begin()
        if len(memory) >= 500:
            learner.learn(session, [memory[i] for i in random.integers(len(memory),
                                                                       size=args.batch)])
        if move % args.copy == 0:
            session.run(learner.copy)
        if index == 0 and move % max(args.moves // REPORTS, 1) == 0 and lengths:
            print(f"move {move}  length of episodes {np.mean(lengths):.0f}", flush=True)


def test(session: tf.Session, learner: Learner) -> float:
    """The mean length of 20 episodes in which the network decides."""
    cart, lengths = Cart(seed=1000), []
    for _ in range(20):
        state, ended = cart.begin(), False
        while not ended:
            state, fell, over = cart.push(learner.act(session, state))
            ended = fell or over
        lengths.append(cart.moves)
    return float(np.mean(lengths))


def main() -> None:
    args = parse_arguments()
    task = tf.mpi.task()
    server = tf.train.Server(task.cluster, task.job, task.index)
    if task.job == "ps":
        server.join()
        return
    tf.set_random_seed(1)
    with tf.device(tf.train.replica_device_setter(
            cluster=task.cluster, worker_device=f"/job:worker/task:{task.index}")):
        learner = Learner(task.index, args.moves)
    is_chief = task.index == 0
    scaffold = tf.train.Scaffold(local_init_op=learner.own, ready_for_local_init_op=tf.no_op(),
                                 ready_op=tf.report_uninitialized_variables())
    with tf.train.MonitoredTrainingSession(server.target, is_chief, scaffold=scaffold,
                                           log_step_count_steps=None) as session:
        session.run(learner.copy)
        play(session, learner, args, task.index)
        if is_chief:
            print(f"length of episodes: {test(session, learner):.1f}")


if __name__ == "__main__":
    main()
