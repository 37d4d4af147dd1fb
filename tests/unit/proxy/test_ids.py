"""Ids of messages say where they are and who holds them."""

from __future__ import annotations

import pytest

from nexus.proxy.sharing.ids import MessageId, parse_id
from nexus.web.problems import BadParameter


def test_an_id_comes_back_as_it_was() -> None:
    one = MessageId(3, 12345678901, "0123456789abcdef" * 2)
    assert parse_id(str(one)) == one


@pytest.mark.parametrize("text", ["", "1", "1-2", "1-2-x", "-1-2-" + "0" * 32, "1-2-" + "0" * 33])
def test_what_is_no_id_is_refused(text: str) -> None:
    with pytest.raises(BadParameter):
        parse_id(text)
