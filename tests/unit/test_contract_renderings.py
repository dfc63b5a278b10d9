"""A worker.md says the same in all three renderings, and what real pages do to a reader is survived without a silent guess."""

from __future__ import annotations

import hashlib
from decimal import Decimal

import msgspec
import pytest

from holdfast.contract.checking import problems_of
from holdfast.contract.codes import Named
from holdfast.contract.page_reader import read
from holdfast.contract.terms import Contract, Field, RateLimit, Retries, RunLimits, ToolGrant
from tests.unit.worker_pages import AWS_LAMBDA, RENDERINGS, SITE_PAGES, WEB_SCRAPE, Rendering, codes, contract, flat, markdown

every_page = pytest.mark.parametrize("page", SITE_PAGES.values(), ids=SITE_PAGES.keys())
every_rendering = pytest.mark.parametrize("rendered", RENDERINGS.values(), ids=RENDERINGS.keys())


@every_page
def test_three_renderings_give_one_contract(page: str) -> None:
    site, bare, written = (msgspec.structs.replace(contract(text), sha256="") for text in (page, flat(page), markdown(page)))
    assert site == bare == written


@every_page
@every_rendering
def test_a_page_of_the_site_has_no_problem_but_the_rate_that_is_only_an_example(page: str, rendered: Rendering) -> None:
    (problem,) = read(rendered(page)).problems
    assert (problem.level.value, problem.code, problem.section) == ("warning", "rate_limit_example", "Constraints")
    assert '"rate_limit"' in rendered(page).split("\n")[problem.line - 1]


def test_everything_on_a_page_is_in_its_contract() -> None:
    schema = "https://json-schema.org/draft/2020-12/schema"
    assert contract(WEB_SCRAPE) == Contract(
        worker_id="web-scrape-worker",
        version="1.0",
        title="Web Scrape Worker",
        problem="Fetch a web page, extract specific fields, and return normalized JSON.",
        purpose="Fetch a web page, extract specific fields, and return normalized JSON.",
        inputs=(Field("url", "string"), Field("extraction_spec", "object"), Field("user_agent", "string", optional=True)),
        outputs=(Field("data", "object"), Field("source", "object"), Field("warnings", "array")),
        input_schema={
            "$schema": schema,
            "type": "object",
            "additionalProperties": False,
            "properties": {"url": {"type": "string"}, "extraction_spec": {"type": "object"}, "user_agent": {"type": "string"}},
            "required": ["url", "extraction_spec"],
        },
        output_schema={
            "$schema": schema,
            "type": "object",
            "additionalProperties": True,
            "properties": {"data": {"type": "object"}, "source": {"type": "object"}, "warnings": {"type": "array"}},
            "required": ["data", "source", "warnings"],
        },
        limits=RunLimits(timeout_seconds=60, max_tokens=1500, tools=(ToolGrant("fetch_url"), ToolGrant("parse_html"))),
        retries=Retries(max_attempts=2, backoff="exponential"),
        rate_limit=RateLimit(10, 60, "tenant", was_example=True),
        errors={
            "access_denied": Named("access_denied", retryable=False, unless_policy=True),
            "fetch_timeout": Named("fetch_timeout", retryable=True),
        },
        log_fields=("worker_id", "attempt", "duration_ms"),
        sha256=hashlib.sha256(WEB_SCRAPE.encode()).hexdigest(),
    )


@every_page
def test_a_contract_travels_as_json_and_comes_back_the_same(page: str) -> None:
    sent = contract(page)
    assert msgspec.json.decode(msgspec.json.encode(sent), type=Contract) == sent


def test_windows_line_ends_and_a_byte_order_mark_change_nothing() -> None:
    odd = "\ufeff" + WEB_SCRAPE.replace("\n", "\r\n")
    assert msgspec.structs.replace(contract(odd), sha256="") == msgspec.structs.replace(contract(WEB_SCRAPE), sha256="")


# --- the traps of worker-protocol.md, by their numbers -----------------------------------------------------------------------


