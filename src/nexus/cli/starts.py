"""Where in each partition to begin: an end, a distance from it, an offset or a point in time."""

from collections.abc import Sequence

from confluent_kafka import TopicPartition
from confluent_kafka.admin import OffsetSpec

from nexus.cli.kafka import Bounds, Cluster
from nexus.cli.output import Failures

Selector = tuple[str, int]


def starts(
    cluster: Cluster, partitions: Sequence[TopicPartition], selector: Selector, failures: Failures
) -> dict[tuple[str, int], int]:
    """An offset that exists for each partition that answers.

    Selectors: `beginning`, `end`, `last` N, `offset` N, `time` epoch ms (the end if none is later).
    """
    bounds = cluster.bounds(partitions, failures)
    what, number = selector
    if what != "time":
        return {key: pick(b, what, number) for key, b in bounds.items()}
    asked = {p: OffsetSpec.for_timestamp(number) for p in partitions}
    found = cluster.offsets(asked, failures)
    return {
        key: found[key] if found[key] >= 0 else bounds[key].end for key in found if key in bounds
    }


def pick(bounds: Bounds, what: str, number: int) -> int:
    """One partition's offset, moved into what the partition holds."""
    wanted = {
        "beginning": bounds.start,
        "end": bounds.end,
        "last": bounds.end - number,
        "offset": number,
    }[what]
    return min(max(wanted, bounds.start), bounds.end)
