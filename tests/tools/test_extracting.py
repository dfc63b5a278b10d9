"""Extraction: what a spec finds in a page, and what it says when the page has changed."""

from time import process_time
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from holdfast.library.web_scrape.extraction import MAX_ITEMS, MAX_WARNINGS, SpecInvalid, extract
from holdfast.library.web_scrape.xpaths import path_of
from holdfast.model import codec
from tests.parts import examples

URL = "https://shop.example/tea/green.html?x=1"
PAGE = """<!doctype html><html lang="de-DE"><head><title>Grüner Tee</title>
<meta property="og:title" content="OG Tee"><meta name="Description" content=" Ein  Tee ">
<script type="application/ld+json">{"@context": "https://schema.org", "@type": ["Product", "Thing"], "name": "Sencha", "sku": 4711,
 "gtin": null, "brand": {"name": "Cha"},
 "offers": [{"@type": "Offer", "price": "12.50", "priceCurrency": "EUR"}, {"price": 9, "priceCurrency": "CHF"}]}</script>
<script type="application/ld+json">{ broken </script></head>
<body><h1>  Grüner
 <em>Tee</em> </h1><p class="price">1.234,56 €</p><p class=stock data-left="5">auf Lager: ja</p>
<img class="main" src="../img/tea.jpg" alt><a class=bad href="javascript:alert(1)">x</a>
<table id=t><tr><th>Größe</th><th>Preis</th></tr><tr><td>klein</td><td>3,50 EUR</td></tr><tr><td>groß</td><td>kaputt</td></tr></table>
<ul><li class=tag>a</li><li class=tag> b </li><li class=tag></li></ul><time datetime="2026-03-04T10:00:00+01:00">4. März</time>
<script>var price = "<p class='price'>999</p>"; var id = 'ab-77';</script><div id=more>Zeile 1<br>Zeile 2</div></body></html>"""


def found(about: Any, html: str = PAGE, name: str = "x") -> Any:
    return extract(html, {"fields": {name: about}}, URL).data[name]


def test_a_page_with_half_a_character_does_not_make_a_regex_fail() -> None:
    page = '<script type="application/ld+json">{"@type": "Product", "sku": "a\\ud800 77"}</script>'
    assert found({"json_ld": "Product.sku", "regex": "[0-9]+"}, page) == "77"


def test_a_format_that_names_one_part_of_a_date_twice_fits_no_date() -> None:
    told = extract("<p>4 5</p>", {"fields": {"day": {"css": "p", "type": "date", "format": "%d %d"}}}, URL)
    assert (told.data, told.warnings[0]["code"]) == ({"day": None}, "not_a_date")


