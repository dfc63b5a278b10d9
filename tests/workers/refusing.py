"""The command line on a machine whose kernel refuses some calls: `python -m tests.workers.refusing mount,unshare run worker.py …`."""

from __future__ import annotations

import sys

from holdfast.cli import main
from tests.sandbox.settings import _refuse

if __name__ == "__main__":
    _refuse(sys.argv[1].split(","))
    sys.argv = ["holdfast", *sys.argv[2:]]
    main()
