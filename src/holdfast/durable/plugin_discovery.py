"""Which plugins a function has: those that its decorator gets, and after them those that an environment variable names.

`DURABLE_EXECUTION_PLUGINS=tracing,audit` names entry points of the group `aws_durable_execution.plugins`. The factories of the plugins are
found once, when the function is decorated. If a name is not found, or an object is not a factory, PluginLoadError is raised at that moment.
"""

from __future__ import annotations

import inspect
import logging
import os
from collections.abc import Iterable, Mapping, Sequence
from importlib import metadata
from typing import Any, cast

from holdfast.durable.exceptions import PluginLoadError
from holdfast.durable.plugin import DurableInstrumentationPluginFactory

logger = logging.getLogger(__name__)

PLUGIN_ENTRY_POINT_GROUP = "aws_durable_execution.plugins"
PLUGIN_ENVIRONMENT_VARIABLE = "DURABLE_EXECUTION_PLUGINS"

_MARK = "__durable_registration_api__"
_WANTED = "a plugin factory: an object with a method create_plugin(info) that returns a DurableInstrumentationPlugin"


def load_configured_plugins(
    explicit_plugins: Sequence[DurableInstrumentationPluginFactory] | None, *, environment: Mapping[str, str] | None = None
) -> list[DurableInstrumentationPluginFactory]:
    """The factories of a function, in the order in which their plugins are called: first `explicit_plugins`, those in the code (None:
    none), then those that the environment names. A factory that is given in the code and also named by the environment is used once.
    `environment` None means `os.environ`. Raises PluginLoadError if a factory is not found or not valid, or if two factories have the same
    `exclusive_group`."""
    factories = list(explicit_plugins or ())
    met: list[object] = list(factories)
    """All objects that were found, also those that are no factories. If loading fails, `on_registration_result(False)` is called on those
    that have this method and the mark, so that they can free their resources."""
    try:
        for place, factory in enumerate(factories):
            _check(factory, f"plugins[{place}]", "Pass an instance of a factory: plugins=[MyFactory()].")
        _add_named(factories, met, os.environ if environment is None else environment)
        _check_groups(factories)
    except Exception:
        _tell(met, registered=False)
        raise
    _tell(factories, registered=True)
    return factories


# --- by name -----------------------------------------------------------------------------------------------------------------


def _add_named(factories: list[DurableInstrumentationPluginFactory], met: list[object], environment: Mapping[str, str]) -> None:
    names = _names(environment.get(PLUGIN_ENVIRONMENT_VARIABLE, ""))
    if not names:
        return
    try:
        installed = list(metadata.entry_points(group=PLUGIN_ENTRY_POINT_GROUP))
    except Exception as error:
        raise PluginLoadError(f"The installed plugins ({PLUGIN_ENTRY_POINT_GROUP}) could not be listed: {error}") from error
    for name in names:
        entry = _only(name, installed)
        try:
            factory = entry.load()
        except Exception as error:
            raise PluginLoadError(f"The plugin {name!r} could not be imported from {entry.value!r} ({_owner(entry)}): {error}") from error
        met.append(factory)
        _check(factory, f"The plugin {name!r}", f"Let the entry point {entry.value!r} name an instance of a factory.")
        if any(factory is known for known in factories):
            logger.warning("The plugin %r is given in the code already; it is not added twice.", name)
        else:
            factories.append(factory)


def _names(text: str) -> list[str]:
    if not text.strip():
        return []
    names = [name.strip() for name in text.split(",")]
    if not all(names):
        raise PluginLoadError(f"{PLUGIN_ENVIRONMENT_VARIABLE}={text!r}: a name is empty. Remove the comma that is too much.")
    twice = [name for place, name in enumerate(names) if name in names[:place]]
    if twice:
        raise PluginLoadError(f"{PLUGIN_ENVIRONMENT_VARIABLE}={text!r}: the name {twice[0]!r} is there twice. Keep it once.")
    return names


def _only(name: str, installed: Iterable[metadata.EntryPoint]) -> metadata.EntryPoint:
    """The entry point of this name. Raises PluginLoadError if there is none, or more than one."""
    by_name: dict[str, list[metadata.EntryPoint]] = {}
    for entry in installed:
        by_name.setdefault(entry.name, []).append(entry)
    found = by_name.get(name, [])
    if not found:
        known = ", ".join(sorted(by_name)) or "none"
        raise PluginLoadError(
            f"{PLUGIN_ENVIRONMENT_VARIABLE} names the plugin {name!r}, but no installed package has it. Installed: {known}. "
            f"Install the package that provides it (entry-point group {PLUGIN_ENTRY_POINT_GROUP!r}) with the function, or correct the name."
        )
    if len(found) > 1:
        owners = ", ".join(_owner(entry) for entry in found)
        raise PluginLoadError(f"The plugin {name!r} is provided by several packages: {owners}. Remove all but one.")
    return found[0]


