"""Reads a SAM or CloudFormation template and describes its functions as a deployment would."""

from __future__ import annotations

import platform
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import msgspec

from holdfast.lambda_api.functions.function_records import Config
from holdfast.lambda_api.templates.descriptions import CodeSource, DescribedFunction, FolderCode, FoundTargets, TextCode, ZipCode
from holdfast.lambda_api.templates.intrinsics import ALIAS, NO_VALUE, UNKNOWN, VERSION, Resolver, function_named, text_of
from holdfast.lambda_api.templates.made_later import macros
from holdfast.lambda_api.templates.yaml_text import YamlDocument, YamlPath, read_text
from holdfast.model.deploy_errors import TemplateInvalid
from holdfast.model.errors import HoldfastError
from holdfast.model.execution import Terms
from holdfast.model.ids import checked_function

SAM: Final = "AWS::Serverless::Function"
PLAIN: Final = "AWS::Lambda::Function"
_RUNTIMES: Final = ("python", "nodejs")
_ARCHITECTURES: Final[Mapping[str, str]] = {"aarch64": "arm64", "arm64": "arm64"}
_USED: Final = frozenset({
    "FunctionName", "Handler", "Runtime", "CodeUri", "Code", "InlineCode", "Environment", "Timeout", "MemorySize", "DurableConfig",
    "AutoPublishAlias", "Description", "Tags", "LoggingConfig", "PackageType", "Architectures", "ImageUri", "Role",
})  # fmt: skip
_NO_MATTER: Final = frozenset({
    "AssumeRolePolicyDocument", "AutoPublishAliasAllProperties", "AutoPublishCodeSha256", "CodeSigningConfigArn", "DeadLetterQueue",
    "DeadLetterConfig", "DeploymentPreference", "EphemeralStorage", "KmsKeyArn", "PermissionsBoundary", "Policies", "PropagateTags",
    "ProvisionedConcurrencyConfig", "RecursiveLoop", "ReservedConcurrentExecutions", "RolePath", "RuntimeManagementConfig", "SnapStart",
    "SourceKMSKeyArn", "Tracing", "TracingConfig", "VersionDescription", "VersionDeletionPolicy", "PublishToLatestPublished",
})  # fmt: skip
"""Properties that have no effect in a local run. There is no warning about them."""
_QUIET: Final = ("AWS::IAM::", "AWS::Logs::", "AWS::KMS::", "AWS::CloudWatch::", "AWS::Lambda::Permission", "AWS::CDK::Metadata")
"""The beginnings of the types of resources that a function does not call at run time. If the template has such a resource, there is no
warning that this server does not make it."""


def read_template(file: Path, parameters: Mapping[str, str]) -> FoundTargets:
    """The functions of a template, and warnings about what a local run does not do. Raises TemplateInvalid if the template cannot be
    used."""
    try:
        raw = file.read_bytes()
    except OSError as error:
        raise TemplateInvalid(f"{file} could not be read: {error.strerror}.") from None
    try:
        return _Template(file, raw, parameters).found()
    except RecursionError:
        raise TemplateInvalid(f"{file}: its conditions or functions are nested too deeply.") from None
    except HoldfastError as error:
        if isinstance(error, TemplateInvalid) and str(error).startswith(str(file)):
            raise
        raise TemplateInvalid(f"{file}: {error}") from None


