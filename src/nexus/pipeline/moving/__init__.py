"""Moves readings between stores, and tells whether two stores, or a store and itself, agree."""