def _owner(entry: metadata.EntryPoint) -> str:
    return entry.dist.name if entry.dist is not None else "an unknown package"


# --- what is a factory -------------------------------------------------------------------------------------------------------


def _check(value: object, what: str, advice: str) -> None:
    if not _is_factory(value):
        raise PluginLoadError(f"{what} must be {_WANTED}. It is {_described(value)}. {advice}")


def _is_factory(value: object) -> bool:
    """Whether `create_plugin` can be called with one argument. Does not call it."""
    method = getattr(value, "create_plugin", None)
    if not callable(method):
        return False
    if isinstance(value, type) and inspect.isfunction(inspect.getattr_static(value, "create_plugin", None)):
        return False  # the value is a class, not an instance: the argument would become `self`
    try:
        inspect.signature(method).bind(None)
    except TypeError:
        return False
    except ValueError:  # a method written in C, which does not tell its arguments
        return True
    return True


def _described(value: object) -> str:
    if isinstance(value, type):
        return f"the class {_full_name(value)}"
    if inspect.isroutine(value):
        return f"the function {_full_name(value)}"
    return f"an instance of {_full_name(type(value))}"


def _full_name(named: Any) -> str:
    return f"{getattr(named, '__module__', None)}.{getattr(named, '__qualname__', None) or getattr(named, '__name__', '?')}"


# --- what a factory's class says of itself -----------------------------------------------------------------------------------


def _kind(factory: object) -> type:
    """The class in which the mark `__durable_registration_api__` of a factory is looked for: the type of the object, or the factory itself
    if it is a class. `type()` is used because an object can set `__class__` to another class."""
    return cast("type", factory) if issubclass(type(factory), type) else type(factory)


def _marked(cls: type) -> bool:
    mark = vars(cls).get(_MARK)
    return type(mark) is int and mark == 1


def _speaker(cls: type) -> type | None:
    """Of the classes that `cls` derives from, in their method resolution order and with `cls` itself: the first one that sets the mark
    `__durable_registration_api__`. None if no class sets it, or if that first one does not set it to 1."""
    nearest = next((base for base in cls.__mro__ if _MARK in vars(base)), None)
    return nearest if nearest is not None and _marked(nearest) else None


def _check_groups(factories: Iterable[object]) -> None:
    """Raise PluginLoadError if two factories have the same `exclusive_group`. The name is read only from classes with the mark
    `__durable_registration_api__`: another class may use the name `exclusive_group` for something else."""
    taken: dict[str, type] = {}
    for cls in map(_kind, factories):
        if _speaker(cls) is None:
            continue
        groups = dict.fromkeys(group for base in cls.__mro__ if _marked(base) and (group := _group(base, cls)) is not None)
        for group in groups:
            if group in taken:
                both = f"{_full_name(taken[group])} and {_full_name(cls)}"
                raise PluginLoadError(
                    f"Only one plugin of the group {group!r} can be used, but there are two: {both}. "
                    f"Remove one of them from plugins= or from {PLUGIN_ENVIRONMENT_VARIABLE}."
                )
            taken[group] = cls


def _group(base: type, cls: type) -> str | None:
    try:
        group = getattr(base, "exclusive_group", None)
    except Exception as error:
        raise PluginLoadError(f"The exclusive_group of {_full_name(cls)} cannot be read: {error}") from error
    if group is None:
        return None
    if type(group) is not str or not group.strip():
        raise PluginLoadError(f"The exclusive_group of {_full_name(cls)} must be None or a text that is not empty.")
    return group


def _tell(factories: Iterable[object], *, registered: bool) -> None:
    """Call `on_registration_result(registered)` once for each factory that has this method and whose class sets or inherits the mark
    `__durable_registration_api__ = 1`. An error that a factory raises there is logged and ignored."""
    for factory in {id(factory): factory for factory in factories}.values():
        try:
            speaker = _speaker(_kind(factory))
            callback = speaker and _callback(factory, speaker)
            if callable(callback):
                callback(registered)
        except Exception:
            logger.exception("A plugin's on_registration_result raised; ignored.")


def _callback(factory: object, speaker: type) -> object:
    """The method `on_registration_result` of `speaker`, bound to the factory; None if `speaker` has no such method. `speaker` is the
    factory's class, or the nearest class above it, that sets the mark `__durable_registration_api__`. A method of this name in a class
    below `speaker` is not used."""
    if speaker is _kind(factory):
        return getattr(factory, "on_registration_result", None)
    for base in speaker.__mro__:
        if "on_registration_result" in vars(base):
            found = vars(base)["on_registration_result"]
            return found.__get__(factory, _kind(factory)) if hasattr(found, "__get__") else found
    return None