class _Template:
    def __init__(self, file: Path, raw: bytes, parameters: Mapping[str, str]) -> None:
        self._file = file
        self._folder = file.parent
        self._text = read_text(raw)
        document = self._text.value
        if not isinstance(document, dict) or not isinstance(document.get("Resources"), dict):
            raise TemplateInvalid("this is not a valid template: it has no Resources.")
        self._resources: dict[str, Any] = {name: found for name, found in document["Resources"].items() if not name.startswith("Fn::")}
        stack = self._folder.resolve().name or "stack"
        self._resolver = Resolver(_with_globals(self._text), parameters, stack=stack)
        self._globals = self._section_of_globals(document)
        for name in sorted(set(document["Resources"]) - set(self._resources)):
            self._resolver.warn(("Resources", name), f"{name} is not resolved here; what it makes is left out")
        for macro in macros(document):
            self._resolver.warn(("Transform",), f"the transform {macro!r:.100} is not applied here")

    def found(self) -> FoundTargets:
        """Read the whole template. Raises TemplateInvalid if no function of it can be served here, if two functions have one name, or if a
        part of it is not valid."""
        wanted = dict(self._functions())
        for name, properties in wanted.items():
            self._resolver.names[name] = self._name(name, properties)
        for name, properties in wanted.items():
            alias = _Properties(self._resolver, properties, ("Resources", name, "Properties")).text("AutoPublishAlias", "")
            if alias:
                self._resolver.aliases[name] = alias
        described: dict[str, DescribedFunction] = {}
        for name, properties in wanted.items():
            one = self._described(name, properties)
            if one is not None:
                described[name] = one
        described = self._named(described)
        twice = {one.name for one in described.values() if [other.name for other in described.values()].count(one.name) > 1}
        if twice:
            raise TemplateInvalid(f"several functions are named {', '.join(sorted(twice))}. Give each function its own FunctionName.")
        if not described:
            raise TemplateInvalid(self._without_functions())
        places = {place for one in described.values() if (place := _place(one)) is not None}
        return FoundTargets(
            deployed=tuple(described.values()),
            warnings=tuple(f"{self._file}: {warning}" for warning in self._resolver.warnings),
            watched=(self._file, *sorted(places)),
            parameters=self._resolver.parameters,
        )

    def _without_functions(self) -> str:
        why = "".join(f"\n  {warning}" for warning in self._resolver.warnings[:10])
        return f"it has no function that can be served here.{why}"

    # --- resources

    def _section_of_globals(self, document: Mapping[str, Any]) -> dict[str, Any]:
        whole = document.get("Globals") or {}
        function = whole.get("Function") if isinstance(whole, dict) else {}
        if not isinstance(function or {}, dict):
            raise self._resolver.wrong(("Globals", "Function"), "must be a mapping")
        return function or {}

    def _functions(self) -> list[tuple[str, dict[str, Any]]]:
        found = []
        for name, resource in self._resources.items():
            path: YamlPath = ("Resources", name)
            if not isinstance(resource, dict) or not isinstance(resource.get("Type"), str):
                raise self._resolver.wrong(path, "a resource must be a mapping with a Type")
            kind: str = resource["Type"]
            if not self._resolver.includes(resource, path):
                continue
            if kind in (SAM, PLAIN):
                properties = resource.get("Properties") or {}
                if not isinstance(properties, dict):
                    raise self._resolver.wrong((*path, "Properties"), "must be a mapping")
                found.append((name, _merged(self._globals, properties) if kind == SAM else properties))
            elif kind not in (ALIAS, VERSION) and not kind.startswith(_QUIET):
                self._resolver.warn(path, f"{kind} is not made here")
        return found

    def _name(self, logical: str, properties: Mapping[str, Any]) -> str:
        path: YamlPath = ("Resources", logical, "Properties", "FunctionName")
        given = self._resolver.value(properties.get("FunctionName"), path)
        if given is UNKNOWN:
            self._resolver.warn(path, f"its name is not known here; it is called {logical}")
        if given in (UNKNOWN, NO_VALUE):
            given = None
        try:
            return checked_function(logical if given is None else text_of(given))
        except HoldfastError as error:
            raise self._resolver.wrong(path if given is not None else path[:2], str(error)) from None

    def _described(self, logical: str, properties: dict[str, Any]) -> DescribedFunction | None:
        path: YamlPath = ("Resources", logical, "Properties")
        warn = self._resolver.warn
        given = _Properties(self._resolver, properties, path)
        if given.text("PackageType", "Zip") == "Image" or given.value("ImageUri") is not None:
            warn(path[:2], "a container image is not run here; the function is left out")
            return None
        runtime = given.text("Runtime", "")
        if not runtime.startswith(_RUNTIMES):
            warn((*path, "Runtime"), f"the runtime {runtime or '(none)'} is not run here, only Python and Node; the function is left out")
            return None
        for ignored in sorted(set(properties) - _USED - _NO_MATTER):
            warn((*path, ignored), f"{ignored} has no effect here")
        code = self._code(given, runtime, path)
        if code is None:
            return None
        handler = given.text("Handler", "index.handler" if isinstance(code, TextCode) else "")
        if not handler:
            raise self._resolver.wrong(path, "a function needs a Handler")
        config = Config(
            handler=handler,
            runtime=runtime,
            timeout=given.number("Timeout", 3),
            memory=given.number("MemorySize", 128),
            environment=given.variables(),
            terms=given.terms(),
            description=given.text("Description", ""),
            role=given.text("Role", "") if isinstance(properties.get("Role"), str) else "",
            **given.logging(),
            other={"Architectures": given.architectures()},
        )
        name = self._resolver.names[logical]
        try:
            config.checked(name)
        except HoldfastError as error:
            member, _, why = str(error).partition(": ")
            raise self._resolver.wrong((*path, member), why) if member in properties else self._resolver.wrong(path, str(error)) from None
        alias = self._resolver.aliases.get(logical)
        tags = {key: text_of(value) for key, value in given.tags().items() if value is not UNKNOWN}
        return DescribedFunction(name=name, config=config, code=code, aliases=(alias,) if alias else (), tags=tags)

    # --- code

    def _code(self, given: _Properties, runtime: str, path: YamlPath) -> CodeSource | None:
        inline, place, code = given.value("InlineCode"), given.value("CodeUri"), given.value("Code")
        if place is None and isinstance(code, dict):
            inline, place = code.get("ZipFile", inline), code if "S3Bucket" in code else None
        elif place is None:
            place = code
        if isinstance(inline, str):
            return TextCode("index.py" if runtime.startswith("python") else "index.js", inline)
        member = "CodeUri" if "CodeUri" in given.names else "Code"
        if isinstance(place, dict) or UNKNOWN in (inline, place) or (isinstance(place, str) and place.startswith("s3://")):
            self._resolver.warn(
                (*path, member),
                "its code is on S3, or its place is not known here; the function is left out. Serve the template that `sam build` writes",
            )
            return None
        if place is not None and not isinstance(place, str):
            raise self._resolver.wrong((*path, member), "must be the path of a folder, or of a .zip or .jar file")
        where = self._folder / (place or ".")
        if where.is_dir():
            return FolderCode(where)
        if where.is_file() and where.suffix in (".zip", ".jar"):
            return ZipCode(where)
        raise self._resolver.wrong((*path, member), f"there is no folder {where}, and no .zip or .jar file of this name")

    # --- versions and aliases that are resources of their own

    def _named(self, described: dict[str, DescribedFunction]) -> dict[str, DescribedFunction]:
        for name, resource in self._resources.items():
            if resource["Type"] not in (ALIAS, VERSION) or not self._resolver.includes(resource, ("Resources", name)):
                continue
            path: YamlPath = ("Resources", name, "Properties")
            given = _Properties(self._resolver, resource.get("Properties") or {}, path)
            function = self._function_meant(given.value("FunctionName"), described)
            if function is None:
                self._resolver.warn(path, "its FunctionName names no function that is served here; this resource is left out")
                continue
            one = described[function]
            if resource["Type"] == VERSION:
                described[function] = msgspec.structs.replace(one, publish=True)
                continue
            version = given.names.get("FunctionVersion")
            if not (isinstance(version, dict) and "Fn::GetAtt" in version):
                self._resolver.warn((*path, "FunctionVersion"), "the alias names the newest version here")
            described[function] = msgspec.structs.replace(one, aliases=(*one.aliases, given.text("Name", name)))
        return described

    @staticmethod
    def _function_meant(named: Any, described: Mapping[str, DescribedFunction]) -> str | None:
        if not isinstance(named, str):
            return None
        return next((logical for logical, one in described.items() if one.name == function_named(named)), None)


