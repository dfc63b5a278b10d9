"""From a file to a graph: the sandbox runs the builder, the runner's own contract counts, and hostile builders are bounded and named."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from holdfast.contract.refusals import ContractInvalid
from holdfast.pipelines.builder.build import build
from holdfast.pipelines.builder.entry import drafted
from holdfast.pipelines.graph.contract import contract_in
from holdfast.pipelines.graph.graph import GIVES, Built, SourceLine
from holdfast.pipelines.graph.graph_json import graph_from, graph_id, graph_text
from holdfast.pipelines.graph.refusals import PipelineInvalid
from holdfast.pipelines.steps.steps import StepDone, StepFailure, Steps
from holdfast.workers.packages import Packages, WorkerChanged, WorkerInvalid, WorkerMissing
from holdfast.workers.policy import Policy
from tests import parts
from tests.workers.pages import page

INLINE = Policy(isolation="inline")
HEAD = 'from holdfast import Pipeline\np = Pipeline("trial.md")\n'
INNER = 'p = Pipeline("trial", "1.0", inputs={"type": "object"}, outputs={"type": "object"})\n'


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    made = tmp_path / "author"
    made.mkdir()
    (made / "trial.md").write_text(page("trial", timeout_seconds=30))
    return made


@pytest.fixture
def packages(tmp_path: Path) -> Packages:
    return Packages(tmp_path / "packages")


async def built(folder: Path, packages: Packages, source: str, policy: Policy = INLINE, **rest: Any) -> list[Built]:
    file = folder / "trial.py"
    file.write_text(source)
    return await build(file, packages, policy, **rest)


async def refused(folder: Path, packages: Packages, source: str, policy: Policy = INLINE, **rest: Any) -> PipelineInvalid:
    with pytest.raises(PipelineInvalid) as caught:
        await built(folder, packages, source, policy, **rest)
    return caught.value


async def test_the_jail_and_the_process_build_the_same_graph(folder: Path, packages: Packages) -> None:
    """A builder with a module beside it, in the real sandbox and in process."""
    (folder / "rules.py").write_text('RULES = [{"path": ".x", "op": "exists"}]\n\n\ndef add(p):\n    return p.wait("pause", "1s")\n')
    source = HEAD + 'import rules\np.gate("check", candidate=p.inputs, rules=rules.RULES, after=rules.add(p))\np.gives(p.inputs)\n'
    (jailed,) = await built(folder, packages, source, Policy())
    assert contract_in(jailed.graph).limits.timeout_seconds == 30
    trial = str(folder / "trial.py")
    assert jailed.lines == {"pause": SourceLine(str(folder / "rules.py"), 5), "check": SourceLine(trial, 4), GIVES: SourceLine(trial, 5)}
    assert graph_from(graph_text(jailed.graph)) == jailed.graph
    plain = (
        HEAD
        + 'p.gate("check", candidate=p.inputs, rules=[{"path": ".x", "op": "exists"}], after=p.wait("pause", "1s"))\np.gives(p.inputs)\n'
    )
    (inline,) = await built(folder, packages, plain)
    assert graph_id(inline.graph) == graph_id(jailed.graph)


async def test_a_file_inside_a_package_is_built_with_its_package(folder: Path, packages: Packages) -> None:
    inner = folder / "shop" / "flows"
    inner.mkdir(parents=True)
    (folder / "shop" / "__init__.py").write_text("LIMIT = 3\n")
    (inner / "__init__.py").write_text("")
    (inner / "trial.md").write_text(page("trial"))
    source = HEAD + "from shop import LIMIT\np.map('all', 'w', [], {}, at_most=LIMIT)\np.gives({})\n"
    (found,) = await built(inner, packages, source, Policy())
    assert [node.name for node in found.graph.nodes] == ["all"]
    assert found.lines == {"all": SourceLine(str(inner / "trial.py"), 4), GIVES: SourceLine(str(inner / "trial.py"), 5)}


async def test_a_file_declares_several_pipelines_and_workers(folder: Path, packages: Packages) -> None:
    (folder / "shop.md").write_text(page("shop"))
    source = (
        "from holdfast import Pipeline, worker\n"
        '@worker("shop.md")\ndef shop(inputs, ctx): return {}\n'
        'a = Pipeline("trial.md", gates="required")\na.gives({})\n'
        'b = Pipeline("other", "2.0", inputs={"type": "object"}, outputs={"type": "object"})\nb.gives({})\n'
    )
    found = await built(folder, packages, source)
    assert [(one.graph.pipeline_id, one.graph.version, one.graph.gates) for one in found] == [
        ("trial", "1.0", "required"),
        ("other", "2.0", "advised"),
    ]
    (package,) = packages.add(folder / "trial.py")
    assert package.contract.worker_id == "shop"


async def test_a_file_with_only_a_pipeline_is_no_broken_worker(folder: Path, packages: Packages) -> None:
    await built(folder, packages, HEAD + "p.gives({})\n")
    assert packages.add(folder / "trial.py", needs_worker=False) == []
    with pytest.raises(WorkerInvalid, match="declares no worker"):
        packages.add(folder / "trial.py")


async def test_a_file_without_pipelines_builds_nothing(folder: Path, packages: Packages) -> None:
    assert await built(folder, packages, "raise SystemExit(1)") == []


async def test_the_contract_is_the_one_that_the_runner_read(folder: Path, packages: Packages) -> None:
    """Code that changes its own object, or the page beside it, changes nothing."""
    source = HEAD + 'p._name = "other.md"\np.__init__("other", "9.9", max_cost_usd=1000)\np.gives({})\n'
    (found,) = await built(folder, packages, source)
    assert (found.graph.pipeline_id, found.graph.version, contract_in(found.graph).limits.max_cost_usd) == ("trial", "1.0", None)


@pytest.mark.parametrize(
    "source, told",
    [
        (HEAD + 'p.worker("A", "w", {})\n', "trial.py, line 3: The node 'A': 'A' is not a name of a node."),
        (HEAD + "\n1 / 0\n", "trial.py, line 4: ZeroDivisionError: division by zero"),
        (HEAD + "import nowhere\n", "trial.py, line 3: ModuleNotFoundError: No module named 'nowhere'"),
        (HEAD + "def f():\n    raise ValueError('odd')\n\nf()\n", "trial.py, line 4: ValueError: odd"),
        (HEAD + "raise SystemExit(3)\n", "trial.py, line 3: SystemExit: 3"),
        (HEAD, "trial.py: <Pipeline 'trial.md'> has no outputs"),
        (HEAD + "del p\n", "trial.py: p is not a Pipeline any more"),
        (HEAD.replace("trial.md", "gone.md"), "trial.py, line 2: There is no page gone.md in the folder of the file."),
        (HEAD + "p = Pipeline(1)", "trial.py, line 3: p is a pipeline already"),
        ("from holdfast import Pipeline\n" + INNER.replace("1.0", "!"), "trial.py, line 2: contract.version: '!' is not a valid version."),
    ],
)
async def test_an_authors_error_has_file_line_and_message_and_no_traceback(
    folder: Path, packages: Packages, source: str, told: str
) -> None:
    error = await refused(folder, packages, source)
    assert told in str(error)
    assert "Traceback" not in str(error)


async def test_a_page_that_is_no_contract_is_told_as_such(folder: Path, packages: Packages) -> None:
    (folder / "trial.md").write_text("# nothing\n")
    with pytest.raises(ContractInvalid, match=r"trial\.md is not a contract"):
        await built(folder, packages, HEAD)


JAILED = "from holdfast import Pipeline\n" + INNER
HOSTILE = {
    "errors": ("raise ValueError('odd')\n", "line 3: ValueError: odd"),
    "an endless loop": ("while True: pass\n", "did not write the pipeline: timeout"),
    "memory": ("x = []\nwhile True: x.append(bytearray(10_000_000))\n", "did not write the pipeline: memory_exceeded"),
    "a fork": ("import os\nwhile True: os.fork()\n", "did not write the pipeline: process_limit"),
    "an exit": ("import os\nos._exit(0)\n", "did not write the pipeline"),
    "many nodes": (
        "from holdfast.pipelines.graph.graph import WaitNode\n"
        "p._nodes = {str(n): WaitNode(name=f'a{n}', seconds=1) for n in range(1_000_000)}\np.gives({})\n",
        "did not write the pipeline: memory_exceeded",
    ),
    "a large graph": (
        "from holdfast.pipelines.graph.graph import WaitNode\n"
        "p._nodes = {str(n): WaitNode(name=f'a{n}', seconds=1) for n in range(50_000)}\np.gives({})\n",
        "more than 1048576 bytes as JSON",
    ),
    "large graphs in one file": (
        "p._gives = ['x' * 1_000_000]\n"
        + "".join(INNER.replace("p =", f"p{n} =").replace("trial", f"t{n}") + f"p{n}._gives = ['x' * 1_000_000]\n" for n in range(4)),
        "together more than 4194304 bytes as JSON",
    ),
    "a wrong node": ("p._nodes = {'a': {'kind': 'loop'}}\np.gives({})\n", "Invalid value 'loop'"),
    "a deep template": ("x = []\nfor _ in range(10_000): x = [x]\np._gives = [x]\n", "trial.py"),
}
DRAFT = {"nodes": [], "gives": 1, "contract": {"worker_id": "x"}}
SENT = {
    "a draft with a contract": (json.dumps({"op": "drafted", "drafts": [json.dumps(DRAFT)]}), ""),
    "a frame of another kind": (json.dumps({"op": "drafted", "drafts": [5]}), "sent something that is not the list of its pipelines"),
    "a frame that is not JSON": ("{", "did not write the pipeline: worker_crashed"),
    "a draft that is not JSON": (json.dumps({"op": "drafted", "drafts": ["{"]}), "sent data that is not a pipeline"),
    "a draft that is crowded": (json.dumps({"op": "drafted", "drafts": ["[" * 100_000]}), "more than 50000 objects and lists"),
    "too many drafts": (json.dumps({"op": "drafted", "drafts": ["{}"] * 100}), "sent something that is not the list of its pipelines"),
    "an error of its own": (json.dumps({"op": "failed", "file": "../x\x1b[2J", "line": 1, "message": "\x1b[2J" * 9999}), "?[2J"),
}
"""What code may write to the channel itself, and what the runner says to it."""
SENDER = """
import os, struct
from holdfast.hosts.sandbox.inside.jail_plan import BODY_FD
text = {text!r}.encode()
os.write(BODY_FD, struct.pack(">I", len(text)) + text)
os._exit(0)
"""
QUICK = ("an endless loop", "errors", "memory")


@pytest.mark.parametrize("kind", [pytest.param(kind, marks=[] if kind in QUICK else pytest.mark.long) for kind in HOSTILE])
async def test_a_hostile_builder_ends_with_a_name(folder: Path, packages: Packages, kind: str) -> None:
    code, told = HOSTILE[kind]
    error = await refused(folder, packages, JAILED + code, Policy(), seconds=1.5 if "loop" in kind else 90)
    assert told in str(error)
    assert len(str(error)) < 3000


@pytest.mark.parametrize("kind", parts.one_of_each(SENT, lambda kind: "contract" in kind))
async def test_a_forged_frame_is_read_as_a_strangers(folder: Path, packages: Packages, kind: str) -> None:
    text, told = SENT[kind]
    source = JAILED + SENDER.format(text=text)
    if told:
        error = await refused(folder, packages, source, Policy())
        assert told in str(error)
        assert "\x1b" not in str(error)
        assert len(str(error)) < 3000
    else:  # a forged draft says only what the builder could have said: the contract stays the runner's
        (found,) = await built(folder, packages, source, Policy())
        assert (found.graph.pipeline_id, found.graph.nodes, found.graph.gives) == ("trial", (), 1)


async def test_a_builder_sees_no_other_file_and_what_it_prints_is_no_frame(folder: Path, packages: Packages) -> None:
    (folder / "secrets.txt").write_text("s3cr3t")
    source = (
        JAILED + "import os, sys\nfrom pathlib import Path\n"
        'sys.stdout.write(\'{"op": "drafted", "drafts": []}\')\nos.write(1, b"\\x00\\x00\\x00\\x02{}")\n'
        f"seen = []\nfor path in ({str(folder / 'secrets.txt')!r}, '/etc/passwd', 'secrets.txt'):\n"
        "    try: seen.append(Path(path).read_text())\n    except OSError: seen.append(None)\n"
        "p.gives({'seen': seen, 'env': dict(os.environ).get('HOLDFAST_SECRET')})\n"
    )
    (found,) = await built(folder, packages, source, Policy())
    assert found.graph.gives == {"seen": [None, None, None], "env": None}


def test_lines_and_names_of_the_sandbox_decide_nothing() -> None:
    frame = drafted(lambda: __import__("builtins"), ["p"], "")
    assert frame["op"] == "failed"
    assert frame["line"] == 0


STEPS = (
    "from holdfast import Pipeline\n" + INNER + "def double(inputs): return {'n': 2 * inputs['n']}\n"
    "def odd(inputs): return object()\n"
    "def large(inputs): return 'x' * 2_000_000\n"
    "def wrong(inputs): raise ValueError('no')\n"
    "def hungry(inputs): return len([bytearray(10_000_000) for _ in range(1000)])\n"
    "def gone(inputs):\n    import os\n    os._exit(3)\n"
    "def endless(inputs):\n    while True: pass\n"
    "async def later(inputs): return 1\n"
    "def changes(inputs):\n    inputs['n'] = 0\n    return 1\n"
    "p.gives(p.step('double', double, {'n': p.inputs.n}))\n"
)
FAILED = {
    "odd": ("output_schema_mismatch", "cannot be written as JSON"),
    "large": ("artifact_too_large", "more than a megabyte"),
    "wrong": ("worker_crashed", "ValueError: no"),
    "absent": ("worker_crashed", "no function absent"),
    "later": ("worker_crashed", "plain `def`"),
    "p": ("worker_crashed", "no function p"),
}


@pytest.mark.parametrize("policy", [INLINE, Policy()], ids=["inline", "jailed"])
async def test_a_step_gives_json_or_a_named_failure(folder: Path, packages: Packages, policy: Policy) -> None:
    (found,) = await built(folder, packages, STEPS)
    assert found.graph.steps is not None
    steps = Steps(packages, policy)
    inputs = {"n": 4}
    try:
        assert await steps.call(found.graph.steps, "double", inputs) == StepDone({"n": 8})
        assert await steps.call(found.graph.steps, "changes", inputs) == StepDone(1)
        assert inputs == {"n": 4}
        for function, (code, told) in FAILED.items():
            failed = await steps.call(found.graph.steps, function, {})
            assert isinstance(failed, StepFailure)
            assert failed.code == code
            assert told in failed.message
    finally:
        await steps.close()


async def test_a_hostile_step_ends_with_a_name(folder: Path, packages: Packages) -> None:
    (found,) = await built(folder, packages, STEPS)
    assert found.graph.steps is not None
    steps = Steps(packages, Policy())
    try:
        for function, code in (("hungry", "memory_exceeded"), ("gone", "worker_crashed"), ("endless", "timeout")):
            failed = await steps.call(found.graph.steps, function, {}, seconds=1.5 if function == "endless" else 90)
            assert isinstance(failed, StepFailure)
            assert failed.code == code
        assert await steps.call(found.graph.steps, "double", {"n": "x" * 2_000_000}) == StepFailure(
            "artifact_too_large", "The inputs of the step have 2000008 bytes; at most 1048576 are allowed."
        )
    finally:
        await steps.close()


async def test_steps_of_changed_or_missing_code_are_not_run(folder: Path, packages: Packages, tmp_path: Path) -> None:
    (found,) = await built(folder, packages, STEPS)
    assert found.graph.steps is not None
    with pytest.raises(WorkerMissing, match="not on this machine"):
        await Steps(packages, INLINE).call(f"{'0' * 64}/trial.py", "double", {})
    kept = tmp_path / "packages" / found.graph.steps
    kept.parent.chmod(0o755)
    kept.chmod(0o644)
    kept.write_text(STEPS.replace("2 *", "3 *"))
    with pytest.raises(WorkerChanged):
        await Steps(packages, INLINE).call(found.graph.steps, "double", {"n": 1})


async def test_a_graph_without_steps_does_not_depend_on_the_text_of_its_file(folder: Path, packages: Packages) -> None:
    (one,) = await built(folder, packages, HEAD + "p.gives({})\n")
    (two,) = await built(folder, packages, HEAD + "# a comment\np.gives({})\n")
    assert graph_id(one.graph) == graph_id(two.graph)
    assert one.graph.steps is None
