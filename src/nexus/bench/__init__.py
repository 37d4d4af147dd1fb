"""Measurements of a broker, ours or any that speaks the Kafka protocol.

Each one is a function that takes its setting and returns its numbers; the command line and
`make bench` print them.
"""
