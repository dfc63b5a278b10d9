"""Cannot be imported."""

raise ImportError("this module is broken")
