"""Planning: the cost-model placer over the description of a cluster."""

from __future__ import annotations

from typing import Any

from hpcflow.compiler.distribute.costs import MeasuredCosts, Rates
from hpcflow.compiler.distribute.partition import task_of
from hpcflow.compiler.distribute.place import Placer
from hpcflow.compiler.rewrite.prune import prune
from hpcflow.simulator.cluster import Cluster


class ClusterCosts:
    """A cluster as the placer sees it (``CostModel``)."""

    def __init__(self, cluster: Cluster, measured: MeasuredCosts | None = None) -> None:
        self.cluster = cluster
        self.measured = measured
        self._rates: dict[str, Rates] = {}
        self._ranks: dict[str, int] = {}

    def rates(self, device: str) -> Rates:
        """The rates of a device."""
        found = self._rates.get(device)
        if found is None:
            found = self._rates[device] = self.cluster.rates(device)
        return found

    def transfer_seconds(self, source: str, target: str, nbytes: int) -> float:
        """Between tasks over their link, between devices of a task over the link in a node."""
        if source == target:
            return 0.0
        one, two = self._rank(source), self._rank(target)
        link = self.cluster.within if one == two else self.cluster.link(one, two)
        overhead = 0.0 if one == two else 2 * link.overhead
        return link.latency + overhead + link.seconds(nbytes)

    def _rank(self, device: str) -> int:
        found = self._ranks.get(device)
        if found is None:
            found = self._ranks[device] = self.cluster.rank_of(task_of(device))
        return found


def planned(fetches: list, feeds: list, cluster: Cluster, master: str,
            run_metadata: list[Any]) -> dict[str, str]:
    """Return the device of each op of a step, by name."""
    measured = MeasuredCosts([m.step_stats for m in run_metadata]) if run_metadata else None
    infos = cluster.infos()
    rank = cluster.rank_of(master)
    client = next(d.name for d in infos if cluster.rank_of(task_of(d.name)) == rank)
    graph = prune(fetches, feeds, client)
    Placer(infos, task_of(client), costs=ClusterCosts(cluster, measured)).place(graph)
    return {n.name: n.device for n in graph.nodes if not n.name.startswith("_")}
