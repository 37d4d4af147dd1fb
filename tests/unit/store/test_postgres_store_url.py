"""The address of a store in PostgreSQL: what libpq takes, and never a password."""

import pytest

from nexus.lake.errors import StoreError
from nexus.store.postgres.url import parse_postgres_url


def test_how_a_store_is_reached_is_not_part_of_its_name() -> None:
    url = parse_postgres_url("postgres://me@db:5433/nexus?sslmode=verify-full&passfile=/run/pass")
    assert url.address.startswith("postgresql://me@db:5433/nexus?sslmode=verify-full")
    assert str(url) == url.name == "postgresql://me@db:5433/nexus"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("postgresql://me:s3cret@db/nexus", "PGPASSWORD"),
        ("postgresql://db/nexus?password=s3cret", "PGPASSWORD"),
        ("postgresql://db", "names no database"),
        ("postgresql://db/nexus?sslmod=s3cret", "expected postgresql://"),
        ("mysql://db/nexus", "expected postgresql://"),
    ],
)
def test_a_wrong_address_is_told_without_a_secret_in_it(text: str, said: str) -> None:
    with pytest.raises(StoreError, match=said) as raised:
        parse_postgres_url(text)
    assert "s3cret" not in str(raised.value)
