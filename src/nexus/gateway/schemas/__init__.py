"""What answers look like, for the API's description; nothing is validated against it at run time
(a test holds real answers against it).
"""
