"""The app of the Lambda API: all its routes behind one ASGI app."""

from __future__ import annotations

from collections.abc import Sequence

from holdfast.lambda_api.operations import LambdaApi
from holdfast.lambda_api.routes.callbacks import Callbacks
from holdfast.lambda_api.routes.executions import Executions
from holdfast.lambda_api.routes.functions import Functions
from holdfast.lambda_api.routes.hooks import Hooks
from holdfast.web.app import App
from holdfast.web.limits import Limits
from holdfast.web.routing import Route, Routes


def make_app(api: LambdaApi, *, more: Sequence[Route] = (), limits: Limits | None = None) -> App:
    """The ASGI app of the Lambda API, with `more` routes before its own."""
    own = [*Executions(api).routes(), *Callbacks(api).routes(), *Functions(api).routes(), *Hooks(api).routes()]
    return App(Routes([*more, *own]), limits or Limits(), api.request_id)
