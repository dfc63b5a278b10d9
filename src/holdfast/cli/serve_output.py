"""What `holdfast serve` and `holdfast dev` print when the server listens."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Final

from holdfast.cli.serve_workers import ServeWorkers
from holdfast.cli.terminal import print_table
from holdfast.store.shown_address import shown

if TYPE_CHECKING:
    from holdfast.lambda_api.serving import Serving
    from holdfast.web.auth.gate import Gate

_REGION: Final = "us-east-1"
"""The AWS region in the printed command. Any region works; every tool knows this one."""

_NO_CONSOLE: Final = "console: none, because this store is in memory; name a file or a database with --store to have one"


def print_served(where: str, service: Serving, url: str, gate: Gate, workers: ServeWorkers | None, *, deploys: bool) -> None:
    """Print the address of the server, what it serves, who may use it, and how to try it. `deploys` says whether --allow-deploy was
    given."""
    print(f"serving on {url} from {shown(where)}")
    functions = workers is None or deploys or bool(service.lookup.all())
    if functions:
        _print_functions(service)
    if workers is not None:
        workers.print()
    print(gate.summary)
    print(f"console: {url}/console/" if where != ":memory:" else _NO_CONSOLE)
    if functions:
        print(f"Paste this where your AWS clients run{', with the id and the secret of a key' if gate.needs_credentials else ''}:")
        print(f"  {_exported(url, needs_credentials=gate.needs_credentials)}")
    if workers is not None:
        workers.print_try(url, needs_credentials=gate.needs_credentials)
    sys.stdout.flush()


def _print_functions(service: Serving) -> None:
    rows = []
    for name in dict.fromkeys(found.name for found in service.lookup.all()):
        entry = service.deployed.entry(name)
        versions = [found for found in service.lookup.all() if found.name == name]
        aliases = {} if entry is None else {alias.version: alias.name for alias in entry.aliases.values()}
        told = [f"{found.version} ({aliases[found.version]})" if found.version in aliases else found.version for found in versions]
        newest = versions[-1]
        how = f"{newest.about['Runtime']} {newest.about['Handler']}" if newest.about else "in this process"
        if newest.about and (other := service.runs_on(newest.about["Runtime"])):
            how += f" (on {other})"
        rows.append((name, ", ".join(told[:1] + told[1:][-3:]), "durable" if newest.terms is not None else "plain", how))
    print_table(["FUNCTION", "VERSIONS", "KIND", "RUNS"], rows, folds="RUNS")


def _exported(url: str, *, needs_credentials: bool) -> str:
    """The shell command that sets the environment variables for AWS's clients. These clients send no request without a region and keys."""
    key, secret = ("ID", "SECRET") if needs_credentials else ("any", "any")
    return (
        f"export AWS_ENDPOINT_URL_LAMBDA={url} AWS_ENDPOINT_URL_CLOUDWATCH_LOGS={url} AWS_DEFAULT_REGION={_REGION}"
        f" AWS_ACCESS_KEY_ID={key} AWS_SECRET_ACCESS_KEY={secret}"
    )
