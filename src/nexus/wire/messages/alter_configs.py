"""AlterConfigs (key 33): replaces all settings of a resource; the rest return to defaults.

Version 2 has flexible fields.
"""

from __future__ import annotations

from nexus.wire.fields import array, boolean, int8, int16, int32, message, string, structure


@structure
class AlterableConfig:
    """A setting and its value."""

    name: str = string()
    value: str | None = string(nullable="0+", default=None)


@structure
class AlterConfigsResource:
    """One resource's whole settings."""

    resource_type: int = int8()
    resource_name: str = string()
    configs: list[AlterableConfig] = array(AlterableConfig)


@message("0-2", flexible="2+")
class AlterConfigsRequest:
    """Resources' new settings."""

    resources: list[AlterConfigsResource] = array(AlterConfigsResource)
    validate_only: bool = boolean()


@structure
class AlterConfigsResourceResponse:
    """One resource's outcome."""

    error_code: int = int16()
    error_message: str | None = string(nullable="0+", default=None)
    resource_type: int = int8()
    resource_name: str = string()


@message("0-2", flexible="2+")
class AlterConfigsResponse:
    """Which resources were changed."""

    throttle_time_ms: int = int32()
    responses: list[AlterConfigsResourceResponse] = array(AlterConfigsResourceResponse)
