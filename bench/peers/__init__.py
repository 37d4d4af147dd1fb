"""Nexus beside its peers: the same work on the same machine, one system after the other.

`servers` start and end the systems, `clients` load them, `discard` takes a client's messages and
keeps none; `matrix` says what is measured, `schedule` in which order, `report` writes it down.
"""
