"""toolhost — author's tools, each in a process of its own that can be killed.

Belongs: starting, pooling and ending those processes; the frames they speak; `ToolCall`, what a tool is given.
Does not: which tools there are, what a failure means to a run, where secrets come from (holdfast.workers).   May import: holdfast.model.
Start reading at host.py. child.py runs inside the processes.
"""
