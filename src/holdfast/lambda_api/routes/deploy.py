"""Function management: CreateFunction and the other operations that change functions, and those that show aliases. The other operations
that only read are in functions.py."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from holdfast.lambda_api.functions.function_records import Alias, Code, Config, Version, about
from holdfast.lambda_api.operations import checks
from holdfast.lambda_api.operations.lookup import FoundFunction, configuration, page
from holdfast.lambda_api.routes.aws_errors import AWS
from holdfast.lambda_api.routes.deploy_requests import AliasAsked, CodeAsked, Configured, Create, Publish, UpdateCode
from holdfast.lambda_api.serving import Serving
from holdfast.lambda_api.templates.descriptions import FolderCode
from holdfast.model.errors import InvalidParameter
from holdfast.model.execution import Terms
from holdfast.web.policy import Needs, Reach, RoutePolicy
from holdfast.web.replies import Reply, json_reply
from holdfast.web.requests import Request
from holdfast.web.routing import Route, in_group

LOCAL_BUCKET: Final = "holdfast-local"
"""An S3 bucket of this name stands for the folders of the server's machine: the key is the absolute path of a folder with code."""
MOST_BYTES: Final = 70_167_211
"""The largest body of a request with code. As on AWS: 50 MB of code in base64, and some bytes for the other members."""
_FUNCTIONS: Final = "/2015-03-31/functions"


def _deploys(operation: str, body_bytes: int | None = None) -> RoutePolicy:
    """The policy of an operation that changes functions. A caller who belongs to one tenant is refused, because deployed code runs for all
    tenants."""
    return RoutePolicy(operation, Needs.DEPLOY, Reach.NONE, body_bytes)


