"""files — files and folders that only their owner can read: files of mode 0600, folders of mode 0700, with any umask.

Belongs: making and opening private files and folders (private.py), folders that live as long as a process (process_folders.py), removing
folders without following a link (removal.py).
Does not: know what is in the files.   May import: holdfast.model.   Start reading at private.py.
"""
