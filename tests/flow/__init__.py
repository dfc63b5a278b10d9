"""Functions running on a whole engine in one process."""
