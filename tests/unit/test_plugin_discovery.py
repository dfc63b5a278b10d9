"""Which plugins a function gets: the same as with the official SDK, accepted and refused alike."""

from __future__ import annotations

from importlib import import_module, metadata
from types import ModuleType
from typing import Any

import pytest

from holdfast import DurableContext, durable_execution
from holdfast.durable.exceptions import PluginLoadError
from holdfast.durable.plugin import DurableInstrumentationPlugin, InvocationStartInfo
from holdfast.durable.plugin_discovery import PLUGIN_ENTRY_POINT_GROUP, PLUGIN_ENVIRONMENT_VARIABLE, load_configured_plugins

OURS, OFFICIAL = "holdfast.durable", "aws_durable_execution_sdk_python"


class Factory:
    def create_plugin(self, info: InvocationStartInfo) -> DurableInstrumentationPlugin:
        return DurableInstrumentationPlugin()


class OfItself(DurableInstrumentationPlugin):
    @classmethod
    def create_plugin(cls, info: InvocationStartInfo) -> OfItself:
        return cls()


class Static:
    @staticmethod
    def create_plugin(info: InvocationStartInfo) -> DurableInstrumentationPlugin:
        return DurableInstrumentationPlugin()


class Lax:
    def create_plugin(self, info: Any = None, *more: Any) -> DurableInstrumentationPlugin:
        return DurableInstrumentationPlugin()


class Wide:
    def create_plugin(self) -> DurableInstrumentationPlugin:
        return DurableInstrumentationPlugin()


class Text:
    create_plugin = "a plugin"


class Held:
    create_plugin = Static().create_plugin


class ByC:
    create_plugin = print


class Grouped(Factory):
    __durable_registration_api__ = 1
    exclusive_group: Any = "tracing"

    def __init__(self) -> None:
        self.results: list[bool] = []

    def on_registration_result(self, registered: bool) -> None:
        self.results.append(registered)


class Heir(Grouped):
    """Without a mark of its own: what it calls by the same names is something else."""

    exclusive_group = 7

    def on_registration_result(self, registered: bool) -> None:
        raise AssertionError("this is not the callback")


class OtherGroup(Grouped):
    __durable_registration_api__ = 1
    exclusive_group = "audit"


class Alone(Factory):
    __durable_registration_api__ = 1
    exclusive_group = "audit"


class Ungrouped(Grouped):
    __durable_registration_api__ = 2


class Nameless(Grouped):
    __durable_registration_api__ = 1
    exclusive_group = " "


class Unread(Grouped):
    __durable_registration_api__ = 1

    def on_registration_result(self, registered: bool) -> None:
        raise ValueError("a factory's own")


one = Factory()
two = Grouped()


def broken() -> None:
    """Is no factory."""


INSTALLED = {"one": "one", "two": "two", "broken": "broken", "missing": "nowhere", "class": "Factory", "double": "one"}


