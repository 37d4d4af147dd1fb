"""The application: every endpoint, in one place to read."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import cache

import orjson
from fastapi import Depends, FastAPI, Request, Response

from nexus import __version__
from nexus.gateway import problems
from nexus.gateway.assets import asset
from nexus.gateway.dashboard import Dashboard
from nexus.gateway.description import describe
from nexus.gateway.gateway import Gateway
from nexus.gateway.middleware import Around
from nexus.gateway.routes import clusters, gpus, health, live, pipeline, telemetry


def api() -> FastAPI:
    """The endpoints without anything behind them: enough to describe them."""
    app = FastAPI(
        title="Nexus",
        version=__version__,
        openapi_url=None,
        docs_url=None,
        redoc_url=None,
        redirect_slashes=False,
        generate_unique_id_function=lambda route: route.name,
    )
    checks = [Depends(problems.refuse_repeated)]
    for part in (gpus, telemetry, clusters, pipeline, live, health):
        app.include_router(part.router, dependencies=checks)
    problems.install(app)
    return app


def create_app(gateway: Gateway, dashboard: Dashboard | None = None) -> FastAPI:
    """The application over a gateway, which starts and stops with it."""
    app = api()
    app.state.gateway = gateway
    app.router.lifespan_context = _life
    # Made when it is first asked for: a gateway starts sooner.
    description = cache(lambda: asset(orjson.dumps(describe(app)), "application/json"))
    pages = dashboard or Dashboard()

    @app.get("/openapi.json", include_in_schema=False)
    async def openapi(request: Request) -> Response:
        return description().response(request)

    @app.get("/{path:path}", include_in_schema=False)
    async def page(request: Request, path: str) -> Response:
        return pages.response(request, path)

    app.add_middleware(Around, metrics=gateway.metrics)
    return app


@asynccontextmanager
async def _life(app: FastAPI) -> AsyncIterator[None]:
    gateway: Gateway = app.state.gateway
    await gateway.start()
    try:
        yield
    finally:
        await gateway.stop()
