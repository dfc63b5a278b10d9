"""page — a pipeline as a page (pipeline.md): the same graph as text that people read, write and compare. Pure: no I/O, no clock.

reader.py        from a page to a graph, or to a list of its problems; start here
writer.py        from a graph to a page; contract_text.py writes the sections of the contract
blocks.py        reads the lines of the Pipeline spec as trees, with or without indentation
trees.py         trees, and the inline forms `{…}` and `[…]`
template_text.py reads and writes the text of references and of the other forms of a template
field_reader.py  reads trees as nodes of a graph, by the types in graph/graph.py; field_writer.py writes nodes
node_fields.py   the fields of nodes that the reader and the writer share
layout.py        writes a value on one line or on several
"""
