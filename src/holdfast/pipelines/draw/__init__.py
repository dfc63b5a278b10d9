"""draw — a graph as a picture or as text. Pure: the same graph always gives the same drawing.

captions.py     what a drawing says of a node and its state
layers.py       which node stands in which row; layout.py makes boxes and lines of it
text.py         for terminals
svg.py          for pages
"""