@every_rendering
@pytest.mark.parametrize("version", ["1.0", "1.10", "1", '"1.0"', "2.0.0-rc.1", "1.0  # the first"])
def test_1_a_version_is_text(rendered: Rendering, version: str) -> None:
    read_as = contract(rendered(WEB_SCRAPE.replace("version: 1.0", f"version: {version}"))).version
    assert read_as == version.partition("  #")[0].strip('"')


def test_2_optional_is_a_flag_of_types_and_of_tools() -> None:
    lambda_page = contract(AWS_LAMBDA)
    assert lambda_page.tools == (ToolGrant("language_model"), ToolGrant("parameter_store", optional=True))
    assert contract(WEB_SCRAPE).inputs[2] == Field("user_agent", "string", optional=True)


ENUM = WEB_SCRAPE.replace("  - warnings: array", "  - warnings: array\n  - mood: enum(good, so so, \"bad, really\") (optional)").replace(
    '    "warnings": {\n      "type": "array"\n    }',
    '    "warnings": {"type": "array"},\n    "mood": {"enum": ["good", "so so", "bad, really"]}',
)  # fmt: skip


@every_rendering
def test_3_an_enum_is_a_type_with_commas_in_it(rendered: Rendering) -> None:
    assert contract(rendered(ENUM)).outputs[3] == Field("mood", "enum", optional=True, enum=("good", "so so", "bad, really"))
    assert codes(rendered(ENUM)) == []


@every_rendering
@pytest.mark.parametrize(
    "purpose",
    [
        "Fetch: then parse, then: done.",
        'Say "no" to robots',
        "'Quoted' first word",
        "Write C# #1 code",
        "Ends in C#",
        "inputs: what comes in",
        "- not a list",
        "[not, a list",
        "100%",
    ],
)
def test_4_a_purpose_is_prose_and_may_hold_anything(rendered: Rendering, purpose: str) -> None:
    page = WEB_SCRAPE.replace("purpose: Fetch a web page, extract specific fields, and return normalized JSON.", f"purpose: {purpose}")
    assert contract(rendered(page)).purpose == purpose


def test_5_a_rate_is_read_from_free_text() -> None:
    assert contract(AWS_LAMBDA).rate_limit == RateLimit(10, 60, "tenant", was_example=True)


@pytest.mark.parametrize(
    "text, rate",
    [
        ("per-tenant (example: 10/min)", RateLimit(10, 60, "tenant", True)),
        ("10/min", RateLimit(10, 60)),
        ("per-user 5 / second", RateLimit(5, 1, "user")),
        ("100 per hour per tenant", RateLimit(100, 3600)),
        ("1/10s per user (e.g.)", RateLimit(1, 10, "user", True)),
        ("1000/day", RateLimit(1000, 86400)),
        ("3 every 5 minutes", RateLimit(3, 300)),
    ],
)
def test_5_rates_as_people_write_them(text: str, rate: RateLimit) -> None:
    assert contract(WEB_SCRAPE.replace("per-tenant (example: 10/min)", text)).rate_limit == rate


@pytest.mark.parametrize("text", ["per-tenant", "often", "0/min", "10", "ten a minute", "10/0s"])
def test_5_a_rate_that_cannot_be_read_is_an_error_and_not_no_limit(text: str) -> None:
    assert codes(WEB_SCRAPE.replace("per-tenant (example: 10/min)", text)) == ["bad_value"]


@every_rendering
def test_6_retries_stand_beside_the_constraints_or_inside_them(rendered: Rendering) -> None:
    beside = WEB_SCRAPE.replace('  "retries": {\n    "max_attempts": 2,\n    "backoff": "exponential"\n  },\n', "")
    inside = WEB_SCRAPE.replace("retries:\n  max_attempts: 2\n  backoff: exponential\n", "")
    for page in (beside, inside):
        assert page != WEB_SCRAPE
        assert contract(rendered(page)).retries == Retries(max_attempts=2, backoff="exponential")
    neither = inside.replace('  "retries": {\n    "max_attempts": 2,\n    "backoff": "exponential"\n  },\n', "")
    assert contract(rendered(neither)).retries == Retries(max_attempts=1)


