"""draw — a graph as a picture or as text. Pure: the same graph always gives the same drawing.

captions.py     the words of a drawing about a node and its state
layout.py       makes boxes and lines: start here; layers.py puts each node into a row
text.py         draws as text, for terminals
svg.py          draws as an SVG picture, for pages
"""
