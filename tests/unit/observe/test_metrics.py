"""Metrics count cheaply, stay bounded, and come out as text that Prometheus reads."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from prometheus_client.parser import text_string_to_metric_families

from nexus.observe.metrics import OTHER, Histogram, HistogramState, Registry


def samples(registry: Registry) -> dict[tuple[str, tuple[tuple[str, str], ...]], float]:
    families = text_string_to_metric_families(registry.render().decode())
    return {
        (sample.name, tuple(sorted(sample.labels.items()))): sample.value
        for family in families
        for sample in family.samples
    }


def test_a_counter_is_rendered_with_its_labels() -> None:
    registry = Registry()
    messages = registry.counter("nexus_messages_total", "Messages taken.", ("topic",))
    messages.labels(topic="t").inc()
    messages.labels(topic="t").inc(41)
    assert samples(registry)["nexus_messages_total", (("topic", "t"),)] == 42


def test_the_same_labels_give_the_same_series() -> None:
    family = Registry().counter("nexus_requests_total", "Requests.", ("api", "error"))
    assert family.labels(api="fetch", error=3) is family.labels(error="3", api="fetch")


@pytest.mark.parametrize("labels", [{}, {"topic": "t"}, {"api": "a", "topic": "t"}])
def test_a_series_needs_exactly_the_declared_labels(labels: dict[str, str]) -> None:
    family = Registry().counter("nexus_requests_total", "Requests.", ("api",))
    with pytest.raises((ValueError, KeyError)):
        family.labels(**labels)


def test_a_name_is_declared_once() -> None:
    registry = Registry()
    registry.counter("nexus_requests_total", "Requests.")
    with pytest.raises(ValueError, match="already"):
        registry.gauge("nexus_requests_total", "Requests.", collect=list)


def test_label_values_of_any_text_survive_the_text_format() -> None:
    registry = Registry()
    hostile = 'a"b\\c\nd\x00é'
    registry.counter("nexus_messages_total", "Messages.", ("topic",)).labels(topic=hostile).inc()
    assert samples(registry)["nexus_messages_total", (("topic", hostile),)] == 1


def test_more_series_than_allowed_are_counted_together() -> None:
    registry = Registry()
    family = registry.counter("nexus_messages_total", "Messages.", ("topic",), series_max=2)
    for topic in ("a", "b", "c", "d"):
        family.labels(topic=topic).inc()
    assert registry.values("nexus_messages_total") == {("a",): 1, ("b",): 1, (OTHER,): 2}


def test_a_forgotten_topic_leaves_no_series() -> None:
    registry = Registry()
    family = registry.counter("nexus_errors_total", "Errors.", ("topic", "error"))
    for topic, error in (("gone", "1"), ("gone", "2"), ("kept", "1")):
        family.labels(topic=topic, error=error).inc()
    family.forget(topic="gone")
    assert registry.values("nexus_errors_total") == {("kept", "1"): 1}


def test_a_value_on_a_bound_belongs_to_that_bucket() -> None:
    histogram = Histogram((0.1, 1.0))
    for value in (0.1, 0.5, 1.0, 7.0):
        histogram.observe(value)
    assert histogram.state() == HistogramState((0.1, 1.0), (1, 3, 4), 8.6)
    assert histogram.count == 4


@pytest.mark.parametrize("bounds", [(), (1.0, 1.0), (2.0, 1.0)])
def test_bounds_must_rise(bounds: tuple[float, ...]) -> None:
    with pytest.raises(ValueError, match="rising"):
        Histogram(bounds)


def test_a_histogram_is_rendered_with_cumulative_buckets() -> None:
    registry = Registry()
    family = registry.histogram("nexus_fsync_seconds", "Fsync time.", bounds=(0.1, 1.0))
    for value in (0.05, 0.5, 5.0):
        family.labels().observe(value)
    found = samples(registry)
    assert found["nexus_fsync_seconds_bucket", (("le", "0.1"),)] == 1
    assert found["nexus_fsync_seconds_bucket", (("le", "1.0"),)] == 2
    assert found["nexus_fsync_seconds_bucket", (("le", "+Inf"),)] == 3
    assert found["nexus_fsync_seconds_count", ()] == 3
    assert found["nexus_fsync_seconds_sum", ()] == pytest.approx(5.55)


def test_a_gauge_is_computed_at_each_scrape() -> None:
    registry = Registry()
    sizes = {"t": 10}
    rows = lambda: (((topic,), size) for topic, size in sizes.items())  # noqa: E731
    registry.gauge("nexus_log_bytes", "Bytes on disk.", ("topic",), collect=rows)
    assert samples(registry)["nexus_log_bytes", (("topic", "t"),)] == 10
    sizes["t"] = 20
    assert samples(registry)["nexus_log_bytes", (("topic", "t"),)] == 20


def test_a_gauge_that_fails_does_not_hide_the_others(caplog: pytest.LogCaptureFixture) -> None:
    def broken() -> Iterator[tuple[tuple[()], float]]:
        yield (), 1.0
        raise RuntimeError("no such thing")

    registry = Registry()
    registry.gauge("nexus_broken", "Cannot be computed.", collect=broken)
    registry.gauge("nexus_sound", "Can.", collect=lambda: [((), 5)])
    found = samples(registry)
    assert found["nexus_sound", ()] == 5
    assert ("nexus_broken", ()) not in found
    assert "nexus_broken" in caplog.text


def test_the_process_reports_its_own_cpu_memory_and_descriptors() -> None:
    found = samples(Registry())
    assert found["process_resident_memory_bytes", ()] > 0
    assert found["process_cpu_seconds_total", ()] > 0
    assert found["process_open_fds", ()] > 0