@pytest.mark.parametrize(
    "about,value",
    [
        ("h1", "Grüner Tee"),
        ({"css": "h1"}, "Grüner Tee"),
        ({"css": ".stock", "attribute": "data-left", "type": "integer"}, 5),
        ({"css": "img.main", "attribute": "SRC", "type": "url"}, "https://shop.example/img/tea.jpg"),
        ({"css": "img", "attribute": "alt"}, None),
        ({"css": ".price", "type": "number"}, 1234.56),
        ({"css": ".price", "type": "price"}, {"amount": "1234.56", "currency": "EUR"}),
        ({"css": ".tag", "list": True}, ["a", "b", ""]),
        ({"css": "time", "attribute": "datetime", "type": "date"}, "2026-03-04"),
        ({"css": "time", "attribute": "datetime", "type": "datetime"}, "2026-03-04T10:00:00+01:00"),
        ({"css": "#more", "type": "text"}, "Zeile 1\nZeile 2"),
        ({"css": ".tag", "type": "html"}, '<li class="tag">a</li>'),
        ({"css": ".sold-out", "type": "exists"}, False),
        ({"css": ".stock", "type": "exists"}, True),
        ({"css": ".stock", "regex": "Lager: (ja|nein)"}, "ja"),
        ({"css": ".stock", "regex": "(?P<a>LAGER): (?P<b>JA)", "group": "b", "ignore_case": True}, "ja"),
        ({"regex": "Grüner \\w+"}, "Grüner Tee"),
        ({"regex": "id = '([a-z]+-\\d+)'", "in": "html"}, "ab-77"),
        ({"regex": "id = '([a-z]+-\\d+)'"}, None),
        ({"regex": "Zeile (\\d)", "list": True, "type": "integer"}, [1, 2]),
        ({"meta": "og:title"}, "OG Tee"),
        ({"meta": "description"}, "Ein Tee"),
        ({"json_ld": "Product.name"}, "Sencha"),
        ({"json_ld": "Product.sku", "type": "integer"}, 4711),
        ({"json_ld": "Thing.brand.name"}, "Cha"),
        ({"json_ld": "*.brand.name"}, "Cha"),
        ({"json_ld": "Product.gtin"}, None),
        ({"json_ld": "Product.offers.price", "type": "number"}, 12.5),
        ({"json_ld": "Product.offers[1].price", "type": "number"}, 9),
        ({"json_ld": "Product.offers[*].price", "list": True, "type": "number"}, [12.5, 9]),
        ({"json_ld": "Product.brand", "type": "json"}, {"name": "Cha"}),
        (
            {
                "json_ld": "Product.offers",
                "list": True,
                "fields": {"p": {"json": "price", "type": "number"}, "c": {"json": "priceCurrency"}},
            },
            [{"p": 12.5, "c": "EUR"}, {"p": 9, "c": "CHF"}],
        ),
        ({"any": [{"css": ".nothing"}, {"json_ld": "Nothing.x"}, {"meta": "og:title"}, "h1"]}, "OG Tee"),
        ({"any": [{"css": ".nothing"}, {"css": ".price", "regex": "([\\d.,]+)"}], "type": "number"}, 1234.56),
        ({"css": ".nothing", "default": "none"}, "none"),
        ({"css": ".nothing", "list": True}, []),
        ({"path": "//h1/text()"}, "Grüner"),
        ({"path": "//h1"}, "Grüner Tee"),
        ({"path": "/html/body/table/tbody/tr[2]/td[1]"}, "klein"),
        ({"path": "//table[@id='t']//tr[last()]/td[last()]"}, "kaputt"),
        ({"path": "//li[@class='tag'][2]"}, "b"),
        ({"path": "//img/@src", "type": "url"}, "https://shop.example/img/tea.jpg"),
        ({"path": "//p[contains(@class, 'pri')]", "type": "number"}, 1234.56),
        ({"path": "//td[starts-with(., 'gro')]/../td[1]"}, "groß"),
        ({"path": "//th[.='Preis']"}, "Preis"),
        ({"path": "//p[not(@data-left)]/@class"}, "price"),
        ({"path": "//li", "list": True}, ["a", "b", ""]),
        (
            {
                "path": "//table//tr[not(contains(., 'Preis'))]",
                "list": True,
                "fields": {"size": {"path": "./td[1]"}, "also": "td", "no": {"json": "x"}},
            },
            [{"size": "klein", "also": "klein", "no": None}, {"size": "groß", "also": "groß", "no": None}],
        ),
        (
            {
                "css": "table",
                "fields": {
                    "head": {"css": "th", "list": True},
                    "rows": {"css": "tr", "list": True, "fields": {"c": {"css": "td", "list": True}}},
                },
            },
            {"head": ["Größe", "Preis"], "rows": [{"c": []}, {"c": ["klein", "3,50 EUR"]}, {"c": ["groß", "kaputt"]}]},
        ),
    ],
)
def test_a_source_finds_its_value(about: Any, value: Any) -> None:
    assert found(about) == value


def test_the_result_has_data_warnings_and_what_is_missing() -> None:
    spec = {
        "title": "h1",
        "gone": {"css": ".gone", "required": True},
        "maybe": {"css": ".maybe"},
        "rows": {"css": "tr", "list": True, "fields": {"price": {"css": "td + td", "type": "price", "required": True}}},
    }
    result = extract(PAGE, spec, URL)
    assert result.data == {
        "title": "Grüner Tee",
        "gone": None,
        "maybe": None,
        "rows": [{"price": None}, {"price": {"amount": "3.50", "currency": "EUR"}}, {"price": None}],
    }
    assert result.missing == ["gone", "rows[0].price", "rows[2].price"]
    assert [(warning["code"], warning["field"]) for warning in result.warnings] == [
        ("missing_field", "gone"),
        ("missing_optional_field", "maybe"),
        ("missing_field", "rows[0].price"),
        ("not_a_number", "rows[2].price"),
        ("missing_field", "rows[2].price"),
    ]


# --- types


