"""The documents of the API."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from nexus.gateway.schemas import examples

State = Literal["active", "idle-held", "free", "unknown"]
Moment = Annotated[
    str,
    Field(
        description="RFC 3339 in UTC; microseconds only when they are not zero.",
        json_schema_extra={"format": "date-time"},
        examples=["2025-07-18T20:42:34Z"],
    ),
]
Milliseconds = Annotated[int, Field(description="Milliseconds since 1970.")]
Cursor = Annotated[
    str | None, Field(description="Hand it back as `cursor` for the next page; null at the end.")
]
Count = Annotated[int, Field(description="Rows of this page.")]


class Document(BaseModel):
    """No other fields than these."""

    model_config = ConfigDict(extra="forbid")


class Fault(Document):
    """What was wrong with one parameter."""

    parameter: str
    message: str


class Problem(Document):
    """A problem document (RFC 9457)."""

    model_config = ConfigDict(extra="forbid", json_schema_extra={"examples": [examples.PROBLEM]})
    type: Annotated[str, Field(description="A name for this kind of problem.")]
    title: str
    status: int
    detail: str
    instance: Annotated[str, Field(description="The path that was asked for.")]
    errors: list[Fault]


class Gpu(Document):
    """A GPU or MIG instance as last known. `busy` is null where nothing tells."""

    model_config = ConfigDict(extra="forbid", json_schema_extra={"examples": [examples.GPU]})
    uuid: str
    gpu: Annotated[str, Field(description="The index on its host.")]
    device: str
    model: str
    hostname: str
    cluster: str
    namespace: str
    pod: str
    container: str
    mig: str
    state: State
    last_seen: Moment
    first_seen: Moment
    busy: float | None


class Reading(Document):
    """One reading. A `value` of null means "not collected"."""

    model_config = ConfigDict(extra="forbid", json_schema_extra={"examples": [examples.READING]})
    timestamp: Moment
    metric: str
    value: float | None
    unit: str
    uuid: str
    gpu: str
    hostname: str
    namespace: str
    pod: str
    container: str
    mig: str
    instance: Annotated[str, Field(description="What tells series of one metric apart: `link=3`.")]
    cluster: str
    device: str
    model: str


class Rollup(Reading):
    """The readings of one step of time; `timestamp` is its start and `value` its mean."""

    model_config = ConfigDict(extra="forbid", json_schema_extra={"examples": [examples.ROLLUP]})
    min: float | None
    max: float | None
    mean: float | None
    last: float | None
    count: Annotated[int, Field(description="Values that were collected.")]
    missing: Annotated[int, Field(description='Readings that said "not collected".')]


class GpuDetail(Gpu):
    """A GPU with its other labels, its MIG instances and the last reading of each series."""

    labels: dict[str, Any]
    migs: list[Gpu]
    latest: list[Reading]


class GpuList(Document):
    """GPUs by uuid."""

    data: list[Gpu]
    count: Count
    next_cursor: Cursor


class ReadingList(Document):
    """Readings."""

    data: list[Reading]
    count: Count
    next_cursor: Cursor


class RawReadings(ReadingList):
    """Readings as they came."""

    resolution: Literal["raw"]


class RolledUp(Document):
    """Readings by steps of time."""

    data: list[Rollup]
    count: Count
    next_cursor: Cursor
    resolution: Annotated[str, Field(examples=["1m"])]


class Series(Document):
    """One series for a chart; `min` and `max` are there when it is rolled up."""

    metric: str
    unit: str
    uuid: str
    gpu: str
    hostname: str
    mig: str
    instance: str
    namespace: str
    pod: str
    container: str
    time: list[Milliseconds]
    value: list[float | None]
    min: list[float | None] = []
    max: list[float | None] = []


class SeriesList(Document):
    """`layout=columns`: readings by series."""

    resolution: Annotated[str, Field(examples=["1m"])]
    series: list[Series]
    truncated: Annotated[bool, Field(description="Whether there were more than 50,000 points.")]


class GpuGroup(Document):
    """A group of GPUs over time; only the columns that it was made by are there.

    In each step a GPU, MIG instance or link is one member, with the mean of its readings.
    """

    cluster: str = ""
    hostname: str = ""
    uuid: str = ""
    gpu: str = ""
    model: str = ""
    namespace: str = ""
    pod: str = ""
    metric: str
    unit: str
    time: list[Milliseconds]
    value: Annotated[list[float | None], Field(description="The mean of the members.")]
    sum: Annotated[list[float | None], Field(description="The sum of the members.")]
    min: list[float | None]
    max: list[float | None]
    members: list[int]


class GroupList(Document):
    """`by`: readings by groups of GPUs."""

    resolution: Annotated[str, Field(examples=["1m"])]
    groups: list[GpuGroup]
    truncated: Annotated[bool, Field(description="Whether there were more than 50,000 points.")]


class LatestColumns(Document):
    """One list a column, all of the same length."""

    uuid: list[str]
    mig: list[str]
    gpu: list[str]
    hostname: list[str]
    cluster: list[str]
    metric: list[str]
    instance: list[str]
    value: list[float | None]
    unit: list[str]
    timestamp: list[Milliseconds]
    namespace: list[str]
    pod: list[str]
    container: list[str]


class LatestInColumns(Document):
    """`layout=columns`: the last reading of each series."""

    data: LatestColumns
    count: int
    truncated: Annotated[bool, Field(description="Whether there were more than 50,000 series.")]


class Summary(Document):
    """What the readings of a metric amount to; only the groups that were asked for are there.

    Percentiles are nearest ranks. Where `exact` is false, the true one lies within the error.
    """

    cluster: str = ""
    hostname: str = ""
    uuid: str = ""
    gpu: str = ""
    model: str = ""
    namespace: str = ""
    pod: str = ""
    metric: str
    unit: str
    count: int
    missing: int
    min: float | None
    max: float | None
    mean: float | None
    p50: float | None
    p95: float | None
    p99: float | None
    p50_error: float | None
    p95_error: float | None
    p99_error: float | None
    exact: bool


class SummaryList(Document):
    """Summaries in the order of their groups."""

    data: list[Summary]
    count: Count
    next_cursor: Cursor


class Totals(Document):
    """How many GPUs there are and what they do. Sums are of GPUs whose state is known."""

    hosts: int
    gpus: int
    active: int
    idle_held: int
    free: int
    unknown: int
    power_w: float | None
    busy_mean: float | None
    memory_used: float | None
    memory_total: float | None
    temperature_max: float | None
    last_seen: Moment | None


class Cluster(Totals):
    """A cluster."""

    model_config = ConfigDict(extra="forbid", json_schema_extra={"examples": [examples.CLUSTER]})
    cluster: str


class Host(Cluster):
    """A host of a cluster."""

    hostname: str


class ByModel(Totals):
    """The GPUs of one model."""

    model: str


class ByNamespace(Totals):
    """The GPUs that one namespace holds; the empty name is of those that nobody holds."""

    namespace: str


class ClusterStats(Cluster):
    """A cluster, and the same by model and by namespace."""

    by_model: list[ByModel]
    by_namespace: list[ByNamespace]


class ClusterList(Document):
    """Clusters by name."""

    data: list[Cluster]
    count: Count
    next_cursor: Cursor


class HostList(Document):
    """Hosts by name."""

    data: list[Host]
    count: Count
    next_cursor: Cursor


class SourceName(Document):
    """A name that a source gives a metric, and the unit that it means."""

    name: str
    unit: str


class Metric(Document):
    """A metric of the catalogue; one that only a source knows is of kind `unknown`."""

    model_config = ConfigDict(extra="forbid", json_schema_extra={"examples": [examples.METRIC]})
    name: str
    unit: str
    kind: Literal["gauge", "counter", "unknown"]
    description: str
    sources: list[SourceName]
    collected: Annotated[bool, Field(description="Whether the tables have readings of it.")]


class MetricList(Document):
    """Metrics by name."""

    data: list[Metric]
    count: Count
    next_cursor: Cursor


class CollectedMetric(Document):
    """A metric that has readings."""

    metric: str
    unit: str
    series: int
    newest: Moment


class CollectedMetricList(Document):
    """Metrics by name."""

    data: list[CollectedMetric]
    count: Count
    next_cursor: Cursor


class Refused(Document):
    """A message or reading that was refused; `raw` is its beginning, at most 4096 bytes."""

    refused: Moment
    reason: str
    stage: str
    topic: str
    partition: int
    offset: int
    row: int
    content_type: str
    source: str
    raw: Annotated[str | None, Field(description="When it is UTF-8.")]
    raw_base64: Annotated[str | None, Field(description="When it is not.")]
    raw_size: Annotated[int, Field(description="Of the whole.")]


class RefusedList(Document):
    """Refusals by time."""

    data: list[Refused]
    count: Count
    next_cursor: Cursor


class Open(BaseModel):
    """Other fields may be there too."""

    model_config = ConfigDict(extra="allow")


class Collector(Open):
    """What the collector's side port says; `detail` tells why it does not answer."""

    reachable: bool
    url: str


class Sample(Open):
    """How the pipeline was doing at a time."""

    time: Milliseconds


class Rates(Document):
    """The newest sample's numbers; null while there are none."""

    readings_per_s: float | None
    batch_ms: float | None
    lag: float | None


class TableInfo(Document):
    """A table of the store."""

    name: str
    version: int
    rows: int
    files: int
    bytes: int
    oldest: Moment | None
    newest: Moment | None
    last_commit: Moment | None


class Pipeline(Document):
    """The collector, the tables, and how fast it goes."""

    collector: Collector
    tables: list[TableInfo]
    rates: Rates
    history: list[Sample]


class Partition(Open):
    """A partition; `messages` is how many it holds."""

    partition: int


class Topic(Open):
    """A topic."""

    topic: str
    partitions: list[Partition]


class Group(Open):
    """A consumer group and how far behind it is."""

    group: str


class Queue(Open):
    """The queue as it says of itself."""

    reachable: bool
    topics: list[Topic]
    groups: list[Group]


class Health(Document):
    """The process is alive."""

    status: Literal["ok"]
    version: str
    uptime_s: float
    memory: dict[str, Any]


class Ready(Document):
    """The store answers; each table that exists with its version."""

    status: Literal["ready"]
    tables: dict[str, int]
