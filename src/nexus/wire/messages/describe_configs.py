"""DescribeConfigs (key 32): shows the settings of topics and brokers, and where each came from.

Version 3 adds types and documentation, 4 flexible fields.
"""

from __future__ import annotations

from nexus.wire.fields import Kind, array, boolean, int8, int16, int32, message, string, structure


@structure
class DescribeConfigsResource:
    """A resource and the settings wanted; null stands for all."""

    resource_type: int = int8()
    resource_name: str = string()
    configuration_keys: list[str] | None = array(Kind.STRING, nullable="0+")


@message("1-4", flexible="4+")
class DescribeConfigsRequest:
    """Whose settings to show."""

    resources: list[DescribeConfigsResource] = array(DescribeConfigsResource)
    include_synonyms: bool = boolean()
    include_documentation: bool = boolean("3+")


@structure
class DescribeConfigsSynonym:
    """A place that the value could have come from."""

    name: str = string()
    value: str | None = string(nullable="0+", default=None)
    source: int = int8()


@structure
class DescribeConfigsResourceResult:
    """A setting, its value and where that came from."""

    name: str = string()
    value: str | None = string(nullable="0+", default=None)
    read_only: bool = boolean()
    config_source: int = int8(default=-1)
    is_sensitive: bool = boolean()
    synonyms: list[DescribeConfigsSynonym] = array(DescribeConfigsSynonym)
    config_type: int = int8("3+")
    documentation: str | None = string("3+", nullable="0+", default=None)


@structure
class DescribeConfigsResult:
    """One resource's settings."""

    error_code: int = int16()
    error_message: str | None = string(nullable="0+", default=None)
    resource_type: int = int8()
    resource_name: str = string()
    configs: list[DescribeConfigsResourceResult] = array(DescribeConfigsResourceResult)


@message("1-4", flexible="4+")
class DescribeConfigsResponse:
    """The settings."""

    throttle_time_ms: int = int32()
    results: list[DescribeConfigsResult] = array(DescribeConfigsResult)
