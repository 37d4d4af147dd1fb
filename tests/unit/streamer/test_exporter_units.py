"""The unit of a scraped metric is decided where the page can still be asked."""

from __future__ import annotations

import pytest

from nexus.streamer.sources.exporter_text import Family, parse
from nexus.streamer.sources.exporter_units import exporter_version, is_gpu_metric, unit_of

AMBIGUOUS = "DCGM_FI_DEV_GPU_UTIL_RATIO"


@pytest.mark.parametrize(
    ("help_text", "unit"),
    [
        ("GPU utilization (in %).", "percent"),
        ("GPU utilization ratio (0.0-1.0).", "ratio"),
        ("GPU utilization as a fraction.", "ratio"),
    ],
)
def test_the_help_text_decides_what_a_ratio_is(help_text: str, unit: str) -> None:
    assert unit_of(AMBIGUOUS, Family("gauge", help_text), (4, 9)) == unit


@pytest.mark.parametrize(
    ("version", "unit"),
    [
        ("4.6.0-4.8.3", "percent"),
        ("4.7.0-4.9.0", "ratio"),
        ("4.8.3", "percent"),
        ("v4.9.1", "ratio"),
        ("unknown", "ratio"),
    ],
)
def test_without_help_the_exporters_version_decides(version: str, unit: str) -> None:
    body = f'dcgm_exporter_build_info{{version="{version}"}} 1\n{AMBIGUOUS}{{gpu="0"}} 1\n'
    page = parse(body.encode())
    assert unit_of(AMBIGUOUS, page.family(AMBIGUOUS), exporter_version(page)) == unit


def test_with_neither_a_name_has_its_usual_unit() -> None:
    assert unit_of(AMBIGUOUS, None, None) == "ratio"
    assert unit_of("DCGM_FI_DEV_SM_CLOCK", Family(), None) == "MHz"
    assert unit_of("DCGM_FI_DEV_FB_USED_BYTES", Family(), None) == "B"


@pytest.mark.parametrize(
    ("name", "help_text", "unit"),
    [
        ("DCGM_FI_PROF_SM_ACTIVE", "The ratio of cycles an SM is busy (in %).", "ratio"),
        ("DCGM_FI_DEV_POWER_VIOLATION", "Throttling duration (in us).", "ns"),
    ],
)
def test_help_texts_that_exporters_shipped_wrong_are_not_believed(
    name: str, help_text: str, unit: str
) -> None:
    assert unit_of(name, Family("gauge", help_text), None) == unit


def test_help_that_measures_something_else_is_not_believed() -> None:
    assert (
        unit_of("DCGM_FI_DEV_SM_CLOCK", Family("gauge", "Clock, not power (in W)."), None) == "MHz"
    )


def test_an_unknown_metric_has_the_unit_that_its_help_says() -> None:
    assert unit_of("DCGM_FI_DEV_NEW_THING", Family("gauge", "A new thing (in ms)."), None) == "ms"
    assert unit_of("DCGM_FI_DEV_NEW_THING", Family("gauge", "A new thing."), None) == ""


@pytest.mark.parametrize(
    ("name", "is_one"),
    [
        ("DCGM_FI_DEV_GPU_UTIL", True),
        ("DCGM_EXP_XID_ERRORS_COUNT", True),
        ("dcgm_sm_clock", True),
        ("dcgm_exporter_build_info", False),
        ("go_goroutines", False),
        ("up", False),
    ],
)
def test_gpu_metrics_are_told_by_their_names(name: str, is_one: bool) -> None:
    assert is_gpu_metric(name) is is_one
