"""email_summarization — a thread of e-mails as a summary, key points and action items; the model never sees personal data.

Belongs: the worker and its page, a case, and an answer to play back so that it runs without a key.   Does not: other parts of Holdfast.
Start reading at worker.py.
"""
