"""steps — the small pure functions of a pipeline's file, called in the sandbox: steps.py is the runner's side, entry.py the inside."""
