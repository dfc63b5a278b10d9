"""service — what users call: `holdfast.open`, the client of a store, export, import and replay. It joins the layers below.

Belongs:
- opening: engines.py (`holdfast.open`), open_engine.py, blocking_engine.py, open_execution.py, settings.py, drain.py; worker_runtime.py and
  pipeline_runtime.py build workers and pipelines;
- the operator's settings and trust: operator_settings.py, operator_files.py, untrusted_settings.py, approval_settings.py, trust.py;
- a store without an engine: client.py, with store_approvals.py, store_queues.py, store_restarts.py and schedules.py;
- executions for people: execution_descriptions.py, history.py, failure_path.py, why.py, pipeline_view.py, run_events.py;
- queues (declared_queues.py, queue_*.py, pushes.py, redrives.py), schedules (schedule_*.py), restarts (*_restarts.py, restart_verbs.py,
  run_comparisons.py), costs (costs.py, estimates.py);
- exporting.py, importing.py and replaying.py; what files declare and where workers are found (function_loader.py, worker_search.py).
It builds the objects of the layers below. Two modules above it do that too: lambda_api/serving.py builds a server's engine, and
console/console.py builds a console over a store; some commands of cli open a store for themselves.
Does not: terminals, HTTP.   May import: everything below it.
Start reading at engines.py (`holdfast.open`), then client.py (a store without an engine) and worker_runtime.py (workers).
"""
