from holdfast import worker
@worker("one.md", include=["*.md"])
def one(inputs, ctx):
    return {"name": "one"}
