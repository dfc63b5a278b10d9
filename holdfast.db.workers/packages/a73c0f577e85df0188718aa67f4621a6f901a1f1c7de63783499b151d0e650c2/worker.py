from holdfast import worker
@worker("one.md", include=["*.md"])
def one(inputs, ctx):
    return {"name": "one"}
from holdfast import worker
@worker("two.md", include=["*.md"])
def two(inputs, ctx):
    return {"name": "two"}
