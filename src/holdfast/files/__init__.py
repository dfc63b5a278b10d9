"""files — what Holdfast keeps on a disk is its user's alone: files of mode 0600, folders of mode 0700, whatever the umask.

Belongs: making and opening private files and folders (private.py), folders that live as long as a process (passing.py), removing folders
without following a link (removing.py). Does not: know what is in the files.   May import: holdfast.model.   Start reading at private.py.
"""
