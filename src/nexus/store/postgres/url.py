"""A store's address in PostgreSQL: `postgresql://user@host:port/database?sslmode=…`.

It is what libpq takes, less the password: an address is in process titles and in logs, so that
comes from a file (`passfile=…`, PGPASSFILE) or from the environment (PGPASSWORD).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import psycopg
from psycopg.conninfo import conninfo_to_dict

from nexus.lake.errors import StoreError

SCHEMES: Final = ("postgresql", "postgres")
EXPECTED: Final = "expected postgresql://user@host:port/database?sslmode=verify-full&passfile=…"


@dataclass(frozen=True, slots=True)
class PostgresUrl:
    """Where the database is, and as whom it is asked; never a password."""

    address: str

    @property
    def name(self) -> str:
        """What makes it this store: not how it is reached."""
        return self.address.partition("?")[0]

    def __str__(self) -> str:
        return self.name


def parse_postgres_url(text: str) -> PostgresUrl:
    """The store that an address names; StoreError says what would be right."""
    address = text.strip()
    scheme, _, rest = address.partition("://")
    if scheme not in SCHEMES:
        raise StoreError(f"store {text}: {EXPECTED}")
    shown = f"postgresql://{rest.rpartition('@')[2].partition('?')[0]}"
    try:
        said = conninfo_to_dict(f"postgresql://{rest}")
    except psycopg.ProgrammingError:
        raise StoreError(f"store {shown}: {EXPECTED}") from None
    if "password" in said:
        raise StoreError(
            f"store {shown}: a password does not belong into an address, which others can see;"
            " put it into a file (passfile=… or PGPASSFILE) or into PGPASSWORD"
        )
    if not said.get("dbname"):
        raise StoreError(f"store {shown}: names no database; {EXPECTED}")
    return PostgresUrl(f"postgresql://{rest}")
