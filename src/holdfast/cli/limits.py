"""`holdfast limits`: what tenants have spent today, compared with the caps of holdfast.toml."""

from __future__ import annotations

from decimal import Decimal
from typing import Annotated

import typer

from holdfast.cli import completion
from holdfast.cli.arguments import CodecOption, ConfigOption, LinesOption, StoreOption, StorePlace, TrustOption
from holdfast.cli.terminal import moment, print_line, print_table, say, seconds


def limits(
    tenant: Annotated[
        list[str] | None,
        typer.Option("--tenant", metavar="NAME", help="Only this tenant. May be given several times.", autocompletion=completion.tenants),
    ] = None,
    json_output: LinesOption = False,
    trust: TrustOption = False,
    config: ConfigOption = None,
    store: StoreOption = None,
    codec: CodecOption = None,
) -> None:
    """Show what tenants have spent today (in UTC), compared with their caps.

    Caps are set in holdfast.toml: [policy.caps] for every tenant, [policy.tenant_caps.NAME] for one. Only amounts with a cap are shown.
    Without --tenant, the command shows the tenant `default`, and the tenants that have caps of their own or credentials.
    """
    from holdfast.cli.consent import Consent, operators_settings

    settings = operators_settings(None, config, Consent(trust=trust))[0]
    with StorePlace.of(store, codec).client() as client:
        found = client.spent_today(settings, tenant or ())
    if json_output:
        for each in found:
            amounts = {name: float(value) for name, value in (("spent", each.spent), ("cap", each.cap), ("left", each.left))}
            print_line({"tenant": each.tenant, "what": each.what, **amounts, "until": moment(each.until)})
    elif not found:
        say("nothing is capped: set [policy.caps] in holdfast.toml")
    else:
        rows = [
            (each.tenant, each.what, *(f"{Decimal(amount):,f}" for amount in (each.spent, each.cap, each.left)), seconds(each.until))
            for each in found
        ]
        print_table(("TENANT", "WHAT", "SPENT", "CAP", "LEFT", "UNTIL"), rows, folds="TENANT")
