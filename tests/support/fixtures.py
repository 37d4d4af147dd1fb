"""The types of the factory fixtures in conftest, for the signatures of tests."""

from __future__ import annotations

from collections.abc import Callable

from support.broker import BrokerProcess

MakeBroker = Callable[..., BrokerProcess]
MakeTopic = Callable[..., str]
