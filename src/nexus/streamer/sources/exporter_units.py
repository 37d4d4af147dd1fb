"""In which unit an exporter's metric is: by its help text, its exporter's version, or its name.

The unit is stamped on the reading here, where the page can still be asked; nothing later guesses.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Final

from nexus.streamer.sources.exporter_text import Exposition, Family
from nexus.telemetry.catalogue import HOST_METRICS, SOURCE_NAMES, usual_unit
from nexus.telemetry.units import PERCENT, RATIO, UNITS, unit_in_help

Version = tuple[int, ...]

# DCGM 4.6 had this name for the percentage, 4.7 for the ratio; its exporters are 4.8 and 4.9.
_PERCENT_UNTIL: Final = {"DCGM_FI_DEV_GPU_UTIL_RATIO": (4, 7)}
_EXPORTER_OF_DCGM_4_7: Final = (4, 9)
# Exporters have shipped help texts with the wrong unit for these (a percentage for a ratio, and
# microseconds for nanoseconds), so their names are what counts.
_HELP_IS_WRONG: Final = re.compile(r"DCGM_FI_PROF_.*|DCGM_FI_DEV_.*_VIOLATION", re.IGNORECASE)
_VERSION: Final = re.compile(r"v?(\d+)\.(\d+)(?:\.\d+)?(?:-(\d+)\.(\d+))?")


def is_gpu_metric(name: str) -> bool:
    """Whether a name is DCGM's: all of today's, and of the old lower-case ones those known.

    The rest of the lower-case ones are an exporter's about itself.
    """
    return name.startswith("DCGM_") or (name.startswith("dcgm_") and name in SOURCE_NAMES)


def is_host_metric(name: str) -> bool:
    """Whether a metric is of the host around the GPUs, so that its labels need not name one."""
    known = SOURCE_NAMES.get(name)
    return known is not None and known[0].name in HOST_METRICS


@lru_cache(maxsize=4096)
def unit_of(name: str, family: Family | None, version: Version | None) -> str:
    """The unit of a metric on a page with this help text and version ("" if nothing tells)."""
    usual = usual_unit(name)
    if family is not None and not _HELP_IS_WRONG.fullmatch(name):
        said = unit_in_help(family.unit) or unit_in_help(family.help)
        if said and _same_quantity(said, usual):
            return said
    if name in _PERCENT_UNTIL and version is not None:
        return PERCENT if version < _PERCENT_UNTIL[name] else RATIO
    return usual


def exporter_version(page: Exposition) -> Version | None:
    """DCGM's version as the page's build information tells it, if it has any.

    A dcgm-exporter's version is `<DCGM>-<exporter>`; where only one is given it is the
    exporter's, and DCGM's is the one it was built for.
    """
    for at, name in enumerate(page.names.dictionary.to_pylist()):
        if name.lower().startswith("dcgm") and name.endswith("build_info"):
            row = page.names.indices.index(at).as_py()
            labels = dict(page.label_sets[page.labels.indices[row].as_py()]) if row >= 0 else {}
            return _dcgm_version(labels.get("version", ""))
    return None


def _dcgm_version(text: str) -> Version | None:
    match = _VERSION.match(text)
    if match is None:
        return None
    first = (int(match[1]), int(match[2]))
    if match[3] is not None:
        return first
    return (4, 7) if first >= _EXPORTER_OF_DCGM_4_7 else (4, 6)


def _same_quantity(said: str, usual: str) -> bool:
    return not usual or UNITS[said].canonical == UNITS[usual].canonical
