"""clients — our own runtime clients, used if the official client of the language is not installed. Each is one script that needs
only the standard library of its language. Start reading at python_client.py.
"""
