"""Tests, by what they need: nothing (unit), a store, a whole engine (flow), real processes (crash), the outside surfaces (surface)."""
