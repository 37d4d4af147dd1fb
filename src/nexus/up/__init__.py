"""All parts as one: started in order, watched, started again when they die, stopped in order."""
