"""email_summarization — makes a summary, key points and action items of a thread of e-mails; personal data is replaced before the model
sees the thread.

Belongs: the worker and its page, an example input, and a recorded answer of the model, so that it runs without a key. Does not: other parts
of Holdfast. Start reading at worker.py.
"""
