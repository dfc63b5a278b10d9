"""steps — the small pure functions of a pipeline's file, called in the sandbox. steps.py runs in the runner, entry.py inside the
sandbox."""
