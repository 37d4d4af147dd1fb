"""Units: exact factors, and a source value that never has to find its way back."""

from fractions import Fraction
from math import isfinite

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nexus.telemetry.catalogue import SOURCE_NAMES
from nexus.telemetry.errors import UnitError
from nexus.telemetry.normalise import normalise
from nexus.telemetry.reading import plain
from nexus.telemetry.units import UNITS, to_canonical, to_unit, unit_in_help, unit_named
from support.readings import doubles, readings

units = st.sampled_from(sorted(UNITS))
names = st.sampled_from(sorted(SOURCE_NAMES))


@given(names, doubles)
def test_source_value_and_unit_survive_whatever_they_are_turned_into(
    name: str, value: float
) -> None:
    unit = SOURCE_NAMES[name][1].unit
    row = plain(normalise(readings({"source_metric": name, "unit": unit, "source_value": value})))
    assert row["source_value"].to_pylist()[0].hex() == value.hex()
    assert row["unit"].to_pylist() == [unit]
    assert row["source_metric"].to_pylist() == [name]


@given(units, doubles)
def test_a_conversion_is_the_nearest_double_there_is(unit: str, value: float) -> None:
    known = UNITS[unit]
    converted = to_canonical(value, unit)
    if isfinite(converted):
        assert converted == float(Fraction(value) * known.multiply / known.divide)


@given(units, st.integers(-(2**20), 2**20))
def test_whole_numbers_round_trip_exactly_where_the_factor_is_whole(unit: str, value: int) -> None:
    known = UNITS[unit]
    if known.divide == 1:
        assert to_unit(to_canonical(float(value), unit), unit) == value


def test_percentages_do_not_all_round_trip_which_is_why_the_source_value_stays() -> None:
    failing = [n for n in range(101) if n * 0.01 * 100 != n]
    assert {7, 14, 28, 29, 55, 56, 57, 58} <= set(failing)
    assert [n for n in range(101) if to_canonical(n, "percent") * 100 != n] != []
    table = plain(
        normalise(readings(*({"source_value": float(n), "unit": "C"} for n in range(101))))
    )
    assert table["source_value"].to_pylist() == list(range(101))


@pytest.mark.parametrize(
    ("help_text", "unit"),
    [
        ("GPU utilization (in %).", "percent"),
        ("SM clock frequency (in MHz).", "MHz"),
        ("Total energy consumption since boot (in mJ).", "mJ"),
        ("Throttling duration due to power constraints (in ns).", "ns"),
        ("The rate of data received over the PCIe bus in bytes per second.", "B/s"),
        ("Ratio of time the graphics engine is active.", "ratio"),
        ("GPU utilization as a ratio from 0.0 to 1.0", "ratio"),
        ("Fan speed for the device in percent 0-100.", "percent"),
        ("Value of the last XID error encountered.", ""),
        ("Framebuffer memory used (in MiB).", "MiB"),
        ("Temperature of the die [°C]", "C"),
    ],
)
def test_a_help_text_tells_its_unit(help_text: str, unit: str) -> None:
    assert unit_in_help(help_text) == unit


def test_an_unknown_unit_is_an_error_that_names_it() -> None:
    with pytest.raises(UnitError, match="furlongs"):
        to_canonical(1.0, "furlongs")


def test_spellings_lead_to_one_unit_and_case_matters_where_it_must() -> None:
    assert unit_named("Watts").name == unit_named("W").name == "W"
    assert unit_named("mW").divide == 1000
    assert unit_named("mj").name == "mJ"
