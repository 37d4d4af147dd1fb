"""A store in InfluxDB (1.x): points by tasks, a journal of commits, and answers from both."""
