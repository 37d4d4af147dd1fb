"""The live stream: what comes into the queue, to browsers as server-sent events.

`hub.LiveHub` follows the queue once for all clients; `response.event_stream` sends a client's
events over ASGI.
"""
