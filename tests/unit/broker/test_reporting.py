"""What a broker tells of its load: smoothed, and only when it is news."""

from __future__ import annotations

from nexus.broker.reporting import rates, smoothed, worth_telling
from nexus.cluster.etcd.keys import report_of, report_value
from nexus.cluster.port import Report
from nexus.etcd import KeyValue

KEY = ("t", 0)
TOLD = Report({KEY: (100_000.0, 200_000.0, 500.0, 1000.0, 1e9)})


def changed(factor: float) -> Report:
    return Report({KEY: tuple(value * factor for value in TOLD.loads[KEY])})


def test_noise_is_not_told_and_news_is() -> None:
    assert not worth_telling(TOLD, changed(1.1))
    assert not worth_telling(TOLD, changed(0.85))
    assert worth_telling(TOLD, changed(1.5))
    assert worth_telling(TOLD, Report())
    assert worth_telling(TOLD, TOLD._replace(damaged=("t/0",)))
    assert worth_telling(TOLD, TOLD._replace(copying={KEY: 5}))


def test_a_burst_counts_for_less_than_what_lasts() -> None:
    assert rates((0, 0), (100, 50), 2.0) == (50.0, 25.0)
    row = smoothed((0.0,), (1000.0,))
    assert row < (500.0,)
    for _ in range(20):
        row = smoothed(row, (1000.0,))
    assert row > (990.0,)


def test_a_report_of_a_thousand_partitions_is_small_and_comes_back() -> None:
    loads = {
        ("gpu-telemetry", n): (123_456.7 + n, 345_678.9, 1234.5, 9876.5, 1.5e9) for n in range(1000)
    }
    value = report_value(Report(loads, {("t", 1): 17}, ("t/3",)))
    assert len(value) < 64 << 10
    found = report_of(KeyValue(b"k", value, 1, 1, 1, 0))
    assert found.copying == {("t", 1): 17}
    assert found.damaged == ("t/3",)
    assert found.loads.keys() == loads.keys()
    assert all(abs(found.loads[k][0] / loads[k][0] - 1) < 0.01 for k in loads)
