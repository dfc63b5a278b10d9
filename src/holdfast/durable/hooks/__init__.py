"""hooks — calls the plugins of an execution at each moment that they can observe.

Belongs: which hook is called when and with what, the plugin instances of one invocation, and what happens to the errors that they raise.
Does not: what plugin authors import (plugin.py), how plugins are found (plugin_discovery.py). May import: holdfast.durable, holdfast.model.
Start reading at moments.py.
"""
