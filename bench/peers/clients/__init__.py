"""The load generators, one for each protocol, behind the same small interface."""