class DeployRoutes:
    """The handlers of function management."""

    def __init__(self, service: Serving) -> None:
        self._service = service
        self._deployed = service.deployed

    def routes(self) -> list[Route]:
        one = f"{_FUNCTIONS}/([^/]+)"
        routes = [
            Route("POST", f"{_FUNCTIONS}/?", self.create, _deploys("CreateFunction", MOST_BYTES)),
            Route("PUT", f"{one}/code", self.update_code, _deploys("UpdateFunctionCode", MOST_BYTES)),
            Route("PUT", f"{one}/configuration", self.update_configuration, _deploys("UpdateFunctionConfiguration")),
            Route("POST", f"{one}/versions", self.publish, _deploys("PublishVersion")),
            Route("POST", f"{one}/aliases", self.create_alias, _deploys("CreateAlias")),
            Route("GET", f"{one}/aliases", self.aliases, RoutePolicy("ListAliases", Needs.VIEW, Reach.ALL)),
            Route("GET", f"{one}/aliases/([^/]+)", self.alias, RoutePolicy("GetAlias", Needs.VIEW, Reach.ALL)),
            Route("PUT", f"{one}/aliases/([^/]+)", self.update_alias, _deploys("UpdateAlias")),
            Route("DELETE", f"{one}/aliases/([^/]+)", self.delete_alias, _deploys("DeleteAlias")),
            Route("DELETE", one, self.delete, _deploys("DeleteFunction")),
        ]
        return in_group(AWS, routes)

    # --- functions

    async def create(self, request: Request) -> Reply:
        asked = request.decoded(Create)
        name = self._deployable(asked.function_name, None)
        if asked.package_type != "Zip" or asked.code.image is not None:
            raise InvalidParameter("PackageType: container images are not run here, only zip files.")
        if not asked.handler or not asked.runtime:
            raise InvalidParameter("Runtime and Handler are mandatory parameters for functions created with deployment packages.")
        terms = None if asked.durable_config is None else asked.durable_config.terms(None)
        config = Config(**asked.changed({"Architectures": asked.architectures}), terms=terms)

        def verb() -> Version:
            if self._deployed.entry(name) is None:  # else `create` refuses, and the code need not be unpacked
                return self._deployed.create(name, config, self._code(asked.code), tags=asked.tags, publish=asked.publish)
            return self._deployed.create(name, config, Code("", "", 0))

        return self._configuration(name, await self._service.change(name, verb), 201)

    async def update_code(self, request: Request) -> Reply:
        asked = request.decoded(UpdateCode)
        name = self._deployable(request.label, request.text("Qualifier"))

        def verb() -> Version:
            self._deployed.needed(name)
            code = self._code(asked)
            return self._deployed.update_code(
                name,
                code,
                architectures=asked.architectures,
                revision=asked.revision_id,
                publish=asked.publish,
                dry_run=asked.dry_run,
            )

        return self._configuration(name, await self._service.change(name, verb))

    async def update_configuration(self, request: Request) -> Reply:
        asked = request.decoded(Configured)
        name = self._deployable(request.label, request.text("Qualifier"))

        def verb() -> Version:
            latest = self._deployed.version(checks.FunctionReference(name, None))
            changed = asked.changed(latest.config.other)
            if asked.durable_config is not None:
                # `update_config` refuses a function that is not durable; its refusal fits, that of `terms(None)` is about CreateFunction.
                changed["terms"] = asked.durable_config.terms(latest.config.terms or Terms())
            return self._deployed.update_config(name, changed, revision=asked.revision_id)

        return self._configuration(name, await self._service.change(name, verb))

    async def delete(self, request: Request) -> Reply:
        asked = checks.function_reference(request.label, request.text("Qualifier"))
        name = self._deployable(asked.name, None)
        await self._service.change(name, lambda: self._deployed.delete(name, asked.qualifier))
        return Reply(204)

    # --- versions

    async def publish(self, request: Request) -> Reply:
        asked = request.decoded(Publish)
        name = self._deployable(request.label, request.text("Qualifier"))
        made = await self._service.change(
            name,
            lambda: self._deployed.publish(name, sha256=asked.sha256, description=asked.description, revision=asked.revision_id),
        )
        return self._configuration(name, made, 201)

    # --- aliases

    async def create_alias(self, request: Request) -> Reply:
        asked = request.decoded(AliasAsked)
        name = self._deployable(request.label, None)
        if asked.function_version is None:
            raise InvalidParameter("FunctionVersion: name the version of the function that the alias stands for.")
        version = asked.function_version
        made = await self._service.change(
            name,
            lambda: self._deployed.create_alias(name, asked.name, version, description=asked.description or "", weights=asked.weights),
        )
        return json_reply(made.to_wire(name), 201)

    async def update_alias(self, request: Request) -> Reply:
        asked = request.decoded(AliasAsked)
        name, alias = self._deployable(request.labels[0], None), request.labels[1]

        def verb() -> Alias:
            return self._deployed.update_alias(
                name,
                alias,
                version=asked.function_version,
                description=asked.description,
                weights=asked.weights,
                revision=asked.revision_id,
            )

        return json_reply((await self._service.change(name, verb)).to_wire(name))

    async def delete_alias(self, request: Request) -> Reply:
        name, alias = self._deployable(request.labels[0], None), request.labels[1]
        await self._service.change(name, lambda: self._deployed.delete_alias(name, alias))
        return Reply(204)

    async def alias(self, request: Request) -> Reply:
        name = checks.function_reference(request.labels[0], None).name
        return json_reply(self._deployed.alias(name, request.labels[1]).to_wire(name))

    async def aliases(self, request: Request) -> Reply:
        """ListAliases: all aliases of a function, or with `?FunctionVersion=` those that name this version."""
        name = checks.function_reference(request.label, None).name
        wanted = request.text("FunctionVersion")
        found = sorted(self._deployed.needed(name).aliases.values(), key=lambda alias: alias.name)
        shown = [one.to_wire(name) for one in found if wanted in (None, one.version, *one.weights)]
        return json_reply(page("Aliases", shown, request.text("Marker"), request.number("MaxItems")))

    # --- shared

    def _deployable(self, name: str, qualifier: str | None) -> str:
        asked = checks.function_reference(name, qualifier)
        if asked.qualifier not in (None, "$LATEST"):
            raise InvalidParameter(f"FunctionName: only $LATEST can be changed, not {asked.qualifier}.")
        self._service.lookup.check_deployed(asked.name)
        return asked.name

    def _code(self, asked: CodeAsked) -> Code:
        if asked.zip_file is not None:
            return self._deployed.keeper.add_zip(asked.zip_file)
        if asked.bucket == LOCAL_BUCKET and asked.key:
            folder = Path(asked.key)
            if not folder.is_absolute():
                raise InvalidParameter(f"S3Key: the path of a folder in the bucket {LOCAL_BUCKET!r} must be absolute.")
            return self._service.code_of(FolderCode(folder))
        raise InvalidParameter(
            f"Code: send a ZipFile, or S3Bucket={LOCAL_BUCKET!r} with a folder of the server's machine as S3Key. S3 is not read here."
        )

    def _configuration(self, name: str, version: Version, status: int = 200) -> Reply:
        found = FoundFunction(name=name, version=version.version, terms=version.config.terms, about=about(version))
        qualifier = None if version.version == "$LATEST" else version.version
        return json_reply(configuration(found, checks.function_arn(name, qualifier), values=True), status)