@pytest.mark.parametrize(
    "text,locale,value",
    [
        ("1,234.56", "", 1234.56),
        ("1.234,56", "", 1234.56),
        ("1.234,56", "en", 1234.56),
        ("1 234,5", "", 1234.5),
        ("1'234.50", "de-CH", 1234.5),
        ("1.234", "de", 1234),
        ("1.234", "en", 1.234),
        ("1,234", "en-US", 1234),
        ("1,234", "fr", 1.234),
        ("1.234.567", "", 1234567),
        ("12,5", "", 12.5),
        ("0.123", "", 0.123),
        ("−5", "", -5),
        ("-3.5%", "", -3.5),
        ("about 7 of 9", "", 7),
        (".5", "", 0.5),
        ("1 234 567", "", 1234567),
        ("1.234", "de-CH", 1.234),
    ],
)
def test_a_number_is_read_as_its_locale_writes_it(text: str, locale: str, value: float) -> None:
    about = {"css": "p", "type": "number"} | ({"locale": locale} if locale else {})
    assert found(about, f"<p>{text}</p>") == value


def test_the_language_of_the_page_is_its_locale() -> None:
    assert (
        found({"css": "p", "type": "number"}, "<html lang=de><p>1.234"),
        found({"css": "p", "type": "number"}, "<html lang=en><p>1.234"),
    ) == (1234, 1.234)


@pytest.mark.parametrize(
    "kind,text,code",
    [
        ("number", "1.234", "ambiguous_number"),
        ("number", "none", "not_a_number"),
        ("number", "", "not_a_number"),
        ("integer", "1.5", "not_an_integer"),
        ("boolean", "perhaps", "not_a_boolean"),
        ("date", "02/03/2026", "ambiguous_date"),
        ("date", "01/02/03", "ambiguous_date"),
        ("date", "31.02.2026", "not_a_date"),
        ("date", "soon", "not_a_date"),
        ("url", "javascript:alert(1)", "not_a_url"),
        ("url", "http://[x", "not_a_url"),
        ("url", "mailto:a@b.example", "not_a_url"),
        ("price", "ask us", "not_a_number"),
        ("json", "{", "not_json"),
        ("number", "9" * 5000, None),
    ],
)
def test_a_text_that_is_not_what_it_should_be_is_null_and_a_warning_for_machines(kind: str, text: str, code: str | None) -> None:
    result = extract(f"<p>{text}</p>", {"x": {"css": "p", "type": kind, "required": True}}, URL)
    codes = [warning["code"] for warning in result.warnings]
    assert (result.data, codes, result.missing) == ({"x": None}, [code, "missing_field"], ["x"]) or code is None
    codec.dumps(result.data)


@pytest.mark.parametrize(
    "text,value,more",
    [
        ("2026-01-02", "2026-01-02", {}),
        ("2026-01-02T03:04:05Z", "2026-01-02", {}),
        ("2026/1/2", "2026-01-02", {}),
        ("2.1.2026", "2026-01-02", {}),
        ("2 January 2026", "2026-01-02", {}),
        ("Jan 2, 2026", "2026-01-02", {}),
        ("January 2nd, 2026", "2026-01-02", {}),
        ("Posted: 2 Jan. 2026 by me", "2026-01-02", {}),
        ("Fri, 02 Jan 2026 03:04:05 GMT", "2026-01-02", {}),
        ("13/02/2026", "2026-02-13", {}),
        ("02/13/2026", "2026-02-13", {}),
        ("05/05/2026", "2026-05-05", {}),
        ("02/03/2026", "2026-03-02", {"locale": "en-GB"}),
        ("02/03/2026", "2026-02-03", {"locale": "en-US"}),
        ("02/03/2026", "2026-03-02", {"locale": "fr"}),
        ("02|03|26", "2026-03-02", {"format": "%d|%m|%y"}),
    ],
)
def test_a_date_is_iso(text: str, value: str, more: dict[str, str]) -> None:
    assert found({"css": "p", "type": "date", **more}, f"<p>{text}</p>") == value


@pytest.mark.parametrize(
    "text,amount,currency",
    [
        ("$1,299.00", "1299.00", "USD"),
        ("1.299,00 €", "1299.00", "EUR"),
        ("CHF 12.50", "12.50", "CHF"),
        ("R$ 5,90", "5.90", "BRL"),
        ("CA$5.00", "5.00", "CAD"),
        ("12,50 zł", "12.50", "PLN"),
        ("£3", "3", "GBP"),
        ("99.95", "99.95", "SEK"),
        ("NOW 5.00 EUR", "5.00", "EUR"),
    ],
)
def test_a_price_has_an_exact_amount_and_a_currency(text: str, amount: str, currency: str) -> None:
    assert found({"css": "p", "type": "price", "currency": "SEK"}, f"<p>{text}</p>") == {"amount": amount, "currency": currency}