class _Properties:
    """The properties of one resource, each resolved when it is read. Its methods raise TemplateInvalid for a property of a wrong kind."""

    def __init__(self, resolver: Resolver, names: Any, path: YamlPath) -> None:
        if not isinstance(names, dict):
            raise resolver.wrong(path, "must be a mapping")
        self._resolver = resolver
        self.names: dict[str, Any] = names
        self._path = path

    def value(self, name: str) -> Any:
        """A property with its intrinsic functions resolved; None if it is not given or is `AWS::NoValue`, UNKNOWN if it is not known
        here."""
        found = self._resolver.value(self.names.get(name), (*self._path, name))
        return None if found is NO_VALUE else found

    def text(self, name: str, default: str) -> str:
        """A property that must be a text or a number, as text. `default` if it is not given or not known here."""
        found = self.value(name)
        if isinstance(found, dict | list):
            raise self._resolver.wrong((*self._path, name), "must be a text")
        return default if found is None or found is UNKNOWN else text_of(found)

    def number(self, name: str, default: int) -> int:
        """A property that must be a whole number. `default` if it is not given or not known here."""
        text = self.text(name, str(default))
        if not text.isascii() or not text.isdigit() or len(text) > 12:
            raise self._resolver.wrong((*self._path, name), f"{text!r:.50} is not a number; write a whole number of 0 or more")
        return int(text)

    def members(self, name: str) -> dict[str, Any]:
        """A property that must be a mapping; empty if it is not given or not known here."""
        found = self.value(name)
        if found is None or found is UNKNOWN:
            return {}
        if not isinstance(found, dict):
            raise self._resolver.wrong((*self._path, name), "must be a mapping")
        return found

    def variables(self) -> dict[str, str]:
        """The environment variables. A variable whose value is unknown is not set."""
        path: YamlPath = (*self._path, "Environment", "Variables")
        given = self.members("Environment").get("Variables") or {}
        if given is UNKNOWN:
            return {}
        if not isinstance(given, dict):
            raise self._resolver.wrong(path, "must be a mapping")
        inner = _Properties(self._resolver, given, path)
        return {name: inner.text(name, "") for name, value in given.items() if value is not UNKNOWN}

    def terms(self) -> Terms | None:
        """The terms of executions, from DurableConfig; None if that is empty, not given or not known here: then the function is not
        durable. Raises TemplateInvalid if ExecutionTimeout is missing or not known here, or if a value is not allowed."""
        given = self.members("DurableConfig")
        path: YamlPath = (*self._path, "DurableConfig")
        if not given:
            return None
        inner = _Properties(self._resolver, given, path)
        if given.get("ExecutionTimeout") in (None, UNKNOWN):
            under = ".".join(map(str, (*path, "ExecutionTimeout")))
            why = "".join(f"\n  {warning}" for warning in self._resolver.warnings if warning.startswith(under))  # it says what is unknown
            raise self._resolver.wrong(path, f"a durable function needs an ExecutionTimeout whose value is known here.{why}")
        try:
            return Terms(inner.number("ExecutionTimeout", 0), inner.number("RetentionPeriodInDays", Terms().retention_days)).checked()
        except TemplateInvalid:
            raise
        except HoldfastError as error:
            raise self._resolver.wrong(path, str(error)) from None

    def logging(self) -> dict[str, Any]:
        """The members of a Config that come from LoggingConfig."""
        path: YamlPath = (*self._path, "LoggingConfig")
        given = self.members("LoggingConfig")
        inner = _Properties(self._resolver, given, path)
        if "LogGroup" in given:
            self._resolver.warn(
                (*path, "LogGroup"), "the log group of a function is /aws/lambda/ and its name here; LogGroup has no effect"
            )
        form = inner.text("LogFormat", "Text")
        if form not in ("Text", "JSON"):
            raise self._resolver.wrong((*path, "LogFormat"), f"{form!r:.50} is neither Text nor JSON")
        levels = {"application_log_level": inner.text("ApplicationLogLevel", ""), "system_log_level": inner.text("SystemLogLevel", "")}
        return {"log_format": form, **{name: level or None for name, level in levels.items()}}

    def architectures(self) -> list[str]:
        """The architectures that the template names, else x86_64. The function always runs on this machine's architecture; a warning says
        so if the template names another one."""
        found = self.value("Architectures")
        here = _ARCHITECTURES.get(platform.machine(), "x86_64")
        if not isinstance(found, list):
            return ["x86_64"]
        named = [text_of(one) for one in found]
        if named != [here]:
            self._resolver.warn((*self._path, "Architectures"), f"the function runs on this machine's architecture, which is {here}")
        return named

    def tags(self) -> dict[str, Any]:
        """The tags: a mapping in SAM, a list of `Key` and `Value` in CloudFormation. A value may be UNKNOWN."""
        found = self.value("Tags")
        if isinstance(found, list):
            return {text_of(tag.get("Key")): tag.get("Value") for tag in found if isinstance(tag, dict)}
        return found if isinstance(found, dict) else {}


