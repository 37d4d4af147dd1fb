"""The REST API, live readings and the dashboard, over whatever store the query port opens."""
