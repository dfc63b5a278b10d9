"""Intrinsic functions, as far as a local run can resolve them. Other values are `UNKNOWN`; in most cases a warning names their place."""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Callable, Mapping
from typing import Any, Final

from holdfast.lambda_api.operations.checks import function_arn
from holdfast.lambda_api.templates.made_later import may_grow, may_make
from holdfast.lambda_api.templates.yaml_text import YamlDocument, YamlPath
from holdfast.model.deploy_errors import TemplateInvalid
from holdfast.model.ids import ACCOUNT, REGION

ALIAS: Final = "AWS::Lambda::Alias"
VERSION: Final = "AWS::Lambda::Version"
MAX_TEXT: Final = 256 * 1024
"""The most characters of a text in a template, and of a text that an intrinsic function makes (`Fn::Base64` may make a longer one)."""
_VARIABLE: Final = re.compile(r"\$\{(!?)([^}]*)(\}|\Z)")  # also one without its }, else each of many would be searched to the end
_DYNAMIC: Final = "{{resolve:"
_NAMES: Final = ("TableName", "BucketName", "FunctionName", "LogGroupName", "Name")
"""Properties with the name of a resource. For these resources `Ref` returns this name."""
_OTHER_NAMES: Final = ("QueueName", "TopicName", "StateMachineName")
"""Properties with the name of a resource for which `Ref` returns an address. Only a deployment knows the address; here it is the name."""


class _Unknown:
    """A value that cannot be known in a local run."""

    def __repr__(self) -> str:
        return "UNKNOWN"


class _NoValue:
    """`AWS::NoValue`: the property is treated as absent."""


UNKNOWN: Final = _Unknown()
NO_VALUE: Final = _NoValue()


