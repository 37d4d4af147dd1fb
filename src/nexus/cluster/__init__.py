"""Several brokers as one: who holds what, who leads, and what counts as safe.

Decisions are pure functions and machines without a clock, a socket or a file of their own.
"""
