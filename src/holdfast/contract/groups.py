"""Groups of things that lead to each other, in a graph."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from typing import TypeVar

T = TypeVar("T", bound=Hashable)


def grouped(begin: Iterable[T], leads: Mapping[T, Sequence[T]]) -> Iterator[list[T]]:
    """Everything that can be reached from `begin`, in groups, each after the groups that it leads to. Things that lead to each other, also
    through others, are one group (Tarjan's algorithm, without recursion). `leads` says for each thing what it leads to."""
    order: dict[T, int] = {}
    low: dict[T, int] = {}
    stack: list[T] = []
    held: set[T] = set()
    for root in begin:
        work: list[tuple[T, int]] = [] if root in order else [(root, 0)]
        while work:
            one, at = work.pop()
            targets = leads[one]
            if at == 0:
                order[one] = low[one] = len(order)
                stack.append(one)
                held.add(one)
            else:
                low[one] = min(low[one], low[targets[at - 1]])
            while at < len(targets):
                target = targets[at]
                at += 1
                if target not in order:
                    work += [(one, at), (target, 0)]
                    break
                if target in held:
                    low[one] = min(low[one], order[target])
            else:
                if low[one] == order[one]:
                    group: list[T] = []
                    while not group or group[-1] != one:
                        group.append(stack.pop())
                        held.discard(group[-1])
                    yield group
