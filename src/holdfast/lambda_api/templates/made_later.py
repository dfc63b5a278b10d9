"""What a deployment may add to a template: resources that SAM makes, and what loops and macros make. A local run makes none of it,
except the version and the alias of AutoPublishAlias."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

_TRANSFORMS: Final = ("AWS::Serverless-2016-10-31", "AWS::LanguageExtensions")
_SAM: Final = "AWS::Serverless::"
_SAM_MAKES: Final = ("Serverless", "CodeDeployServiceRole", "ApiGatewayDomainName")
"""The beginnings of the logical ids of resources that SAM makes for several others, such as `ServerlessRestApi`."""


def macros(document: Mapping[str, Any]) -> Sequence[Any]:
    """The macros in the Transform of a template. They are not applied here."""
    named = document.get("Transform") or []
    return [macro for macro in (named if isinstance(named, list) else [named]) if macro not in _TRANSFORMS]


def may_grow(document: Mapping[str, Any], section: str) -> bool:
    """Whether a macro or a loop (`Fn::Transform`, `Fn::ForEach`) may add members to this section of the template."""
    return bool(macros(document)) or any(str(name).startswith("Fn::") for name in (*document, *(document.get(section) or ())))


def may_make(document: Mapping[str, Any], name: str) -> bool:
    """Whether a deployment may make a resource of this name, which the template does not define. SAM makes further resources for each
    resource of its own types; their logical ids begin with the id of that resource. A loop or a macro may make any resource."""
    resources = document["Resources"].items()
    sam = [own for own, about in resources if isinstance(about, dict) and str(about.get("Type")).startswith(_SAM)]
    return may_grow(document, "Resources") or name.startswith((*_SAM_MAKES, *sam))