class Resolver:
    """Resolves the intrinsic functions in values of one template. `stack` is the value of `AWS::StackName`."""

    def __init__(self, text: YamlDocument, parameters: Mapping[str, str], *, stack: str) -> None:
        self._text = text
        self._document: dict[str, Any] = text.value
        self._conditions: dict[str, bool | None] = {}
        self._warnings: dict[str, None] = {}
        self.names: dict[str, str] = {}
        """Names of the functions, by logical id."""
        self.aliases: dict[str, str] = {}
        """The aliases of AutoPublishAlias, by the logical id of their function."""
        self._pseudo: dict[str, Any] = {
            "AWS::AccountId": ACCOUNT,
            "AWS::Region": REGION,
            "AWS::Partition": "aws",
            "AWS::URLSuffix": "amazonaws.com",
            "AWS::StackName": stack,
            "AWS::StackId": f"arn:aws:cloudformation:{REGION}:{ACCOUNT}:stack/{stack}/local",
            "AWS::NotificationARNs": [],
            "AWS::NoValue": NO_VALUE,
        }
        self._parameters = self._given(parameters)
        self._functions: dict[str, Callable[[Any, YamlPath], Any]] = {
            "Ref": self._ref,
            "Condition": lambda value, path: self._condition(value, path),
            "Fn::And": lambda value, path: self._all(value, path, all),
            "Fn::Base64": self._base64,
            "Fn::Equals": self._equals,
            "Fn::FindInMap": self._find_in_map,
            "Fn::GetAtt": self._get_att,
            "Fn::If": self._if,
            "Fn::ImportValue": lambda value, path: self._unknown(path, "Fn::ImportValue: what other stacks export is not known here"),
            "Fn::Join": self._join,
            "Fn::Length": self._length,
            "Fn::Not": lambda value, path: _not(self.condition_value(self._list(value, path, 1)[0], path)),
            "Fn::Or": lambda value, path: self._all(value, path, any),
            "Fn::Select": self._select,
            "Fn::Split": self._split,
            "Fn::Sub": self._sub,
            "Fn::ToJsonString": self._to_json,
        }

    # --- the verbs

    def warn(self, path: YamlPath, message: str) -> None:
        """Add a warning with its place in the template."""
        self._warnings.setdefault(f"{self._text.place(path)}: {message}")

    @property
    def warnings(self) -> tuple[str, ...]:
        return tuple(self._warnings)

    def wrong(self, path: YamlPath, message: str) -> TemplateInvalid:
        """An error with its place in the template."""
        return TemplateInvalid(f"{self._text.place(path)}: {message}")

    def value(self, value: Any, path: YamlPath) -> Any:
        """A value with all intrinsic functions resolved. A part that is not known here becomes UNKNOWN. A part that is `AWS::NoValue` is
        left out; if the whole value is that, NO_VALUE is returned. Raises TemplateInvalid if a function has a wrong form or
        names something that does not exist."""
        if isinstance(value, list):
            parts = [self.value(part, (*path, number)) for number, part in enumerate(value)]
            return [part for part in parts if part is not NO_VALUE]
        if isinstance(value, str):
            return self._made(value, path)
        if not isinstance(value, dict):
            return value
        if len(value) == 1:
            ((name, given),) = value.items()
            if name in self._functions:
                return self._functions[name](given, (*path, name))
            if name.startswith("Fn::"):
                return self._unknown((*path, name), f"{name} is not resolved here")
        parts_by_key = {key: self.value(part, (*path, key)) for key, part in value.items()}
        return {key: part for key, part in parts_by_key.items() if part is not NO_VALUE}

    def includes(self, resource: Mapping[str, Any], path: YamlPath) -> bool:
        """Whether a resource has no condition, or one that is true. If the condition is unknown: False, with a warning. Raises
        TemplateInvalid if the template has no such condition."""
        name = resource.get("Condition")
        if name is None:
            return True
        if not isinstance(name, str):
            raise self.wrong((*path, "Condition"), "must be the name of a condition")
        holds = self._condition(name, (*path, "Condition"))
        if holds is None:
            self.warn(path, f"the condition {name} cannot be decided here; the resource is left out")
        return holds is True

    # --- parameters and conditions

    def _given(self, parameters: Mapping[str, str]) -> dict[str, Any]:
        declared = self._section("Parameters")
        self.parameters = frozenset(declared)
        found: dict[str, Any] = {}
        for name, about in declared.items():
            path: YamlPath = ("Parameters", name)
            if not isinstance(about, dict):
                raise self.wrong(path, "a parameter must be a mapping with a Type")
            kind = str(about.get("Type", "String"))
            given = parameters.get(name, about.get("Default"))
            allowed = about.get("AllowedValues")
            if name in parameters and isinstance(allowed, list) and given not in [str(value) for value in allowed]:
                raise self.wrong(path, f"{given!r} is not allowed; allowed are {', '.join(map(str, allowed))}")
            if given is None or (kind.startswith("AWS::SSM::") and name not in parameters):  # its default is the name of a parameter in SSM
                found[name] = UNKNOWN
            elif kind == "CommaDelimitedList" or "List<" in kind:
                found[name] = [part.strip() for part in text_of(given).split(",")]
            else:
                found[name] = text_of(given)
        return found

    def _section(self, name: str) -> dict[str, Any]:
        found = self._document.get(name) or {}
        if not isinstance(found, dict):
            raise self.wrong((name,), "must be a mapping")
        return found

    def _condition(self, name: Any, path: YamlPath) -> bool | None:
        """The value of a condition, by its name; None if it is unknown. Raises TemplateInvalid if there can be no such condition."""
        conditions = self._section("Conditions")
        if not isinstance(name, str) or (name not in conditions and not may_grow(self._document, "Conditions")):
            raise self.wrong(path, f"there is no condition {name!r:.100}")
        if name not in self._conditions:
            self._conditions[name] = None  # a condition that refers to itself is unknown, and so is one that a deployment makes
            self._conditions[name] = self.condition_value(conditions.get(name), ("Conditions", name))
        return self._conditions[name]

    def condition_value(self, value: Any, path: YamlPath) -> bool | None:
        """The value of a condition's expression; None if it is unknown. Raises TemplateInvalid if it is neither true nor false."""
        found = self.value(value, path)
        if found is UNKNOWN or found is None:
            return None
        if isinstance(found, bool):
            return found
        if isinstance(found, str) and found.lower() in ("true", "false"):
            return found.lower() == "true"
        raise self.wrong(path, "must be a condition, or true or false")

    def _all(self, value: Any, path: YamlPath, join: Callable[[list[bool]], bool]) -> Any:
        if not isinstance(value, list) or not value:
            raise self.wrong(path, "must be a list of conditions")
        found = [self.condition_value(part, (*path, number)) for number, part in enumerate(value)]
        decisive = join is any
        if decisive in found:
            return decisive
        return UNKNOWN if None in found else join([bool(one) for one in found])

    def _equals(self, value: Any, path: YamlPath) -> Any:
        left, right = (self.value(part, (*path, number)) for number, part in enumerate(self._list(value, path, 2)))
        if UNKNOWN in (left, right):
            return UNKNOWN
        return text_of(left) == text_of(right) if not isinstance(left, list | dict) else left == right

    def _if(self, value: Any, path: YamlPath) -> Any:
        name, yes, no = self._list(value, path, 3)
        holds = self._condition(name, path)
        if holds is None:
            return self._unknown(path, f"the condition {name} cannot be decided here")
        return self.value(yes if holds else no, (*path, 1 if holds else 2))

    # --- references

    def _ref(self, name: Any, path: YamlPath) -> Any:
        if not isinstance(name, str):
            raise self.wrong(path, "must be the name of a parameter or of a resource")
        if name in self._pseudo:
            return self._pseudo[name]
        if name in self._parameters:
            found = self._parameters[name]
            return self._unknown(path, f"the parameter {name} has no value; give one with --parameter") if found is UNKNOWN else found
        if name in self.names:
            return self.names[name]
        resource = self._section("Resources").get(name)
        if isinstance(resource, dict):
            return self._physical(name, resource, path)
        function, _, attribute = name.partition(".")
        if function in self.names and attribute in ("Alias", "Version"):
            return self._published(function, attribute, path)
        return self._made_later(name, path, f"there is no parameter and no resource {name!r:.100}")

    def _physical(self, name: str, resource: Mapping[str, Any], path: YamlPath) -> Any:
        """What `Ref` gives for a resource that is not a function. For an alias its ARN, or UNKNOWN if its function or its name is not known
        here. For a version UNKNOWN. For any other resource, which this server does not make: the name that its properties give, or its
        logical id (`name`) if they give none."""
        kind, properties = resource.get("Type"), resource.get("Properties")
        given: dict[str, Any] = properties if isinstance(properties, dict) else {}
        if kind == ALIAS:
            function, alias = (self.value(given.get(member), path) for member in ("FunctionName", "Name"))
            return function_arn(function_named(function), alias) if isinstance(function, str) and isinstance(alias, str) else UNKNOWN
        if kind == VERSION:
            return self._unknown(path, "a version's number is known only when it is published")
        for member in (*_NAMES, *_OTHER_NAMES):
            own = self.value(given.get(member), path)
            if isinstance(own, str):
                if member in _OTHER_NAMES:
                    self.warn(path, f"{kind} is not made here; {own!r} is used instead")
                return own
        self.warn(path, f"{kind} is not made here; {name!r} is used instead")
        return name

    def _published(self, function: str, attribute: str, path: YamlPath) -> Any:
        """The value of SAM's references `FUNCTION.Alias` (an ARN) and `FUNCTION.Version` (unknown). Raises TemplateInvalid if the function
        has no AutoPublishAlias."""
        alias = self.aliases.get(function)
        if alias is None:
            raise self.wrong(path, f"{function} has no AutoPublishAlias, so it has no alias and no version to refer to")
        if attribute == "Alias":
            return function_arn(self.names[function], alias)
        return self._unknown(path, "a version's number is known only when it is published")

    def _made_later(self, name: str, path: YamlPath, absent: str) -> _Unknown:
        """UNKNOWN, with a warning. Raises TemplateInvalid, with the message `absent`, if no deployment makes a resource of this name."""
        if not may_make(self._document, name):
            raise self.wrong(path, absent)
        return self._unknown(path, f"the template does not define {name}; SAM, a loop or a macro may make it in a deployment")

    def _get_att(self, value: Any, path: YamlPath) -> Any:
        parts = value.split(".", 1) if isinstance(value, str) else value
        if not isinstance(parts, list) or len(parts) != 2 or not isinstance(parts[0], str):
            raise self.wrong(path, "must name a resource and an attribute, such as RESOURCE.Arn")
        resource, attribute = parts
        if resource in self.names and attribute == "Arn":
            return function_arn(self.names[resource])
        if resource in self.names and attribute in ("Alias", "Version"):  # `Fn::Sub` may refer to these too
            return self._published(resource, attribute, path)
        if resource not in self._section("Resources"):
            return self._made_later(resource, path, f"there is no resource {resource!r:.100}")
        return self._unknown(path, f"{resource}.{attribute} is known only where it is deployed")

    def _find_in_map(self, value: Any, path: YamlPath) -> Any:
        if not isinstance(value, list) or len(value) not in (3, 4):
            raise self.wrong(path, "must be a list with the name of a map and two keys")
        keys = [self.value(part, (*path, number)) for number, part in enumerate(value[:3])]
        if UNKNOWN in keys:
            return UNKNOWN
        found: Any = self._section("Mappings")
        for key in keys:
            if not isinstance(found, dict) or text_of(key) not in found:
                if len(value) == 4 and isinstance(value[3], dict) and "DefaultValue" in value[3]:
                    return self.value(value[3]["DefaultValue"], (*path, 3, "DefaultValue"))
                why = f"Mappings has no {'.'.join(map(text_of, keys))}"
                if may_grow(self._document, "Mappings"):
                    return self._unknown(path, f"{why} here")
                raise self.wrong(path, why)
            found = found[text_of(key)]
        return found

    # --- texts

    def _sub(self, value: Any, path: YamlPath) -> Any:
        own: dict[str, Any] = {}
        if isinstance(value, list):
            text, given = self._list(value, path, 2)
            if not isinstance(given, dict):
                raise self.wrong(path, "the second element of the list must be a mapping of names to values")
            own = {name: self.value(part, (*path, 1, name)) for name, part in given.items()}
        else:
            text = value
        if not isinstance(text, str):
            raise self.wrong(path, "must be a text")
        unknown = False

        def put(found: re.Match[str]) -> str:
            nonlocal unknown
            name = found[2].strip()
            if found[1] or not found[3]:
                return f"${{{found[2]}}}" if found[3] else found[0]
            put_in = own[name] if name in own else self._get_att(name, path) if "." in name else self._ref(name, path)
            unknown |= put_in is UNKNOWN
            return "" if put_in in (UNKNOWN, NO_VALUE) else text_of(put_in)

        made = self._made(_VARIABLE.sub(put, text), path)
        return UNKNOWN if unknown else made

    def _join(self, value: Any, path: YamlPath) -> Any:
        delimiter, parts = self._list(value, path, 2)
        found = self.value(parts, (*path, 1))
        if found is UNKNOWN or (isinstance(found, list) and UNKNOWN in found):
            return UNKNOWN
        if not isinstance(found, list) or not isinstance(delimiter, str):
            raise self.wrong(path, "must be a list with a delimiter and a list of texts")
        return self._made(delimiter.join(map(text_of, found)), path)

    def _split(self, value: Any, path: YamlPath) -> Any:
        delimiter, given = self._list(value, path, 2)
        found = self.value(given, (*path, 1))
        if found is UNKNOWN:
            return UNKNOWN
        if not isinstance(delimiter, str) or not delimiter:
            raise self.wrong(path, "the first element of the list must be a delimiter: a text that is not empty")
        return text_of(found).split(delimiter)

    def _select(self, value: Any, path: YamlPath) -> Any:
        number, given = (self.value(part, (*path, at)) for at, part in enumerate(self._list(value, path, 2)))
        if UNKNOWN in (number, given):
            return UNKNOWN
        if not isinstance(given, list) or not text_of(number).isdigit() or int(text_of(number)) >= len(given):
            raise self.wrong(path, f"there is no item {text_of(number)!r:.20} to select; items are counted from 0")
        return given[int(text_of(number))]

    def _base64(self, value: Any, path: YamlPath) -> Any:
        found = self.value(value, path)
        return UNKNOWN if found is UNKNOWN else base64.b64encode(text_of(found).encode()).decode()

    def _length(self, value: Any, path: YamlPath) -> Any:
        found = self.value(value, path)
        if found is UNKNOWN:
            return UNKNOWN
        if not isinstance(found, list):
            raise self.wrong(path, "must be a list")
        return len(found)

    def _to_json(self, value: Any, path: YamlPath) -> Any:
        found = self.value(value, path)
        if not isinstance(found, dict | list):
            return UNKNOWN
        try:
            return self._made(json.dumps(found, separators=(",", ":")), path)
        except TypeError:  # a part of it is UNKNOWN; there is a warning already
            return UNKNOWN

    def _made(self, text: str, path: YamlPath) -> Any:
        """Return a text; UNKNOWN, with a warning, if it has a dynamic reference (`{{resolve:…}}`). Raises TemplateInvalid if it is too
        long."""
        if len(text) > MAX_TEXT:
            raise self.wrong(path, f"this makes a text of {len(text)} characters; at most {MAX_TEXT} are allowed")
        if _DYNAMIC in text:
            return self._unknown(path, f"the value of {_DYNAMIC}…}}}} is known only where it is deployed")
        return text

    def _list(self, value: Any, path: YamlPath, length: int) -> list[Any]:
        if not isinstance(value, list) or len(value) != length:
            raise self.wrong(path, f"must be a list with {length} elements")
        return value

    def _unknown(self, path: YamlPath, why: str) -> _Unknown:
        self.warn(path, f"{why}; what needs it is left out")
        return UNKNOWN


def _not(value: bool | None) -> Any:
    return UNKNOWN if value is None else not value


def function_named(text: str) -> str:
    """The name of a function, from its name or its ARN."""
    return text.rpartition(":function:")[2].partition(":")[0]


def text_of(value: Any) -> str:
    """A scalar in CloudFormation's text form, such as `true`; empty for None."""
    if isinstance(value, bool):
        return "true" if value else "false"
    return "" if value is None else str(value)
