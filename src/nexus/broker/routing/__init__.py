"""Requests that other brokers must answer: split by owner, sent there, and rejoined into one."""
