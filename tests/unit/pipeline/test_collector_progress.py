"""What a collector knows of itself: totals, rate, lag, and whether it is well."""

import pytest

from nexus.pipeline.collector.progress import Phase
from nexus.pipeline.collector.report import health_of, is_stale, status_of, summary_of
from nexus.pipeline.sink.port import Stored
from nexus.queue.port import Bounds
from support.views import STORE, HandClock, batch, bounds, running


@pytest.fixture
def clock() -> HandClock:
    return HandClock()


def test_what_is_stored_adds_up(clock: HandClock) -> None:
    progress = running(clock)
    progress.stored(STORE, 0, Stored(10, 2, 3, 1, version=4), 0.5)
    progress.stored(STORE, 1, Stored(5, replayed=True), 0.7)
    view = progress.view()
    totals = {name: view.total(name) for name in ("readings", "duplicates", "late", "quarantined")}
    assert totals == {"readings": 15, "duplicates": 2, "late": 3, "quarantined": 1}
    (store,) = view.stores
    assert (store.batches, store.replayed, store.number, store.version) == (2, 1, 1, 4)
    assert view.batch_s == 0.7


def test_lag_is_what_the_queue_has_and_the_store_has_not(clock: HandClock) -> None:
    progress = running(clock)
    batch(progress, 0, 10, end=30)
    progress.queue({0: Bounds(0, 50), 1: Bounds(5, 9)})
    view = progress.view()
    assert view.lags() == {0: 20, 1: 4}
    assert view.lag == 24


def test_lag_is_unknown_until_a_batch_says_where_it_began(clock: HandClock) -> None:
    progress = running(clock)
    assert progress.view().lag is None
    progress.queue(bounds(50))
    assert progress.view().lag is None
    assert progress.view().has_lag


def test_a_stored_batch_counts_as_stored_by_all_only_when_every_store_has_it(
    clock: HandClock,
) -> None:
    progress = running(clock, "delta:///a", "delta:///b")
    batch(progress, 3, 10, end=30, url="delta:///a")
    assert progress.view().stored() == {}
    batch(progress, 1, 10, end=20, url="delta:///b")
    assert progress.view().stored() == {0: 20}


def test_the_rate_is_of_late_and_counts_the_time_a_batch_took(clock: HandClock) -> None:
    progress = running(clock)
    progress.stored(STORE, 0, Stored(readings=1000), 2.0)
    assert progress.view().rate == pytest.approx(500)
    clock.now += 2
    progress.stored(STORE, 1, Stored(readings=1000), 2.0)
    assert progress.view().rate == pytest.approx(500)
    clock.now += 60
    assert progress.view().rate == 0


def test_a_batch_that_takes_long_is_not_forgotten_while_the_next_one_runs(
    clock: HandClock,
) -> None:
    progress = running(clock)
    progress.stored(STORE, 0, Stored(readings=60_000), 60.0)
    clock.now += 60
    assert progress.view().rate == pytest.approx(500)


def test_it_is_stale_when_no_batch_ends_though_something_waits(clock: HandClock) -> None:
    progress = running(clock)
    batch(progress, 0, 10, end=30)
    progress.queue(bounds(50))
    clock.now += 59
    assert not is_stale(progress.view(), 60)
    clock.now += 2
    assert is_stale(progress.view(), 60)
    well, said = health_of(progress.view(), 60)
    assert (well, said["status"], said["ready"]) == (False, "stale", False)


def test_it_is_stale_when_not_even_the_first_batch_ends(clock: HandClock) -> None:
    progress = running(clock)
    progress.queue(bounds(50))
    clock.now += 61
    assert is_stale(progress.view(), 60)


def test_with_nothing_to_do_it_is_never_stale(clock: HandClock) -> None:
    progress = running(clock)
    batch(progress, 0, 10, end=50)
    progress.queue(bounds(50))
    clock.now += 3600
    assert health_of(progress.view(), 60)[0]


def test_a_new_batch_ends_a_problem(clock: HandClock) -> None:
    progress = running(clock)
    progress.failing(STORE, "no room on the disk")
    well, said = health_of(progress.view(), 60)
    assert (well, said["status"], said["problem"]) == (False, "failing", "no room on the disk")
    batch(progress, 0, 1, end=1)
    assert health_of(progress.view(), 60)[0]
    assert progress.view().stores[0].failures == 1


def test_a_queue_that_is_away_is_told_and_forgiven(clock: HandClock) -> None:
    progress = running(clock)
    progress.queue(bounds(50))
    progress.queue(None, "no broker answers")
    well, said = health_of(progress.view(), 60)
    assert (well, said["status"]) == (False, "queue away")
    assert progress.view().bounds == bounds(50)
    progress.queue(bounds(60))
    assert health_of(progress.view(), 60)[0]


@pytest.mark.parametrize(
    ("phase", "well"),
    [
        (Phase.STARTING, False),
        (Phase.STANDBY, True),
        (Phase.WAITING, False),
        (Phase.RUNNING, True),
        (Phase.STOPPING, False),
    ],
)
def test_one_that_stands_by_is_well_and_not_ready(
    clock: HandClock, phase: Phase, well: bool
) -> None:
    progress = running(clock)
    progress.enter(phase, "why")
    found, said = health_of(progress.view(), 60)
    assert found is well
    assert said["ready"] is (phase is Phase.RUNNING)


def test_a_failed_job_keeps_its_last_good_facts(clock: HandClock) -> None:
    progress = running(clock)
    progress.chore("derive", 1.0, "", {"closed": "12:00"})
    progress.chore("derive", 2.0, "no room", {})
    job = status_of(progress.view())["jobs"]["derive"]
    assert (job["runs"], job["problem"], job["closed"]) == (2, "no room", "12:00")
    assert health_of(progress.view(), 60)[1]["jobs"] == {"derive": "no room"}


def test_the_summary_names_what_is_not_zero(clock: HandClock) -> None:
    progress = running(clock)
    batch(progress, 0, 1234, end=30)
    clock.now += 10
    assert summary_of(progress.view()) == "1,234 readings stored in 10.0 s, 1 batches"
    progress.queue(bounds(50))
    progress.stored(STORE, 1, Stored(duplicates=7), 0.1)
    text = summary_of(progress.view())
    assert "7 duplicates" in text
    assert "20 messages wait for the next start" in text


def test_a_store_that_takes_nothing_lags_while_others_go_on(clock: HandClock) -> None:
    progress = running(clock, "delta:///a", "postgresql:///b")
    batch(progress, 0, 10, end=30, url="delta:///a")
    batch(progress, 0, 10, end=20, url="postgresql:///b")
    progress.queue({0: Bounds(0, 50)})
    assert not progress.view().is_lagging
    progress.failing("postgresql:///b", "connection refused")
    view = progress.view()
    assert [view.lag_of(store) for store in view.stores] == [20, 30]
    well, said = health_of(view, 60)
    assert (well, said["status"]) == (False, "lagging")
    assert said["stores"] == {"delta:///a": "well", "postgresql:///b": "connection refused"}
    progress.failing("delta:///a", "no space left")
    assert health_of(progress.view(), 60)[1]["status"] == "failing"
