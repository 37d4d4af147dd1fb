"""What each endpoint answers: a request and its parameters in, a whole reply out.

Synchronous, for a worker thread; no framework and no network in here.
"""
