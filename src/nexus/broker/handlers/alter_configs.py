"""AlterConfigs and IncrementalAlterConfigs: change a topic's settings.

AlterConfigs (versions 0 to 2) replaces all of them; IncrementalAlterConfigs (0 to 1) sets, unsets,
appends to and subtracts from single ones. The broker's own settings come from its file.
"""

from __future__ import annotations

from enum import IntEnum
from typing import TYPE_CHECKING, Final

from nexus.broker.dispatch import Request
from nexus.broker.topic_config import DEFINITIONS, ConfigType, check_configs, effective
from nexus.wire.errors import InvalidConfig, InvalidRequest, PolicyViolation, ProtocolError
from nexus.wire.messages import alter_configs, incremental_alter_configs

if TYPE_CHECKING:
    from nexus.broker.broker import Broker

TOPIC: Final = 2

Configs = dict[str, str | None]


class Operation(IntEnum):
    """What to do with one setting."""

    SET = 0
    DELETE = 1
    APPEND = 2
    SUBTRACT = 3


async def handle(
    broker: Broker, request: Request, body: alter_configs.AlterConfigsRequest
) -> alter_configs.AlterConfigsResponse:
    """Replace the settings of each topic."""
    responses = []
    for resource in body.resources:
        answer = alter_configs.AlterConfigsResourceResponse(
            resource_type=resource.resource_type, resource_name=resource.resource_name
        )
        try:
            _check_resource(resource.resource_type)
            configs = {config.name: config.value for config in resource.configs}
            await _apply(broker, resource.resource_name, configs, body.validate_only)
        except ProtocolError as error:
            answer.error_code, answer.error_message = error.code, str(error)
        responses.append(answer)
    return alter_configs.AlterConfigsResponse(responses=responses)


async def handle_incremental(
    broker: Broker,
    request: Request,
    body: incremental_alter_configs.IncrementalAlterConfigsRequest,
) -> incremental_alter_configs.IncrementalAlterConfigsResponse:
    """Change single settings of each topic."""
    responses = []
    for resource in body.resources:
        answer = incremental_alter_configs.AlterConfigsResourceResponse(
            resource_type=resource.resource_type, resource_name=resource.resource_name
        )
        try:
            _check_resource(resource.resource_type)
            configs = _changed(broker, resource)
            await _apply(broker, resource.resource_name, configs, body.validate_only)
        except ProtocolError as error:
            answer.error_code, answer.error_message = error.code, str(error)
        responses.append(answer)
    return incremental_alter_configs.IncrementalAlterConfigsResponse(responses=responses)


def _check_resource(resource_type: int) -> None:
    if resource_type != TOPIC:
        raise InvalidRequest(
            "only a topic's settings can be altered; the broker's come from its file and flags"
        )


async def _apply(broker: Broker, name: str, configs: Configs, validate_only: bool) -> None:
    if broker.topics.topic(name).is_internal:
        raise PolicyViolation(f"{name} belongs to the broker")
    check_configs(configs)
    if not validate_only:
        await broker.admin.set_configs(name, configs)


def _changed(broker: Broker, resource: incremental_alter_configs.AlterConfigsResource) -> Configs:
    topic = broker.topics.topic(resource.resource_name)
    configs: Configs = dict(topic.configs)
    now = effective(broker.settings, topic.count, topic.configs)
    for change in resource.configs:
        _change(configs, now, change)
    return configs


def _change(
    configs: Configs, now: dict[str, str], change: incremental_alter_configs.AlterableConfig
) -> None:
    name, operation = change.name, change.config_operation
    if operation == Operation.DELETE:
        configs.pop(name, None)
        return
    if operation == Operation.SET:
        configs[name] = change.value
        return
    definition = DEFINITIONS.get(name)
    if definition is None or definition.type != ConfigType.LIST or not change.value:
        raise InvalidConfig(f"{name} is no list: it can be set, not appended to")
    words = now[name].split(",")
    given = change.value.split(",")
    if operation == Operation.APPEND:
        words += [word for word in given if word not in words]
    else:
        words = [word for word in words if word not in given]
    configs[name] = ",".join(words)
