"""costs — money: what runs have cost, and what a run may cost.

reports.py    reports of the ledger, by node, model, tenant and more; start here
estimates.py  what a run may cost before it begins, what the rest of a run may cost, and whether a run may begin

Belongs: reports and estimates for users.   Does not: the ledger (holdfast.store), prices (holdfast.workers), the arithmetic of a pipeline's
estimate (holdfast.pipelines.estimate).   May import: holdfast.descriptions, and packages below it.
"""
