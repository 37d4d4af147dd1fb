"""What a simulated exporter reports: each quantity's name, unit and form, before and after the
upgrade that renames metrics and moves to base units."""

from dataclasses import dataclass
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from nexus.streamer.simulator import columns as col

# The exporter's blank for a number with a fraction: "not collected", never a value.
BLANK: Final = 140_737_488_355_328


_POWERS: Final = tuple(pa.scalar(float(10**at), pa.float64()) for at in range(7))


@dataclass(frozen=True, slots=True)
class Form:
    """How an exporter says a quantity: a whole number scaled, then with so many decimals."""

    name: str
    unit: str
    decimals: int = 0
    multiply: int = 1
    divide: int = 1

    def whole(self, column: pa.Array) -> pa.Array:
        """The number without its decimal point."""
        scaled = col.multiply(column, self.multiply) if self.multiply > 1 else column
        return col.divide(scaled, self.divide) if self.divide > 1 else scaled

    def text(self, column: pa.Array) -> pa.Array:
        """The number as the exporter writes it."""
        whole = self.whole(column)
        if not self.decimals:
            return whole.cast(pa.string())
        unit = 10**self.decimals
        before = col.divide(whole, unit)
        after = col.subtract(whole, col.multiply(before, unit))
        # A leading one keeps the zeros of the fraction; it goes with the first character.
        digits = pc.utf8_slice_codeunits(col.add(after, unit).cast(pa.string()), 1)
        return col.join(before.cast(pa.string()), digits, between=".")

    def value(self, column: pa.Array) -> pa.Array:
        """The double nearest to what `text` says."""
        whole = self.whole(column).cast(pa.float64())
        return pc.divide(whole, _POWERS[self.decimals]) if self.decimals else whole


@dataclass(frozen=True, slots=True)
class Quantity:
    """A column of the physics and the two ways to say it."""

    column: str
    old: Form
    new: Form
    profiled: bool = False
    counter: bool = False


def _same(column: str, old: str, new: str, unit: str, *, counter: bool = False) -> Quantity:
    return Quantity(column, Form(old, unit), Form(new, unit), counter=counter)


def _share(column: str, old: str, new: str) -> Quantity:
    forms = Form(f"DCGM_FI_PROF_{old}", "ratio", 4), Form(f"DCGM_FI_PROF_{new}", "ratio", 4)
    return Quantity(column, *forms, profiled=True)


_DEV: Final = "DCGM_FI_DEV_"
_MHZ: Final = 1_000_000
_MIB: Final = 1_048_576

QUANTITIES: Final = (
    Quantity(
        "util",
        Form(f"{_DEV}GPU_UTIL", "percent"),
        Form(f"{_DEV}GPU_UTIL_RATIO", "ratio", 2),
    ),
    Quantity(
        "copy",
        Form(f"{_DEV}MEM_COPY_UTIL", "percent"),
        Form(f"{_DEV}MEMORY_UTIL_RATIO", "ratio", 2),
    ),
    Quantity(
        "power",
        Form(f"{_DEV}POWER_USAGE", "W", 2),
        Form(f"{_DEV}BOARD_POWER_WATTS", "W", 2),
    ),
    Quantity(
        "energy",
        Form(f"{_DEV}TOTAL_ENERGY_CONSUMPTION", "mJ"),
        Form(f"{_DEV}GPU_ENERGY_JOULES_TOTAL", "J", divide=1_000),
        counter=True,
    ),
    _same("temp", f"{_DEV}GPU_TEMP", f"{_DEV}GPU_TEMP_CELSIUS", "C"),
    _same("memory_temp", f"{_DEV}MEMORY_TEMP", f"{_DEV}MEMORY_TEMP_CELSIUS", "C"),
    Quantity(
        "sm_clock",
        Form(f"{_DEV}SM_CLOCK", "MHz"),
        Form(f"{_DEV}SM_CLOCK_HERTZ", "Hz", multiply=_MHZ),
    ),
    Quantity(
        "memory_clock",
        Form(f"{_DEV}MEM_CLOCK", "MHz"),
        Form(f"{_DEV}MEMORY_CLOCK_HERTZ", "Hz", multiply=_MHZ),
    ),
    Quantity(
        "used",
        Form(f"{_DEV}FB_USED", "MiB"),
        Form(f"{_DEV}FB_USED_BYTES", "B", multiply=_MIB),
    ),
    Quantity(
        "free",
        Form(f"{_DEV}FB_FREE", "MiB"),
        Form(f"{_DEV}FB_FREE_BYTES", "B", multiply=_MIB),
    ),
    _same("xid", f"{_DEV}XID_ERRORS", f"{_DEV}XID_ERROR", "count"),
    _same(
        "replays",
        f"{_DEV}PCIE_REPLAY_COUNTER",
        f"{_DEV}PCIE_REPLAY_TOTAL",
        "count",
        counter=True,
    ),
    _same("reasons", f"{_DEV}CLOCKS_EVENT_REASONS", f"{_DEV}CLOCKS_EVENT_REASONS", "count"),
    _same(
        "corrected",
        f"{_DEV}ECC_SBE_VOL_TOTAL",
        f"{_DEV}ECC_SBE_VOL_TOTAL",
        "count",
        counter=True,
    ),
    _same(
        "uncorrected",
        f"{_DEV}ECC_DBE_VOL_TOTAL",
        f"{_DEV}ECC_DBE_VOL_TOTAL",
        "count",
        counter=True,
    ),
    _same(
        "remapped",
        f"{_DEV}UNCORRECTABLE_REMAPPED_ROWS",
        f"{_DEV}ROW_REMAP_UNCORRECTABLE_TOTAL",
        "count",
        counter=True,
    ),
    _share("engine", "GR_ENGINE_ACTIVE", "GR_ENGINE_UTIL_RATIO"),
    _share("sm", "SM_ACTIVE", "SM_UTIL_RATIO"),
    _share("tensor", "PIPE_TENSOR_ACTIVE", "TENSOR_UTIL_RATIO"),
    _share("dram", "DRAM_ACTIVE", "DRAM_UTIL_RATIO"),
)
