"""Share groups, as their brokers tell of them: those that speak Kafka's calls for them, ours do."""

import asyncio
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, Final

from nexus.cli.kafka import REQUEST_TIMEOUT_S, Cluster, problems_of
from nexus.cli.output import Failures
from nexus.wire.apis import ApiKey
from nexus.wire.messages.list_groups import ListGroupsRequest
from nexus.wire.messages.share_group_describe import ShareGroupDescribeRequest

_LIST_VERSION: Final = 5
_DESCRIBE_VERSION: Final = 1
_CLIENT_ID: Final = "nexus-groups"


@dataclass
class ShareGroup:
    """Who takes its messages, and how far it is in each partition."""

    readers: dict[str, Any] = field(default_factory=dict)
    queues: dict[tuple[str, int], Any] = field(default_factory=dict)

    @property
    def state(self) -> str:
        return "stable" if self.readers else "empty"

    @property
    def waiting(self) -> int:
        return sum(queue.waiting for queue in self.queues.values())


def share_groups(cluster: Cluster, failures: Failures) -> dict[str, ShareGroup]:
    """Every share group by its name; none of brokers that know nothing of them."""
    with problems_of(f"brokers at {cluster.bootstrap}"):
        brokers = cluster.admin.list_topics(timeout=REQUEST_TIMEOUT_S).brokers.values()
    found: dict[str, ShareGroup] = {}
    for told in asyncio.run(_asked([(str(one.host), one.port) for one in brokers], failures)):
        group = found.setdefault(told.group_id, ShareGroup())
        group.readers |= {one.member_id: one for one in (*told.members, *told.readers)}
        group.queues |= {(one.topic_name, one.partition): one for one in told.queues}
    return dict(sorted(found.items()))


async def _asked(addresses: Iterable[tuple[str, int]], failures: Failures) -> list[Any]:
    told = await asyncio.gather(*(_told(address, failures) for address in addresses))
    return [group for groups in told for group in groups]


async def _told(address: tuple[str, int], failures: Failures) -> list[Any]:
    """What one broker says of the share groups that it knows."""
    from nexus.proxy.errors import BrokerAway
    from nexus.proxy.link import connect

    try:
        link = await connect(address, _CLIENT_ID, REQUEST_TIMEOUT_S)
    except BrokerAway as error:
        failures.add("groups at {}:{}: {}".format(*address, error))
        return []
    try:
        async with asyncio.timeout(REQUEST_TIMEOUT_S):
            wanted = ListGroupsRequest(types_filter=["share"])
            listed = await link.ask(ApiKey.LIST_GROUPS, _LIST_VERSION, wanted)
            names = [group.group_id for group in listed.groups]
            shown = ShareGroupDescribeRequest(group_ids=names)
            answer = await link.ask(ApiKey.SHARE_GROUP_DESCRIBE, _DESCRIBE_VERSION, shown)
            groups: list[Any] = answer.groups
            return groups
    except (BrokerAway, TimeoutError):
        # Kafka of before share groups hangs up; then there are none.
        return []
    finally:
        link.close()
