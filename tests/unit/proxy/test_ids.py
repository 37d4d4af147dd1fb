"""Ids of messages say where they are and who holds them."""

from __future__ import annotations

import pytest

from nexus.proxy.sharing.ids import MessageId, parse_id, parse_ids
from nexus.web.problems import BadParameter


def test_an_id_comes_back_as_it_was() -> None:
    one = MessageId(3, 12345678901, "0123456789abcdef" * 2)
    assert parse_id(str(one)) == one


@pytest.mark.parametrize("text", ["", "1", "1-2", "1-2-x", "-1-2-" + "0" * 32, "1-2-" + "0" * 33])
def test_what_is_no_id_is_refused(text: str) -> None:
    with pytest.raises(BadParameter):
        parse_id(text)


def test_many_ids_come_back_as_they_were() -> None:
    ids = [MessageId(at, 7 * at, "0123456789abcdef" * 2) for at in range(50)]
    assert parse_ids([str(one) for one in ids]) == ids


def test_one_bad_id_among_many_is_found() -> None:
    good = str(MessageId(1, 2, "0" * 32))
    for bad in ("1-2", f"{good}\n{good}", f"\n{good}", f"{good}\n"):
        with pytest.raises(BadParameter):
            parse_ids([good, bad, good])
