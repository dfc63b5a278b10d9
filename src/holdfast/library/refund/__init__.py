"""refund — pay money back: a model reads the case, a person approves, the payment happens once.

Belongs: the worker and its page, a case, and answers to play back so that it runs without a key.   Does not: anything else of Holdfast's.
Start reading at refund.py, which is the example of the README, letter for letter.
"""
