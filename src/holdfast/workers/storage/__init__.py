"""storage — where the bytes of artifacts are stored.

Belongs: the storage seam; a folder of this machine; a bucket that several machines share; choosing between them by the operator's setting.
Does not: hashes, tenants, limits (`artifacts.py` has them). May import: holdfast.files, holdfast.model. Start reading at seam.py.
obstore is loaded only for a bucket.
"""
