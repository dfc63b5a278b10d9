"""refund — pays money back: a model reads the case, a person approves, and the payment is made once.

Belongs: the worker and its page, an example input, and recorded answers, so that it runs without a key. Does not: other parts of Holdfast.
Start reading at refund.py, which is exactly the example of the README.
"""
