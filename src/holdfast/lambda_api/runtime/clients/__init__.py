"""clients — Holdfast's own runtime clients, used where the official client of the language cannot be used. Each is one script that needs
only the standard library of its language. Start reading at python_client.py.
"""
