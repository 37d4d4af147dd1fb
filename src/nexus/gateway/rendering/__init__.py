"""From Arrow tables to what goes over the wire: JSON rows, JSON columns, CSV, Arrow streams."""