def _place(one: DescribedFunction) -> Path | None:
    match one.code:
        case FolderCode(place) | ZipCode(place):
            return place
        case TextCode():
            return None


def _merged(common: Mapping[str, Any], own: Mapping[str, Any]) -> dict[str, Any]:
    """Merge Globals (`common`) with a function's own properties (`own`): mappings are merged, and lists are joined. Other values, also
    Architectures and intrinsic functions, are replaced by the function's own."""
    found: dict[str, Any] = dict(common)
    for name, value in own.items():
        before = found.get(name)
        if isinstance(before, dict) and isinstance(value, dict) and not _is_call(before) and not _is_call(value):
            found[name] = _merged(before, value)
        elif isinstance(before, list) and isinstance(value, list) and name != "Architectures":
            found[name] = [*before, *value]
        else:
            found[name] = value
    return found


def _is_call(value: Mapping[str, Any]) -> bool:
    """Whether this mapping is an intrinsic function. Such a mapping is not merged with another one."""
    return len(value) == 1 and ("Ref" in value or next(iter(value)).startswith("Fn::"))


def _with_globals(text: YamlDocument) -> YamlDocument:
    """The same text, but properties that a function takes from Globals get the line numbers of Globals."""
    common = {path[2:]: line for path, line in text.lines.items() if path[:2] == ("Globals", "Function")}
    resources = text.value["Resources"]
    functions = [name for name, found in resources.items() if isinstance(found, dict) and found.get("Type") == SAM] if common else []
    lines = {("Resources", name, "Properties", *path): line for name in functions for path, line in common.items() if path}
    return YamlDocument(text.value, {**lines, **text.lines})
