"""hooks — the moments of an execution that plugins are told of.

Belongs: what each plugin hook is told and when, one invocation's plugin instances, and the containment of what they raise.
Does not: what plugin authors import (plugin.py), how plugins are found (plugin_discovery.py). May import: holdfast.durable, holdfast.model.
Start reading at moments.py.
"""
