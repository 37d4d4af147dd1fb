"""Every route of the proxy, in the order of its description."""

from typing import Final

from nexus.proxy.route import Route
from nexus.proxy.routes import consuming, operating, produce

ROUTES: Final[tuple[Route, ...]] = (*produce.ROUTES, *consuming.ROUTES, *operating.ROUTES)
