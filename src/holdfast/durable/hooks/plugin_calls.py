"""Calls the plugins of one invocation. An error that a plugin raises is logged and does not reach the execution. An exit
(KeyboardInterrupt, SystemExit or GeneratorExit) ends the invocation; but in `on_operation_change`, an exit is only logged."""

from __future__ import annotations

import inspect
import logging
from collections.abc import Iterable

from holdfast.durable.plugin import (
    DurableInstrumentationPlugin,
    DurableInstrumentationPluginFactory,
    InvocationEndInfo,
    InvocationStartInfo,
    OperationChangeInfo,
    OperationEndInfo,
    OperationStartInfo,
    PropagationInput,
    PropagationMetadata,
    UserFunctionEndInfo,
    UserFunctionStartInfo,
)

log = logging.getLogger("holdfast.plugins")

Info = (
    InvocationStartInfo
    | InvocationEndInfo
    | OperationStartInfo
    | OperationEndInfo
    | OperationChangeInfo
    | UserFunctionStartInfo
    | UserFunctionEndInfo
)

_HOOKS: dict[type, str] = {
    InvocationStartInfo: "on_invocation_start",
    InvocationEndInfo: "on_invocation_end",
    OperationStartInfo: "on_operation_start",
    OperationEndInfo: "on_operation_end",
    OperationChangeInfo: "on_operation_change",
    UserFunctionStartInfo: "on_user_function_start",
    UserFunctionEndInfo: "on_user_function_end",
}

# These are not errors of a plugin but requests to end the thread. A CancelledError is an error: it comes from a loop of the plugin's own.
_STOP = (KeyboardInterrupt, SystemExit, GeneratorExit)


class Plugins:
    """The plugins of one invocation, in their order."""

    def __init__(self, factories: Iterable[DurableInstrumentationPluginFactory], info: InvocationStartInfo) -> None:
        self._all = [plugin for factory in factories if (plugin := _made(factory, info)) is not None]
        self._begun: list[DurableInstrumentationPlugin] = []
        """The plugins that were called at the start; only these are called later."""
        self.want_changes = any(type(plugin).on_operation_change is not _NO_CHANGES for plugin in self._all)
        """Whether a plugin overrides on_operation_change. If not, the dictionary of all operations need not be made."""

    def begin(self, info: InvocationStartInfo) -> None:
        """Report the start of the invocation. A plugin that raises here is still called later, because it may have something to clean up at
        the end."""
        for plugin in self._all:
            self._begun.append(plugin)
            _call(plugin, info)

    def tell(self, info: Info) -> None:
        """Call the hook for this info on every plugin, in order. If a plugin raises an exit, this raises it, too, and the plugins after it
        are not called."""
        for plugin in self._begun:
            _call(plugin, info)

    def tell_change(self, info: OperationChangeInfo) -> None:
        """Report what checkpoints changed. An exit that a plugin raises is only logged here, so a plugin cannot stop the invocation."""
        for plugin in self._begun:
            try:
                _call(plugin, info)
            except BaseException:
                log.exception("The plugin %s raised an exit in on_operation_change; ignored.", _name(plugin))

    def end(self, info: InvocationEndInfo) -> None:
        """Report the end of the invocation to all plugins. If plugins raise exits, the first of them is raised after all plugins were
        called."""
        stop: BaseException | None = None
        for plugin in self._begun:
            try:
                _call(plugin, info)
            except BaseException as said:
                stop = stop or said
        if stop is not None:
            raise stop

    def trace_id(self, asked: PropagationInput) -> str | None:
        """The trace id for a `context.invoke`: the first trace id that a plugin gives, in the order of the plugins. None if no plugin gives
        one. All plugins are asked."""
        found: str | None = None
        for plugin in self._all:
            try:
                told = _trace_id(plugin.provide_propagation_metadata(asked))
            except BaseException as error:
                _contain(error, "The plugin %s raised in provide_propagation_metadata; ignored.", _name(plugin))
                continue
            if told is None or not told.strip():
                continue
            if found is None:
                found = told
            elif told != found:
                log.warning("The plugin %s gives another trace id than an earlier plugin; the first one is kept.", _name(plugin))
        return found


_NO_CHANGES = DurableInstrumentationPlugin.on_operation_change


def _made(factory: DurableInstrumentationPluginFactory, info: InvocationStartInfo) -> DurableInstrumentationPlugin | None:
    try:
        plugin: object = factory.create_plugin(info)
        if isinstance(plugin, DurableInstrumentationPlugin):
            return plugin
    except BaseException as error:
        _contain(error, "The plugin factory %s raised; the invocation runs without its plugin.", _name(factory))
        return None
    log.error("The plugin factory %s made %s, which is not a DurableInstrumentationPlugin; ignored.", _name(factory), _name(plugin))
    return None


def _call(plugin: DurableInstrumentationPlugin, info: Info) -> None:
    hook = _HOOKS[type(info)]
    try:
        answer = getattr(plugin, hook)(info)
        if inspect.iscoroutine(answer):
            answer.close()
            raise TypeError("a hook must not be async: Holdfast does not await it")
    except BaseException as error:
        _contain(error, "The plugin %s raised in %s; ignored.", _name(plugin), hook)


def _contain(error: BaseException, message: str, *names: str) -> None:
    """Log an error that a plugin raised, with `message` and the `names` in it. If it is an exit (KeyboardInterrupt, SystemExit or
    GeneratorExit), raise it again and do not log it. An exception group may contain errors and exits: the errors are logged, and the exits
    are raised."""
    stop: BaseException | None
    rest: BaseException | None
    if isinstance(error, BaseExceptionGroup):
        stop, rest = error.split(_STOP)
    else:
        stop, rest = (error, None) if isinstance(error, _STOP) else (None, error)
    if rest is not None:
        log.error(message, *names, exc_info=rest)
    if stop is not None:
        raise stop from None


def _trace_id(told: object) -> str | None:
    if inspect.iscoroutine(told):
        told.close()
        raise TypeError("provide_propagation_metadata must not be async: Holdfast does not await it")
    if told is None:
        return None
    if not isinstance(told, PropagationMetadata):
        raise TypeError(f"expected PropagationMetadata or None, not {_name(told)}")
    if not isinstance(told.x_amzn_trace_id, str | None):
        raise TypeError(f"x_amzn_trace_id must be text or None, not {_name(told.x_amzn_trace_id)}")
    return told.x_amzn_trace_id


def _name(value: object) -> str:
    """The name of a value's class. No attribute of the value is read, because reading it may raise."""
    return type(value).__qualname__
