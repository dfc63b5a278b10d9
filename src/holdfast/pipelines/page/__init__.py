"""page — a pipeline as a page (pipeline.md): the same graph as text that people read, write and compare. Pure: no I/O, no clock.

reader.py       from a page to a graph, or to a list of all problems; start here
writer.py       from a graph to a page; contract_text.py writes the sections of the contract
blocks.py       the lines of the Pipeline spec as trees, with or without indentation
trees.py        trees, and the inline forms `{…}` and `[…]`
references.py   the text of references and of the other forms of a template, both ways
field_reader.py trees as the nodes of a graph, by the types of graph/graph.py; field_writer.py writes them
node_fields.py  the fields of nodes that the reader and the writer share
layout.py       when a value takes one line, and when several
"""
