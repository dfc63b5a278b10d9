"""Dates in the texts of scraped pages, which strangers write."""

from __future__ import annotations

from datetime import date

import pytest

from holdfast.library.web_scrape.values import Unfit, moment_of


def test_a_year_that_no_date_can_have_is_no_date() -> None:
    with pytest.raises(Unfit):
        moment_of("Mon, 01 Jan 99999999999999 00:00:00 +0000", None, "en")


@pytest.mark.parametrize("locale", ["en-US", "en_US", "EN_us"])
def test_the_locale_says_in_either_spelling_that_the_month_is_first(locale: str) -> None:
    assert moment_of("03/04/2026", None, locale) == date(2026, 3, 4)
