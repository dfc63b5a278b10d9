"""Pipelines: the graph, how it is written, and how it is read."""
