"""From a CSV's header to its form: which column says what.

Long: a row is one reading (a time, a metric's name, its value). Wide: a row is one GPU at one time,
with a column for each metric. Both need an identity: a uuid, or a host and the GPU's index on it.
Columns that are nothing of this are kept as labels. The same header and first rows always give
the same form, so a restart in mid-file reads on as it began.
"""

import csv
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from nexus.telemetry.errors import TelemetryError

KNOWN_FORMS: Final = (
    "long (timestamp, metric_name, value and an identity) and "
    "wide (timestamp, an identity and a column for each metric), "
    "where an identity is uuid, or Hostname and gpu_id"
)

# How files name each column, in lower case and without punctuation.
_SPELLINGS: Final[Mapping[str, tuple[str, ...]]] = {
    "timestamp": ("timestamp", "time", "ts", "datetime", "date", "epoch", "unixtime"),
    "source_metric": ("metricname", "metric", "sourcemetric"),
    "source_value": ("value", "metricvalue", "sourcevalue"),
    "unit": ("unit", "units"),
    "uuid": ("uuid", "gpuuuid"),
    "gpu": ("gpuid", "gpu", "gpuindex", "index"),
    "device": ("device",),
    "model": ("modelname", "model", "gpuname", "gpumodel", "name"),
    "hostname": ("hostname", "host", "node", "nodename"),
    "cluster": ("cluster", "clusterid"),
    "mig": ("gpuiid", "mig", "migid"),
    "namespace": ("namespace",),
    "pod": ("pod", "podname"),
    "container": ("container", "containername"),
    "labels": ("labelsraw", "labels"),
}
_ROLE_OF: Final = {name: role for role, names in _SPELLINGS.items() for name in names}
_TEXTUAL: Final = re.compile(r"(_id|[._ ]?(version|serial|name|uuid|bus|profile))$", re.IGNORECASE)
_WITH_UNIT: Final = re.compile(r"^(?P<name>.*?\S)\s*(?:\[(?P<a>[^\]]*)\]|\((?P<b>[^)]*)\))$")
_NUMBER: Final = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?")

# What monitoring tools write where there is no value.
BLANKS: Final = ("", "N/A", "[N/A]", "[Not Supported]", "NULL", "null", "None", "nan", "NaN", "-")


class UnknownCsvForm(TelemetryError):
    """Raised when a file is no CSV of telemetry in any form that is known."""

    exit_code = 2

    def __init__(self, name: str, columns: Sequence[str], lacks: str) -> None:
        super().__init__(
            f"{name} is not a CSV of GPU readings ({lacks}); its columns are: "
            f"{_listed(columns)}. Known forms: {KNOWN_FORMS}"
        )


@dataclass(frozen=True, slots=True)
class MetricColumn:
    """A column of the wide form: the metric's name, and its unit if the header says one."""

    index: int
    name: str
    unit: str


@dataclass(frozen=True, slots=True)
class Form:
    """Which column is what; columns are known by their index, since names may repeat."""

    names: tuple[str, ...]
    roles: Mapping[str, int]  # a column of a reading -> the CSV's column
    metrics: tuple[MetricColumn, ...] = ()  # the wide form's
    extras: tuple[int, ...] = field(default=())  # kept as labels
    spaced: bool = False  # blanks after the commas: cells are trimmed

    @property
    def wide(self) -> bool:
        return bool(self.metrics)

    def numbers(self) -> tuple[int, ...]:
        """The columns that hold numbers."""
        if self.wide:
            return tuple(metric.index for metric in self.metrics)
        return (self.roles["source_value"],)


def header_cells(row: bytes) -> list[str]:
    """The names in a header row."""
    try:
        text = row.decode("utf-8-sig")
    except UnicodeDecodeError:
        text = row.decode("latin-1")
    try:
        return next(csv.reader([text.rstrip("\r\n")]), [])
    except csv.Error:  # a name longer than any can be
        return [text[:100]]


def detect_form(name: str, header: bytes, sample: Sequence[Sequence[str]]) -> Form:
    """The form of a file, from its header and (for the wide form) some of its first rows."""
    cells = header_cells(header)
    names = tuple(cell.strip() for cell in cells)
    roles = _roles(names)
    lacks = _lacking(roles)
    if lacks:
        raise UnknownCsvForm(name, names, lacks)
    spaced = any(cell != cell.strip() for cell in cells)
    rest = tuple(i for i in range(len(names)) if i not in roles.values())
    if "source_metric" in roles:
        return Form(names, roles, extras=rest, spaced=spaced)
    metrics = tuple(_metric(i, names[i]) for i in rest if _is_metric(names[i], i, sample))
    if not metrics:
        raise UnknownCsvForm(name, names, "there is no metric in it")
    of_metrics = {metric.index for metric in metrics}
    extras = tuple(i for i in rest if i not in of_metrics)
    return Form(names, roles, metrics, extras, spaced)


def _roles(names: Sequence[str]) -> dict[str, int]:
    """Each role goes to the best spelling of it that the header has."""
    found: dict[str, int] = {}
    plain = [re.sub(r"[^a-z0-9]", "", name.lower()) for name in names]
    for role, spellings in _SPELLINGS.items():
        index = next((plain.index(s) for s in spellings if s in plain), None)
        if index is not None:
            found[role] = index
    if "source_value" in found and "source_metric" not in found and "name" in plain:
        found["source_metric"] = plain.index("name")  # a metric's, then, and not a model's
    return {role: index for role, index in found.items() if index not in _taken(found, role)}


def _taken(found: Mapping[str, int], role: str) -> set[int]:
    """The columns that a stronger role has: the metric's name comes before the model's."""
    return {found["source_metric"]} if role == "model" and "source_metric" in found else set()


def _lacking(roles: Mapping[str, int]) -> str:
    if "timestamp" not in roles:
        return "there is no time in it"
    if ("source_metric" in roles) != ("source_value" in roles):
        return "a metric's name and its value belong together"
    # A label set may hold the identity; its rows tell.
    if "uuid" in roles or "labels" in roles or {"hostname", "gpu"} <= roles.keys():
        return ""
    return "nothing in it says which GPU a row is about"


def _metric(index: int, name: str) -> MetricColumn:
    match = _WITH_UNIT.match(name)
    if match is None:
        return MetricColumn(index, name, "")
    return MetricColumn(index, match["name"], (match["a"] or match["b"] or "").strip())


def _is_metric(name: str, index: int, sample: Sequence[Sequence[str]]) -> bool:
    if not name or _TEXTUAL.search(name):
        return False
    unit = _metric(index, name).unit
    cells = [row[index].strip() for row in sample if index < len(row)]
    said = [cell.removesuffix(unit).rstrip() for cell in cells if cell not in BLANKS]
    numbers = sum(_NUMBER.fullmatch(cell) is not None for cell in said)
    return 2 * numbers >= len(said)  # a bad cell or two do not make it a column of text


def _listed(columns: Sequence[str], most: int = 40) -> str:
    shown = [name[:60] if name.isprintable() else ascii(name[:60]) for name in columns[:most]]
    more = f" and {len(columns) - most} more" if len(columns) > most else ""
    return (", ".join(shown) or "none") + more
