"""An S3-compatible server on the loopback address, in this process: moto's."""

from __future__ import annotations

import logging
import os
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from unittest.mock import patch

from nexus.lake.url import StoreUrl, parse_store_url

BUCKET = "lake"
# Workers of Spark are children of this process's Java, which must be started with these set.
CREDENTIALS = {"AWS_ACCESS_KEY_ID": "tests", "AWS_SECRET_ACCESS_KEY": "tests"}


@contextmanager
def object_store() -> Iterator[str]:
    """The address of a server with one empty bucket, such as http://127.0.0.1:1234."""
    from moto.server import ThreadedMotoServer  # slow to import

    logging.getLogger("werkzeug").setLevel(logging.ERROR)
    with patch.dict(os.environ, CREDENTIALS):
        server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
        server.start()
        try:
            address = "http://{}:{}".format(*server.get_host_and_port())
            made = urllib.request.Request(f"{address}/{BUCKET}", method="PUT")
            urllib.request.urlopen(made).close()
            yield address
        finally:
            server.stop()


def store_at(address: str, prefix: str) -> StoreUrl:
    return parse_store_url(f"s3://{BUCKET}/{prefix}?endpoint={address}&region=us-east-1")
