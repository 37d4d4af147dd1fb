"""ApiVersions: which requests this broker understands. Versions 0 to 4."""

from __future__ import annotations

from typing import TYPE_CHECKING

from nexus.broker.dispatch import Request
from nexus.wire.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse

if TYPE_CHECKING:
    from nexus.broker.broker import Broker


def handle(broker: Broker, request: Request, body: ApiVersionsRequest) -> ApiVersionsResponse:
    """List what is served, and remember which client asks."""
    software = f"{body.client_software_name} {body.client_software_version}".strip()
    request.connection.client_software = software
    return ApiVersionsResponse(api_keys=broker.api_versions())
