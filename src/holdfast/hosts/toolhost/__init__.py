"""toolhost — runs the tools of worker authors, each in a process of its own that can be killed.

Belongs: starting, pooling and ending those processes; the frames on their sockets; `ToolCall`, which a tool gets with its arguments.
Does not: which tools there are, what a failure means to a run, where secrets come from (holdfast.workers).   May import: holdfast.model.
Start reading at tool_host.py, then tool_process.py. tool_main.py runs inside the processes; tool_call.py is for tool authors.
"""
