"""The parameters of each endpoint."""

from __future__ import annotations

from typing import Annotated, ClassVar, Literal

from pydantic import BaseModel, ConfigDict, Field

from nexus.gateway.queries.kinds import Groups, Interval, Texts, Time, Values
from nexus.gateway.steps import AUTO
from nexus.gateway.views import Units

Order = Literal["asc", "desc"]
Layout = Literal["rows", "columns"]
StateName = Literal["active", "idle-held", "free", "unknown"]
Resolution = Literal[
    "auto", "raw", "1s", "2s", "5s", "10s", "15s", "20s", "30s", "1m", "2m", "3m", "5m", "10m",
    "15m", "20m", "30m", "1h", "2h", "3h", "4h", "6h", "8h", "12h", "1d",
]  # fmt: skip

_TIMES = (
    "RFC 3339, seconds since 1970 (milliseconds from 100,000,000,000 on), `now` or `now-15m`."
    " Inclusive."
)
_SEVERAL = r"Several with commas (`\,` is one inside of a value) or by repeating the parameter."


class Asked(BaseModel):
    """Parameters; one that is not known is refused."""

    model_config = ConfigDict(extra="forbid", frozen=True, populate_by_name=True)
    # What does not change which rows there are, or where they stand.
    not_of_the_question: ClassVar[frozenset[str]] = frozenset(
        {"cursor", "limit", "units", "layout"}
    )

    def question(self) -> dict[str, object]:
        """What a cursor must agree with."""
        return self.model_dump(exclude=set(self.not_of_the_question))


class Paged(Asked):
    """A list that comes in pages."""

    limit: Annotated[
        int, Field(ge=1, le=10_000, description="Rows of a page at most.", examples=[100])
    ] = 1000
    cursor: Annotated[
        str, Field(description="`next_cursor` of the page before, with all else as it was.")
    ] = ""


class Where(Asked):
    """Which GPUs and series: every filter that is given must fit, by exact value."""

    uuid: Annotated[
        Values,
        Field(
            description=f"GPUs by uuid, or a unique prefix of at least 8 characters. {_SEVERAL}",
            examples=[["GPU-5fd4f087-86f3-7a43-b711-4771313afc50"]],
        ),
    ] = []
    hostname: Annotated[
        Values, Field(description=f"Hosts. {_SEVERAL}", examples=[["dgx-001"]])
    ] = []
    host: Annotated[Values, Field(description="The same as `hostname`.")] = []
    cluster: Annotated[Values, Field(description=f"Clusters. {_SEVERAL}")] = []
    model: Annotated[
        Values, Field(description=f"GPU models. {_SEVERAL}", examples=[["NVIDIA H200"]])
    ] = []
    namespace: Annotated[Values, Field(description=f"Kubernetes namespaces. {_SEVERAL}")] = []
    pod: Annotated[Values, Field(description=f"Pods. {_SEVERAL}")] = []
    gpu: Annotated[
        Values, Field(description=f"Indexes on their host. {_SEVERAL}", examples=[["0"]])
    ] = []


class Measured(Asked):
    """Which metrics, and in whose units."""

    metric: Annotated[
        Values,
        Field(
            description=f"Metrics by canonical or DCGM name; all if none is named. {_SEVERAL}",
            examples=[["gpu_util", "DCGM_FI_DEV_POWER_USAGE"]],
        ),
    ] = []
    units: Annotated[
        Units,
        Field(
            description="`canonical` (ratio, W, J, B, Hz, C) or `dcgm`: raw readings with the"
            " source's name, value and unit; rolled-up values converted."
        ),
    ] = "canonical"


class Timed(Asked):
    """A span of time."""

    start_time: Annotated[
        Time, Field(description=f"From when. {_TIMES}", examples=["2025-07-18T20:00:00Z"])
    ] = "now-1h"
    end_time: Annotated[
        Time, Field(description=f"Until when. {_TIMES}", examples=["2025-07-18T21:00:00Z"])
    ] = "now"


class Stepped(Asked):
    """How fine, in which order, in which layout."""

    order: Annotated[Order, Field(description="By time.")] = "asc"
    resolution: Annotated[
        Resolution,
        Field(
            description="`raw` readings, or steps of time; `auto` takes the finest that gives a"
            " series no more than `max_points` (raw counts as one a second)."
        ),
    ] = AUTO
    max_points: Annotated[
        int, Field(ge=1, le=10_000, description="What `auto` may give a series.", examples=[800])
    ] = 1000
    layout: Annotated[
        Layout,
        Field(
            description="`columns` is for charts: one object a series, at most 50,000 points, no"
            " cursor, JSON only."
        ),
    ] = "rows"


class GpusQuery(Paged, Where):
    """GPUs."""

    state: Annotated[
        list[StateName], Field(description="States; again for more.", examples=[["idle-held"]])
    ] = []


class GpuTelemetryQuery(Paged, Stepped, Measured, Timed):
    """One GPU's readings."""


class TelemetryQuery(Paged, Stepped, Measured, Timed, Where):
    """Readings of the fleet."""

    state: Annotated[
        list[StateName],
        Field(
            description="GPUs that are in this state now, with all their readings; again for more."
        ),
    ] = []
    by: Annotated[
        Groups,
        Field(
            description="Lines of groups instead of series, with `layout=columns`: cluster,"
            " hostname, uuid, gpu, model, namespace, pod, metric (one line for all GPUs). Metrics"
            f" are never put together. {_SEVERAL}",
            examples=[["hostname"]],
        ),
    ] = []
    top: Annotated[
        int | None,
        Field(
            ge=1,
            le=1000,
            description="With `by`: of each metric only so many groups, those with the greatest"
            " sums.",
            examples=[12],
        ),
    ] = None


class LatestQuery(Paged, Measured, Where):
    """The last reading of each series."""

    since: Annotated[
        Time,
        Field(
            description="Leave out series that ended before: a GPU has one for every pod that ever"
            f" held it. {_TIMES}",
            examples=["now-1h"],
        ),
    ] = "0"
    layout: Annotated[
        Layout,
        Field(
            description="`columns`: one list a column, at most 50,000 series, no cursor, JSON only."
        ),
    ] = "rows"


class SummaryQuery(Paged, Measured, Timed, Where):
    """What readings amount to."""

    by: Annotated[
        Groups,
        Field(
            description="Groups: cluster, hostname, uuid, gpu, model, namespace, pod, metric."
            f" Metrics are never put together. {_SEVERAL}",
            examples=[["namespace", "metric"]],
        ),
    ] = ["metric"]


class PageQuery(Paged):
    """A list without filters."""


class NothingAsked(Asked):
    """An endpoint without parameters."""


class QuarantineQuery(Timed):
    """What was refused."""

    start_time: Annotated[Time, Field(description=f"From when. {_TIMES}")] = "now-24h"
    reason: Annotated[Texts, Field(description="Exact reasons; again for more.")] = []
    order: Annotated[Order, Field(description="By time of refusal.")] = "asc"
    limit: Annotated[
        int, Field(ge=1, le=1000, description="Rows of a page at most.", examples=[20])
    ] = 100
    cursor: Annotated[
        str, Field(description="`next_cursor` of the page before, with all else as it was.")
    ] = ""


class LiveQuery(Where):
    """Which readings to send as they come."""

    metric: Annotated[
        Values, Field(description=f"Metrics by canonical or DCGM name. {_SEVERAL}")
    ] = []
    interval: Annotated[
        Interval,
        Field(description="The newest of each series, so often; 0s for all.", examples=["1s"]),
    ] = "0s"
