"""What etcd's errors mean to those who write to a store."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from nexus.etcd import errors as etcd
from nexus.lake.errors import StoreError, StoreOut

_PASSING = (etcd.Ambiguous, etcd.Closed, etcd.LeaseLost)


@contextmanager
def as_store_errors(store: object) -> Iterator[None]:
    """Raise StoreOut for what may work later as it stands, StoreError for the rest."""
    try:
        yield
    except etcd.Fenced as error:
        # Whether another has taken over is for the lock to say: it may win its office back.
        raise StoreOut(f"store {store}: the right to write was lost") from error
    except etcd.NoSpace as error:
        raise StoreOut(
            f"store {store}: etcd is at its quota and takes no more; let ?retention= be shorter or"
            " etcd's --quota-backend-bytes larger; `nexus queue doctor` says more"
        ) from error
    except etcd.EtcdError as error:
        passing = error.retriable or isinstance(error, _PASSING)
        raise (StoreOut if passing else StoreError)(f"store {store}: {error}") from error
