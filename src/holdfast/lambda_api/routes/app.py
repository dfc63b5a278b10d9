"""The app of the Lambda API: one ASGI app with all its routes."""

from __future__ import annotations

from collections.abc import Sequence

from holdfast.lambda_api.operations import LambdaApi
from holdfast.lambda_api.routes.callbacks import Callbacks
from holdfast.lambda_api.routes.executions import Executions
from holdfast.lambda_api.routes.functions import Functions
from holdfast.lambda_api.routes.hooks import HookRoutes
from holdfast.web.app import App
from holdfast.web.auth.gate import Gate
from holdfast.web.limits import WebLimits
from holdfast.web.routing import Route


def make_app(api: LambdaApi, *, more: Sequence[Route] = (), limits: WebLimits | None = None, gate: Gate | None = None) -> App:
    """The ASGI app of the Lambda API. The routes in `more` come before its own. `gate` decides which callers are admitted; if it is None,
    all are, as for the processes of functions."""
    own = [*Executions(api).routes(), *Callbacks(api).routes(), *Functions(api).routes(), *HookRoutes(api).routes()]
    return App([*more, *own], limits or WebLimits(), api.request_id, gate)
