"""clients — our own runtime clients, used when the official one is not installed. Each is one script that needs only its language's
standard library. Start reading at python_client.py.
"""