@pytest.mark.parametrize("text,value", [("yes", True), ("TRUE", True), ("0", False), (" No ", False)])
def test_a_boolean_is_a_word(text: str, value: bool) -> None:
    assert found({"css": "p", "type": "boolean"}, f"<p>{text}</p>") is value


# --- specs


@pytest.mark.parametrize(
    "about,words",
    [
        ({"css": "p[["}, "not a CSS selector"),
        ({"css": ""}, "not a text"),
        ({"css": 7}, "not a text"),
        ({"css": "p", "path": "//p"}, "one source"),
        ({"csss": "p"}, "unknown options: csss"),
        (7, "neither"),
        ({"css": "p", "type": "money"}, "type is 'money'"),
        ({"css": "p", "list": "yes"}, "true or false"),
        ({"regex": "("}, "missing )"),
        ({"regex": "(?=x)"}, "RE2"),
        ({"regex": "(a)\\1"}, "RE2"),
        ({"regex": "a", "group": 3}, "no group 3"),
        ({"regex": "a", "group": "x"}, "no group 'x'"),
        ({"any": []}, "1 to 20"),
        ({"any": [{"css": "[["}]}, "not a CSS selector"),
        ({"path": "//p["}, "not closed"),
        ({"path": "//p[foo()]"}, "predicate [foo()]"),
        ({"path": "//@href/p"}, "only at the end"),
        ({"path": "p p"}, "is not a valid step of a path"),
        ({"path": "//p[not(2)]"}, "needs a condition"),
        ({"css": "p", "fields": 7}, "must be an object"),
        ({"css": "p", "fields": {"a": {"css": "[["}}}, "not a CSS selector"),
        ({"json_ld": "."}, "is an empty path"),
        ({"css": "p", "in": "body"}, "text or html"),
        ({"css": "p", "locale": 5}, "text of 1 to 100 characters"),
        ({"regex": "((a{500}){500}){500}"}, "RE2"),
    ],
)
def test_a_spec_that_cannot_be_used_is_refused_with_its_field(about: Any, words: str) -> None:
    with pytest.raises(SpecInvalid) as refused:
        extract("<p>", {"good": "p", "bad": about})
    assert all(problem["field"].startswith("bad") for problem in refused.value.problems)
    assert words in str(refused.value)


def test_every_problem_of_a_spec_is_told_at_once_and_an_empty_one_is_one() -> None:
    with pytest.raises(SpecInvalid) as refused:
        extract("<p>", {"a": {"css": "[["}, "b": {"regex": "("}, "c": {"path": "p p"}})
    assert [problem["field"] for problem in refused.value.problems] == ["a", "b", "c"]
    with pytest.raises(SpecInvalid, match="names no field"):
        extract("<p>", {})


def test_a_spec_has_bounds() -> None:
    deep: Any = {"css": "p"}
    for _ in range(12):
        deep = {"css": "p", "fields": {"a": deep}}
    with pytest.raises(SpecInvalid, match="nested deeper"):
        extract("<p>", {"a": deep})
    with pytest.raises(SpecInvalid, match="more than 500 fields"):
        extract("<p>", {f"f{at}": "p" for at in range(600)})


# --- hostile pages and specs


@pytest.mark.parametrize("regex", ["(a+)+$", "(a|aa)+$", "(.*a){20}", "^(([a-z])+.)+[A-Z]([a-z])+$", "(x+x+)+y", "a?" * 30 + "a" * 30])
def test_a_catastrophic_regex_takes_no_time(regex: str) -> None:
    began = process_time()
    extract("<p>" + "a" * 200_000 + "!</p>", {"x": {"css": "p", "regex": regex}})
    assert process_time() - began < 10


