"""DescribeConfigs: the settings of topics and of the broker, defaults included. Versions 1 to 4."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Final

from nexus.broker.dispatch import Request
from nexus.broker.topic_config import DEFINITIONS, ConfigSource, ConfigType, effective
from nexus.wire.errors import InvalidRequest, ProtocolError
from nexus.wire.messages.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
    DescribeConfigsResourceResult,
    DescribeConfigsResponse,
    DescribeConfigsResult,
    DescribeConfigsSynonym,
)

if TYPE_CHECKING:
    from nexus.broker.broker import Broker

TOPIC: Final = 2
BROKER: Final = 4


def handle(
    broker: Broker, request: Request, body: DescribeConfigsRequest
) -> DescribeConfigsResponse:
    """Describe each resource."""
    return DescribeConfigsResponse(
        results=[_describe(broker, resource, body) for resource in body.resources]
    )


def _describe(
    broker: Broker, wanted: DescribeConfigsResource, body: DescribeConfigsRequest
) -> DescribeConfigsResult:
    result = DescribeConfigsResult(
        resource_type=wanted.resource_type, resource_name=wanted.resource_name
    )
    try:
        every = _settings_of(broker, wanted, body)
        keys = wanted.configuration_keys
        result.configs = [one for one in every if keys is None or one.name in keys]
    except ProtocolError as error:
        result.error_code = error.code
        result.error_message = str(error)
    return result


def _settings_of(
    broker: Broker, wanted: DescribeConfigsResource, body: DescribeConfigsRequest
) -> Iterable[DescribeConfigsResourceResult]:
    if wanted.resource_type == TOPIC:
        topic = broker.topics.topic(wanted.resource_name)
        values = effective(broker.settings, topic.count, topic.configs)
        return [_topic_setting(n, v, topic.configs, body) for n, v in values.items()]
    if wanted.resource_type == BROKER:
        if wanted.resource_name not in {"", str(broker.settings.broker.id)}:
            raise InvalidRequest(f"there is no broker {wanted.resource_name}")
        return [_broker_setting(name, value) for name, value in broker.described_settings()]
    raise InvalidRequest("only topics (2) and brokers (4) have settings")


def _topic_setting(
    name: str, value: str, own: dict[str, str], body: DescribeConfigsRequest
) -> DescribeConfigsResourceResult:
    definition = DEFINITIONS[name]
    source = ConfigSource.TOPIC if name in own else ConfigSource.DEFAULT
    setting = DescribeConfigsResourceResult(
        name=name, value=value, config_source=source, config_type=definition.type
    )
    if body.include_synonyms:
        setting.synonyms = [DescribeConfigsSynonym(name=name, value=value, source=source)]
    if body.include_documentation:
        setting.documentation = definition.meaning
    return setting


def _broker_setting(name: str, value: str) -> DescribeConfigsResourceResult:
    return DescribeConfigsResourceResult(
        name=name,
        value=value,
        read_only=True,
        config_source=ConfigSource.STATIC_BROKER,
        config_type=ConfigType.STRING,
    )
