"""Every metric that Nexus knows, as compact tables, one file a subject."""
