"""The HTTP front door: any client, any instance, the right broker."""
