"""targets — what `holdfast serve` is given: templates, Python files and modules, folders; all become descriptions of functions.

Belongs: reading SAM and CloudFormation templates, resolving what a local run can resolve, finding functions in files.
Does not: deploying or running what was found.   May import: holdfast.service, holdfast.model, PyYAML.
Start reading at finding.py, then template.py. A template is input from outside: yaml_text.py bounds it.
"""
