"""IncrementalAlterConfigs (key 44): sets, deletes, appends to or subtracts from single settings.

Version 1 has flexible fields.
"""

from __future__ import annotations

from nexus.wire.fields import array, boolean, int8, int16, int32, message, string, structure


@structure
class AlterableConfig:
    """A change: 0 sets, 1 deletes, 2 appends, 3 subtracts."""

    name: str = string()
    config_operation: int = int8()
    value: str | None = string(nullable="0+", default=None)


@structure
class AlterConfigsResource:
    """Changes to one resource."""

    resource_type: int = int8()
    resource_name: str = string()
    configs: list[AlterableConfig] = array(AlterableConfig)


@message("0-1", flexible="1+")
class IncrementalAlterConfigsRequest:
    """Changes to resources' settings."""

    resources: list[AlterConfigsResource] = array(AlterConfigsResource)
    validate_only: bool = boolean()


@structure
class AlterConfigsResourceResponse:
    """One resource's outcome."""

    error_code: int = int16()
    error_message: str | None = string(nullable="0+", default=None)
    resource_type: int = int8()
    resource_name: str = string()


@message("0-1", flexible="1+")
class IncrementalAlterConfigsResponse:
    """Which resources were changed."""

    throttle_time_ms: int = int32()
    responses: list[AlterConfigsResourceResponse] = array(AlterConfigsResourceResponse)
