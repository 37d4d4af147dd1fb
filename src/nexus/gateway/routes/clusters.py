"""/api/v1/clusters: clusters, their hosts and what these have."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Path, Query, Request, Response

from nexus.gateway.answers import fleet
from nexus.gateway.caching import Lasting
from nexus.gateway.queries.models import NothingAsked, PageQuery
from nexus.gateway.rendering.forms import JSON_ONLY
from nexus.gateway.routes import PREFIX
from nexus.gateway.routes.documented import listing, single
from nexus.gateway.routes.serving import served
from nexus.gateway.schemas import models

router = APIRouter(prefix=PREFIX, tags=["Clusters"])

Cluster = Annotated[str, Path(description="A cluster's name.", examples=["local-cluster"])]
Host = Annotated[str, Path(description="A host's name.", examples=["dgx-001"])]
Id = Annotated[
    str,
    Path(description="The index on the host, a uuid or a unique prefix of it.", examples=["0"]),
]
Nothing = Annotated[NothingAsked, Query()]
Pages = Annotated[PageQuery, Query()]


@router.get("/clusters", response_model=models.ClusterList, responses=listing())
async def list_clusters(request: Request, query: Pages) -> Response:
    """Every cluster with what its GPUs do."""
    return await served(request, lambda ask: fleet.clusters(ask, query), Lasting.STATES)


@router.get("/clusters/{cluster}", response_model=models.Cluster, responses=single(404))
async def one_cluster(request: Request, cluster: Cluster, query: Nothing) -> Response:
    """One cluster."""
    return await served(request, lambda ask: fleet.cluster(ask, cluster), Lasting.STATES, JSON_ONLY)


@router.get("/clusters/{cluster}/stats", response_model=models.ClusterStats, responses=single(404))
async def cluster_stats(request: Request, cluster: Cluster, query: Nothing) -> Response:
    """One cluster, by model and by namespace too."""
    return await served(
        request, lambda ask: fleet.cluster_stats(ask, cluster), Lasting.STATES, JSON_ONLY
    )


@router.get(
    "/clusters/{cluster}/metrics",
    response_model=models.CollectedMetricList,
    responses=listing(404),
)
async def cluster_metrics(request: Request, cluster: Cluster, query: Pages) -> Response:
    """The metrics that have readings in a cluster."""
    return await served(
        request, lambda ask: fleet.cluster_metrics(ask, cluster, query), Lasting.VERSIONS
    )


@router.get("/clusters/{cluster}/hosts", response_model=models.HostList, responses=listing(404))
async def list_hosts(request: Request, cluster: Cluster, query: Pages) -> Response:
    """The hosts of a cluster."""
    return await served(request, lambda ask: fleet.hosts(ask, cluster, query), Lasting.STATES)


@router.get("/clusters/{cluster}/hosts/{host}", response_model=models.Host, responses=single(404))
async def one_host(request: Request, cluster: Cluster, host: Host, query: Nothing) -> Response:
    """One host."""
    return await served(
        request, lambda ask: fleet.host(ask, cluster, host), Lasting.STATES, JSON_ONLY
    )


@router.get(
    "/clusters/{cluster}/hosts/{host}/gpus", response_model=models.GpuList, responses=listing(404)
)
async def host_gpus(request: Request, cluster: Cluster, host: Host, query: Pages) -> Response:
    """The GPUs of a host."""
    return await served(
        request, lambda ask: fleet.host_gpus(ask, cluster, host, query), Lasting.STATES
    )


@router.get(
    "/clusters/{cluster}/hosts/{host}/gpus/{id:path}",
    response_model=models.GpuDetail,
    responses=single(404, 409),
)
async def host_gpu(
    request: Request,
    cluster: Cluster,
    host: Host,
    id: Id,  # noqa: A002 - the path's own word
    query: Nothing,
) -> Response:
    """A host's GPU. Of several that had an index in turn, the one seen last."""
    return await served(
        request, lambda ask: fleet.host_gpu(ask, cluster, host, id), Lasting.STATES, JSON_ONLY
    )
