"""The simulator: several engines on one store, under virtual time, with every fault that a seed can choose.

Start reading at simulation.py. workload.py makes the scripts that the engines run, chaos.py the faults around them, loop.py is the event
loop on which the simulated processes take turns, faults.py the store that fails. laws.py and checks.py say what must hold at the end.
"""