@pytest.mark.parametrize(
    "html",
    [
        "",
        "<",
        "\0",
        "<p>\ud800",
        "<html lang='" + "x" * 100_000 + "'>",
        "<base href='http://['><a href=x>",
        "<script type=application/ld+json>" + "[" * 100_000,
        "<div>" * 50_000,
        "<p class=price>" + "1" * 100_000,
        "<p class=price>" + "1.1," * 50_000,
        "<time datetime=" + "1" * 50_000 + ">",
    ],
)
def test_no_page_makes_it_fail(html: str) -> None:
    spec = {
        "a": "h1",
        "n": {"css": "p", "type": "number"},
        "p": {"css": "p", "type": "price"},
        "d": {"css": "time", "attribute": "datetime", "type": "date"},
        "u": {"css": "a", "attribute": "href", "type": "url"},
        "j": {"json_ld": "*.name"},
        "x": {"path": "//div//div//p"},
        "r": {"regex": "(\\w+)!"},
        "l": {"css": "*", "list": True},
        "m": {"meta": "x"},
    }
    began = process_time()
    codec.dumps(extract(html, spec, URL).data)
    assert process_time() - began < 20


def test_lists_and_warnings_are_bounded() -> None:
    result = extract("<p>x</p>" * 3000, {"l": {"css": "p", "list": True}, "n": {"css": "p", "list": True, "type": "number"}})
    assert (len(result.data["l"]), len(result.warnings)) == (MAX_ITEMS, MAX_WARNINGS + 1)
    assert (result.warnings[0]["code"], result.warnings[-1]["code"]) == ("truncated", "more_warnings")


def test_a_record_of_records_of_records_ends() -> None:
    spec: Any = {"css": "div", "list": True, "fields": {"t": "p"}}
    for _ in range(5):
        spec = {"css": "div", "list": True, "fields": {"x": spec}}
    began = process_time()
    extract("<div>" * 60 + "<p>x", {"x": spec})
    assert process_time() - began < 30


def test_a_path_that_looks_at_everything_again_and_again_is_stopped() -> None:
    result = extract("<p>x</p>" * 20_000, {"x": {"path": "//p/.." * 20}})
    assert (result.data, result.warnings[0]["code"]) == ({"x": None}, "too_costly")


def test_a_path_looks_once_at_what_is_below_several_of_its_places() -> None:
    result = extract("<div>" * 1800 + "<h1>x", {"x": {"path": "//div//div//div[last()]//div//h1/text()"}})
    assert (result.data, result.warnings) == ({"x": "x"}, [])


def test_a_deep_step_from_places_inside_each_other_finds_each_element_once() -> None:
    page = "<div id=a><p id=1><div id=b><p id=2></p><div id=c><p id=3></p></div></div><p id=4></p></div><div id=d><p id=5></div>"
    result = extract(page, {"x": {"path": "//div//p/@id", "list": True}, "first": {"path": "//div//p[1]/@id", "list": True}})
    assert (sorted(result.data["x"]), result.data["first"]) == (["1", "2", "3", "4", "5"], ["1", "2", "3", "5"])


def test_two_slashes_before_an_attribute_or_a_text_read_it_at_all_levels() -> None:
    page = "<div id=a>one<p>two<b id=b>three</b></p></div><div><a href=/x>four</a><a>five</a><a href=/y></a></div>"
    paths = ("//@id", "//@href", "//div//@id", "//p//text()", "//div[2]//text()", "//b/@id")
    result = extract(page, {path: {"path": path, "list": True} for path in paths})
    assert list(result.data.values()) == [["a", "b"], ["/x", "/y"], ["a", "b"], ["two", "three"], ["four", "five"], ["b"]]
    assert extract(page, {"x": {"path": "//@href"}, "y": {"css": "p", "fields": {"z": {"path": ".//@id"}}}}).data == {
        "x": "/x",
        "y": {"z": "b"},
    }


@settings(max_examples=examples(60), deadline=None)
@given(
    st.text(alphabet=st.sampled_from("<>/=\"' apdivlangth1[]{}:,.!-&;\0é"), max_size=200),
    st.text(alphabet="/.@[]()'=adivtexlas12*not ", max_size=25),
)
def test_whatever_page_and_path_json_comes_out_or_the_spec_is_refused(html: str, path: str) -> None:
    try:
        codec.dumps(extract(html, {"x": {"path": path}, "y": {"css": "*", "list": True, "type": "html"}}, URL).data)
    except SpecInvalid as refused:
        assert refused.problems[0]["field"] == "x"  # noqa: PT017 - either way is right, and this is what the second one says


def test_a_path_is_plain_data() -> None:
    assert path_of("//a/@href").take == "@href"
