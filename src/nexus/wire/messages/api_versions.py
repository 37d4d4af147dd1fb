"""ApiVersions (key 18): says which requests are served, and in which versions.

It is the first thing a client sends, so its response has no flexible header, and a version that is
too new is answered in version 0.

Version 3 has flexible fields, the client's name, and features; 4 lets features begin at 0.
"""

from __future__ import annotations

from nexus.wire.fields import array, boolean, int16, int32, int64, message, string, structure


@message("0-4", flexible="3+")
class ApiVersionsRequest:
    """The client's introduction."""

    client_software_name: str = string("3+")
    client_software_version: str = string("3+")


@structure
class ApiVersion:
    """A request and its versions."""

    api_key: int = int16()
    min_version: int = int16()
    max_version: int = int16()


@structure
class SupportedFeatureKey:
    """A feature and the levels that this broker can run."""

    name: str = string()
    min_version: int = int16()
    max_version: int = int16()


@structure
class FinalizedFeatureKey:
    """A feature and the level that the cluster runs."""

    name: str = string()
    max_version_level: int = int16()
    min_version_level: int = int16()


@message("0-4", flexible="3+")
class ApiVersionsResponse:
    """What is served."""

    error_code: int = int16()
    api_keys: list[ApiVersion] = array(ApiVersion)
    throttle_time_ms: int = int32("1+")
    supported_features: list[SupportedFeatureKey] = array(SupportedFeatureKey, "3+", tag=0)
    finalized_features_epoch: int = int64("3+", default=-1, tag=1)
    finalized_features: list[FinalizedFeatureKey] = array(FinalizedFeatureKey, "3+", tag=2)
    zk_migration_ready: bool = boolean("3+", tag=3)
