"""operator — what the operator of a machine has set and allowed: holdfast.toml, and the folders that the operator trusts.

files.py               which holdfast.toml is the operator's; start here
holdfast_toml.py       reads the operator's settings for workers from the file and from the environment
approval_settings.py   the settings about approvals
untrusted_settings.py  what a holdfast.toml in a folder that is not trusted may still set
trust.py               the book of trusted folders
folder_ownership.py    whether another user of the machine could change a folder

Belongs: settings that the operator writes, and trust.   Does not: the settings of one engine (settings.py of service), what each setting
does.   May import: holdfast.service.runtimes, whose settings it reads, and packages below service.
"""
