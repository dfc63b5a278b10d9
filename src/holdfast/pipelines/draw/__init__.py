"""draw — a graph as a picture or as text. Pure: the same graph always gives the same drawing.

captions.py     what a drawing says of a node and its state
layout.py       boxes and lines: start here; layers.py says which node stands in which row
text.py         for terminals
svg.py          for pages
"""