@every_rendering
def test_9_an_output_is_required_unless_its_spec_line_says_optional(rendered: Rendering) -> None:
    page = WEB_SCRAPE.replace("  - warnings: array", "  - warnings: array (optional)")
    assert contract(rendered(page)).output_schema["required"] == ["data", "source"]


@every_rendering
def test_10_error_codes_and_their_rules_are_read_from_prose(rendered: Rendering) -> None:
    page = WEB_SCRAPE.replace(
        "  • HTML structure changed",
        "  • Sold out: `error_code=out_of_stock`, retryable=false; shop closed: error_code=closed (retryable with backoff).\n"
        "  • Not retryable: error_code=gone\n"
        "  • A person must look: error_code=odd_price, status=needs_human.\n"
        "  • HTML structure changed",
    )
    errors = contract(rendered(page)).errors
    assert {code: (named.retryable, named.status) for code, named in errors.items()} == {
        "access_denied": (False, None),
        "fetch_timeout": (True, None),
        "out_of_stock": (False, None),
        "closed": (True, None),
        "gone": (False, None),
        "odd_price": (None, "needs_human"),
    }
    assert errors["access_denied"].unless_policy
    assert not errors["gone"].unless_policy


def test_10_a_wrapped_bullet_is_one_bullet() -> None:
    page = markdown(WEB_SCRAPE).replace("error_code=fetch_timeout (retryable", "error_code=slow_shop\n  (retryable")
    assert contract(page).errors["slow_shop"].retryable is True


def test_11_a_worker_may_have_outputs_that_are_called_like_the_envelope() -> None:
    assert [field.name for field in contract(AWS_LAMBDA).outputs] == ["status", "outputs", "observability"]


# --- what people write in Markdown -------------------------------------------------------------------------------------------

OWN = """# Refund worker

**Problem:** Pay money back,
but only once.

## Worker spec
```yaml
# the contract
worker_id: "refund-worker"
version: 2.1
purpose: >
  Decide, then pay: never twice.
  A person looks at large sums.
inputs:
- order_id: string
- message: string
outputs:
- refund_id: string
constraints:
  timeout_seconds: 30
  idle_timeout_seconds: 2.5
  max_tokens: 1500
  max_cost_usd: 0.05
  max_tool_calls: 10
  max_cpu_seconds: 5
  max_memory_mb: 256
  run_timeout_seconds: 3600
  tool_quotas:
    refund_payment: 1
    language_model: 3
  tools_allowed:
    - language_model
    - refund_payment   # ours
  egress: [pay.example, "*.shop.example"]
  approvals_required: [refund_payment]
  rate_limit: 20/min per user
retries:
  max_attempts: 3
  backoff: fixed
observability:
  log_fields:
    - worker_id
    - status
```

## Input schema
```json
{"type": "object", "required": ["order_id", "message"], "properties": {
  "order_id": {"type": "string"}, "message": {"type": "string"}},
  "$defs": {"cents": {"type": "integer", "minimum": 1},
            "verdict": {"type": "object", "properties": {"cents": {"$ref": "#/$defs/cents"}}}}}
```

## Output schema
```json
{"type": "object", "required": ["refund_id"], "properties": {"refund_id": {"type": "string"}}}
```

## Failure modes & handling
- Cannot tell: error_code=ambiguous_request, status=needs_human
"""