@pytest.fixture(autouse=True)
def installed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Entry points of this very module, one of them twice."""
    points = [metadata.EntryPoint(name, f"{__name__}:{attribute}", PLUGIN_ENTRY_POINT_GROUP) for name, attribute in INSTALLED.items()]
    points.append(metadata.EntryPoint("double", f"{__name__}:two", PLUGIN_ENTRY_POINT_GROUP))
    points.append(metadata.EntryPoint("elsewhere", f"{__name__}:one", "another.group"))

    def entry_points(*, group: str) -> list[metadata.EntryPoint]:
        return [point for point in points if point.group == group]

    monkeypatch.setattr(metadata, "entry_points", entry_points)


def loaded(root: str, plugins: Any, names: str | None) -> Any:
    """What a package makes of it: the factories, or that it refuses."""
    module: ModuleType = import_module(f"{root}.plugin_discovery")
    refusal: type[Exception] = import_module(f"{root}.exceptions").PluginLoadError
    try:
        return module.load_configured_plugins(plugins, environment={} if names is None else {PLUGIN_ENVIRONMENT_VARIABLE: names})
    except refusal:
        return "refused"


EXPLICIT: list[Any] = [
    None, [], [one], [one, two], [one, one], [OfItself], [Static], [Static()], [Lax()], [Lax], [Held()], [Held], [ByC()], [Factory],
    [OfItself()], [Wide()], [Text()], [object()], [None], [DurableInstrumentationPlugin], [lambda info: None], [one, "text"],
    [two, Grouped()], [two, Heir()], [two, OtherGroup()], [two, Alone()], [two, Ungrouped()], [Ungrouped(), Ungrouped()], [Nameless()],
    [Unread()], [OtherGroup(), OtherGroup()],
]  # fmt: skip


@pytest.mark.parametrize("plugins", EXPLICIT)
def test_the_same_plugins_are_accepted_in_code(plugins: Any) -> None:
    theirs = loaded(OFFICIAL, plugins, None)
    assert theirs in ("refused", plugins or [])
    assert loaded(OURS, plugins, None) == theirs


@pytest.mark.parametrize(
    "names",
    ["", "  ", "one", " one , two ", "two,one", "one,,two", ",", "one,one", "unknown", "elsewhere", "broken", "missing", "class", "double"],
)
@pytest.mark.parametrize("plugins", [None, [one], [two], [Grouped()]], ids=["none", "one", "two", "grouped"])
def test_the_same_names_are_accepted_in_the_environment(names: str, plugins: Any) -> None:
    assert loaded(OURS, plugins, names) == loaded(OFFICIAL, plugins, names)


def test_the_environment_is_read_where_a_function_is_decorated(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(PLUGIN_ENVIRONMENT_VARIABLE, "two")

    @durable_execution(plugins=[one])
    def handler(event: Any, context: DurableContext) -> None: ...

    monkeypatch.delenv(PLUGIN_ENVIRONMENT_VARIABLE)

    @durable_execution
    def bare(event: Any, context: DurableContext) -> None: ...

    assert list(handler.plugins) == [one, two]
    assert list(bare.plugins) == []


def test_what_is_both_written_down_and_named_is_there_once(caplog: pytest.LogCaptureFixture) -> None:
    assert load_configured_plugins([one], environment={PLUGIN_ENVIRONMENT_VARIABLE: "one,two"}) == [one, two]
    assert "given in the code already" in caplog.text


@pytest.mark.parametrize(
    "plugins, names, told",
    [
        ([Factory], "", "plugins[0] must be a plugin factory"),
        ([one, Factory], "", "It is the class tests.unit.test_plugin_discovery.Factory"),
        ([broken], "", "It is the function tests.unit.test_plugin_discovery.broken"),
        ([OfItself()], "", ""),
        ([object()], "", "It is an instance of builtins.object. Pass an instance of a factory: plugins=[MyFactory()]."),
        ([], "unknown", "no installed package has it. Installed: broken, class, double, missing, one, two."),
        ([], "one,,two", "a name is empty. Remove the comma that is too much."),
        ([], "one,one", "'one' is there twice"),
        ([], "missing", "could not be imported from 'tests.unit.test_plugin_discovery:nowhere'"),
        ([], "double", "is provided by several packages"),
        ([], "class", "Let the entry point 'tests.unit.test_plugin_discovery:Factory' name an instance of a factory."),
        ([two, Grouped()], "", "Only one plugin of the group 'tracing' can be used"),
        ([Nameless()], "", "must be None or a text that is not empty"),
    ],
)
def test_a_mistake_says_what_is_wrong_and_what_to_do(plugins: Any, names: str, told: str) -> None:
    if not told:
        load_configured_plugins(plugins, environment={})
        return
    with pytest.raises(PluginLoadError) as refused:
        load_configured_plugins(plugins, environment={PLUGIN_ENVIRONMENT_VARIABLE: names})
    assert told in str(refused.value)
    assert refused.value.code == "plugin_load_error"


def test_a_function_with_a_mistake_is_not_made() -> None:
    with pytest.raises(PluginLoadError):

        @durable_execution(plugins=[Factory])  # type: ignore[list-item]
        def handler(event: Any, context: DurableContext) -> None: ...


def test_factories_hear_once_whether_they_are_in_use(caplog: pytest.LogCaptureFixture) -> None:
    used, heir, silent = Grouped(), Heir(), Ungrouped()
    load_configured_plugins([one, used], environment={})
    assert used.results == [True]
    load_configured_plugins([heir, silent], environment={})
    assert (heir.results, silent.results) == ([True], [])
    refused = Grouped()
    with pytest.raises(PluginLoadError):
        load_configured_plugins([refused, refused, Heir()], environment={})
    assert refused.results == [False]
    assert not caplog.records
    load_configured_plugins([Unread()], environment={})
    assert "on_registration_result raised; ignored" in caplog.text
