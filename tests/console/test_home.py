"""The first page: what needs a person, what fails, what waits and why, what was done; and charts."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

import holdfast
from holdfast import AsyncDurableContext, durable_execution
from holdfast.console.charts import Slice, bars, sparkline
from holdfast.console.pages.home import HomePages
from holdfast.model.clock import VirtualClock
from holdfast.model.errors import HoldfastError
from holdfast.model.execution import Terms, new_execution
from holdfast.model.ids import id_at
from holdfast.model.places import Enqueue
from holdfast.service.schedule_declarations import Schedule
from holdfast.service.client import Client
from holdfast.store.seam import Filter
from tests.console.scene import Scene, plain