@pytest.mark.parametrize("page", [OWN, flat(OWN)], ids=["indented", "flat"])
def test_what_a_contract_may_say_beyond_the_sites_pages(page: str) -> None:
    own = contract(page)
    assert (own.worker_id, own.version, own.title) == ("refund-worker", "2.1", "Refund worker")
    assert own.purpose == "Decide, then pay: never twice. A person looks at large sums."
    assert own.limits == RunLimits(
        timeout_seconds=30,
        idle_timeout_seconds=2.5,
        run_timeout_seconds=3600,
        max_tokens=1500,
        max_cost_usd=Decimal("0.05"),
        max_tool_calls=10,
        max_cpu_seconds=5,
        max_memory_mb=256,
        tool_quotas={"refund_payment": 1, "language_model": 3},
        tools=(ToolGrant("language_model"), ToolGrant("refund_payment")),
    )
    assert own.egress == ("pay.example", "*.shop.example")
    assert own.approvals_required == ("refund_payment",)
    assert own.rate_limit == RateLimit(20, 60, "user")
    assert own.retries == Retries(max_attempts=3, backoff="fixed")
    assert own.log_fields == ("worker_id", "status")
    assert own.errors["ambiguous_request"].status == "needs_human"
    assert codes(page) == ["section_missing", "unknown_tool"]


def test_a_problem_may_be_a_paragraph() -> None:
    assert contract(OWN).problem == "Pay money back, but only once."


def test_tools_that_are_known_beside_the_built_in_ones_are_no_warning() -> None:
    assert [problem.code for problem in read(OWN, tools=["refund_payment"]).problems] == ["section_missing"]


def test_a_definition_can_be_used_alone() -> None:
    verdict = contract(OWN).defs["verdict"]
    assert problems_of({"cents": 5}, verdict) == ()
    assert [problem.path for problem in problems_of({"cents": 0}, verdict)] == ["/cents"]
    assert contract(OWN).defs["cents"] == {"type": "integer", "minimum": 1}


def test_a_spec_without_schemas_is_enough_and_says_so() -> None:
    page = markdown(WEB_SCRAPE)
    start, end = page.index("## Input schema"), page.index("## Constraints")
    bare = read(page[:start] + page[end:])
    assert [problem.code for problem in bare.warnings if problem.code != "rate_limit_example"] == ["schema_derived", "schema_derived"]
    assert bare.contract is not None
    assert bare.contract.input_schema == contract(page).input_schema
    assert bare.contract.output_schema == contract(page).output_schema


def test_schemas_without_a_list_in_the_spec_are_enough_and_say_so() -> None:
    page = WEB_SCRAPE.replace("outputs:\n  - data: object\n  - source: object\n  - warnings: array\n", "")
    assert codes(page) == ["field_missing"]
    assert contract(page).outputs == (Field("data", "object", True), Field("source", "object", True), Field("warnings", "array", True))


# --- other ways to write a spec ----------------------------------------------------------------------------------------------


def spec_page(spec: str) -> str:
    return f"# A\n\n## Worker spec\n\n```yaml\nworker_id: a\nversion: 1\npurpose: p\n{spec}\n```\n"


def with_lists(spec: str) -> Contract:
    return contract(spec_page("inputs: []\noutputs: []\n" + spec))


@pytest.mark.parametrize(
    "spec",
    [
        "inputs:\n  url: string\n  limit: integer (optional)\noutputs: []",
        "inputs:\n- url: string\n- limit: integer (optional)\noutputs: []",
        "inputs:\n\t- url: string\n\t- limit: integer (optional)\noutputs: []",
        "inputs: {url: string, limit: integer (optional)}\noutputs: []",
        "inputs:\n  * `url`: string  # the page\n  * limit (optional): integer\noutputs: []",
        "inputs:\n  - url: String, the page's address\n  - limit: integer (at most 10, optional)\noutputs: []",
        "inputs: [url: string, limit: integer (optional)]\noutputs: []",
    ],
)
def test_fields_may_be_written_in_several_ways(spec: str) -> None:
    assert contract(spec_page(spec)).inputs == (Field("url", "string"), Field("limit", "integer", optional=True))


