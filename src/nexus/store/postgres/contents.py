"""What the store holds, table by table."""

from __future__ import annotations

from typing import Final

import pyarrow as pa

from nexus.store.port import TABLE_ROWS
from nexus.store.postgres.pinned import Pin, Pins

# Rows by what was counted when they came; sizes with their indexes. A file is a partition. What is
# not parted is `latest` alone, of which `gpus` is a view.
_TABLES: Final = """
SELECT t.name, t.version,
  CASE t.name WHEN 'latest' THEN (SELECT count(*) FROM latest_stored)
              WHEN 'gpus' THEN (SELECT count(*) FROM gpus)
              ELSE coalesce(h.rows, 0) END,
  s.files, s.bytes, h.oldest, h.newest, t.changed
FROM store_tables t
LEFT JOIN (SELECT name, sum(rows)::bigint AS rows, min(low) AS oldest, max(high) AS newest
           FROM store_held WHERE rows > 0 GROUP BY name) h USING (name)
CROSS JOIN LATERAL (
  SELECT count(*) AS files, coalesce(sum(pg_total_relation_size(relid)),
    CASE t.name WHEN 'latest' THEN pg_total_relation_size('latest_stored') ELSE 0 END
  )::bigint AS bytes
  FROM pg_partition_tree(CASE t.name WHEN 'quarantine' THEN 'quarantine'
    WHEN 'gpus' THEN 'latest_stored' ELSE t.name || '_stored' END) WHERE isleaf
) s
WHERE t.version > 0 ORDER BY t.name"""


def tables(pins: Pins, pin: Pin) -> pa.Table:
    """A row for each table that has something; see the port."""
    if not pin.id:
        return TABLE_ROWS.empty_table()
    with pins.reading(pin) as cursor:
        rows = cursor.execute(_TABLES).fetchall()
    said = [dict(zip(TABLE_ROWS.names, row, strict=True)) for row in rows]
    return pa.Table.from_pylist(said, TABLE_ROWS)
