"""Where compatibility tests run: on one broker, and some of them in a cluster as well.

`rolling` is a cluster of three whose brokers restart in turn meanwhile: no client may notice.
`proxy` is one of three brokers, which goes to the others for its clients.
"""

from __future__ import annotations

import gc
from collections.abc import Iterator
from dataclasses import dataclass

import pytest

from support.broker import BrokerProcess
from support.cluster import BrokerCluster
from support.confluent import create_topic
from support.rolling import RollingRestart
from support.routed import RoutedCluster

# A rolling restart takes what was sent without an acknowledgement, makes a producer that is not
# idempotent repeat itself, and lets a reader that leaves at the end see an earlier end, such as
# kcat with -e: none of these is here.
ROLLING = frozenset(
    {
        "test_a_commit_and_its_metadata_are_the_same_for_every_client",
        "test_an_idempotent_kcat",
        "test_clients_of_every_kind_share_one_group",
        "test_many_partitions_are_written_and_read",
    }
)
# Three clients ask six times, each once, and on a busy machine one of them may meet a coordinator
# that is just moving: in `make chaos`.
LONG = frozenset({"test_a_commit_and_its_metadata_are_the_same_for_every_client"})
PROXY = ROLLING | frozenset(
    {
        "test_a_group_is_listed_described_and_deleted",
        "test_a_group_is_read_and_goes_on_where_it_stopped",
        "test_a_message_of_one_megabyte_goes_through",
        "test_a_pipe_in_and_a_pipe_out",
        "test_a_waiting_fetch_returns_when_data_arrives",
        "test_deleted_records_are_gone_and_the_rest_stays",
        "test_every_client_reads_what_every_client_wrote",
        "test_every_kind_of_acknowledgement",
        "test_groups",
        "test_groups_are_listed_described_and_deleted",
        "test_offsets_are_listed_by_kind_and_by_time",
        "test_offsets_are_queried",
        "test_partitions_are_added",
        "test_producing_to_an_unknown_topic_creates_it",
        "test_reading_goes_on_from_any_offset_inside_a_batch",
        "test_records_are_deleted",
        "test_the_last_messages_are_read_from_the_end",
        "test_topics_and_partitions",
    }
)


@dataclass
class Front:
    """A cluster where tests expect a broker."""

    bootstrap: str


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    name = metafunc.function.__name__
    if name not in PROXY:
        return
    # aiokafka forgets to close the sockets of connections that were refused.
    marks = [pytest.mark.filterwarnings("ignore::ResourceWarning")]
    marks += [pytest.mark.chaos] if name in LONG else []
    rolling = [pytest.param("rolling", marks=marks)] if name in ROLLING else []
    metafunc.parametrize("broker", ["solo", *rolling, "proxy"], indirect=True)


@pytest.fixture(scope="session")
def rolling_restart(
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[tuple[BrokerCluster, RollingRestart]]:
    cluster = BrokerCluster(tmp_path_factory.mktemp("rolling"))
    cluster.start()
    # Until something is kept there, nobody knows a broker that is away.
    create_topic(cluster.admin, "kept")
    restart = RollingRestart(cluster)
    try:
        yield cluster, restart
        restart.stop()
    finally:
        cluster.stop()


@pytest.fixture(scope="session")
def routed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RoutedCluster]:
    cluster = RoutedCluster(tmp_path_factory.mktemp("routed"))
    try:
        cluster.start()
        yield cluster
    finally:
        cluster.stop()


@pytest.fixture
def broker(request: pytest.FixtureRequest) -> Iterator[BrokerProcess | Front]:
    """Where this test runs, watched: without one unexpected exception."""
    place = getattr(request, "param", "solo")
    if place == "rolling":
        cluster, restart = request.getfixturevalue("rolling_restart")
        with restart.going_on():
            yield Front(cluster.bootstrap)
        gc.collect()  # now, while warnings about sockets are ignored
        assert [fault for each in cluster.brokers.values() for fault in each.faults()] == []
    elif place == "proxy":
        proxy = request.getfixturevalue("routed").brokers[1]
        yield proxy
        assert proxy.faults() == []
    else:
        shared = request.getfixturevalue("shared_broker")
        if not shared.alive:
            shared.start()
        said_before = len(shared.stderr)
        yield shared
        assert shared.alive, "the broker ended during this test"
        assert shared.faults(said_before) == []
