"""Tables that are made from `readings`: rollups by minute and hour, last values, and GPUs."""