@pytest.mark.parametrize(
    "spec",
    [
        "constraints:\n  timeout_seconds: 5\n  retries:\n    max_attempts: 4\n    backoff: none\n  max_tokens: 9",
        "constraints:\n  timeout_seconds: 5\n  retries: {max_attempts: 4, backoff: none}\n  max_tokens: 9",
        "constraints: {timeout_seconds: 5, max_tokens: 9}\nretries: {max_attempts: 4, backoff: none}",
        "timeout_seconds: 5\nmax_tokens: 9\nmax_attempts: 4\nbackoff: none",
        "'constraints':\n  \"timeout_seconds\": 5   # seconds\n  max_tokens: 9\nretries:\n  max_attempts: 4\n  backoff: 'none'",
    ],
)
def test_constraints_may_be_written_in_several_ways(spec: str) -> None:
    read_as = with_lists(spec)
    assert (read_as.limits.timeout_seconds, read_as.limits.max_tokens) == (5, 9)
    assert read_as.retries == Retries(max_attempts=4, backoff="none")


@pytest.mark.parametrize(
    "spec",
    [
        "constraints:\n  tools_allowed: [fetch_url,\n    parse_html (optional)]\n  tool_quotas: {fetch_url: 5}",
        "constraints:\n  tools_allowed:\n  - fetch_url\n  - parse_html (optional)\n  tool_quotas:\n    fetch_url: 5",
        "constraints:\n  tools_allowed:\n    - 'fetch_url'\n    - parse_html (optional)\n  tool_quotas:\n    - fetch_url: 5",
        'tools_allowed: ["fetch_url", "parse_html (optional)"]\ntool_quotas:\nfetch_url: 5',
    ],
)
def test_tools_may_be_written_in_several_ways(spec: str) -> None:
    read_as = with_lists(spec + "\nmax_attempts: 2")
    assert read_as.tools == (ToolGrant("fetch_url"), ToolGrant("parse_html", optional=True))
    assert read_as.limits.tool_quotas == {"fetch_url": 5}
    assert read_as.retries.max_attempts == 2


def test_what_stands_below_a_key_that_is_left_out_is_left_out_too() -> None:
    page = spec_page("inputs: []\noutputs: []\nlimit:\n  timeout_seconds: 5\n  - odd\n  tools_allowed: [x]")
    assert [problem.code for problem in read(page).problems].count("unknown_field") == 1
    assert contract(page).limits == RunLimits()


@pytest.mark.parametrize("line", ["  more: 2.0", "  - 2.0", "and more"])
def test_a_line_that_belongs_nowhere_is_an_error(line: str) -> None:
    page = spec_page("inputs: []\noutputs: []\nconstraints:\n  timeout_seconds: 5").replace("version: 1\n", f"version: 1\n{line}\n")
    assert [problem.code for problem in read(page).errors] == ["spec_line"]


def test_an_empty_list_of_domains_lets_nothing_out_and_none_at_all_any_public_address() -> None:
    assert with_lists("constraints:\n  timeout_seconds: 5").egress is None
    assert with_lists("constraints:\n  timeout_seconds: 5\n  egress: []").egress == ()


@pytest.mark.parametrize(
    "domain", ["shop.example", "*.shop.example", "127.0.0.1", "localhost:8080", "::1", "[::1]:443", "xn--bcher-kva.example"]
)
def test_a_domain_is_a_name_or_an_address_perhaps_with_a_port(domain: str) -> None:
    assert with_lists(f"timeout_seconds: 5\negress: [{domain.upper()}]").egress == (domain,)


@pytest.mark.parametrize(
    "domain", ["https://shop.example", "shop.example/path", "*", "a b", "shop.*", "user@shop.example", ".example", "a:0", "bücher.example"]
)
def test_what_is_no_domain_is_refused(domain: str) -> None:
    assert "bad_value" in codes(spec_page(f"inputs: []\noutputs: []\ntimeout_seconds: 5\negress: ['{domain}']"))


def test_a_body_may_start_processes_only_if_the_contract_says_so() -> None:
    assert with_lists("timeout_seconds: 5").limits.allow_subprocess is False
    assert with_lists("timeout_seconds: 5\nallow_subprocess: true").limits.allow_subprocess is True
    assert "bad_value" in codes(spec_page("inputs: []\noutputs: []\nallow_subprocess: sometimes"))
