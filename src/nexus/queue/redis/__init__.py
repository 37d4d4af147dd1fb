"""The way from Redis and the way back: a list or a stream, emptied into a queue or filled from one.

Redis is no queue of ours: nothing publishes to it or collects from it but these two.
"""
