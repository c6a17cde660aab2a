"""What the users' documents promise is on record as the studies say it, and on the pages line by line."""

from __future__ import annotations

import pytest

from phasewise.model.plain_yaml import read_yaml
from phasewise.records.plan import RunPlan
from phasewise.report.format import clean
from phasewise.report.markdown import escape
from phasewise.store import read

STUDIES = ("bk_core", "lior", "painn", "polychromic", "resnet_bk", "spectral_node")


@pytest.mark.parametrize("study", STUDIES)
def test_every_promise_of_the_document_is_on_record_and_on_a_page(study, repository):
    written = read_yaml(repository / "src/phasewise_studies" / study / "promises.yaml")
    plans = sorted((repository / "profiles/records" / study).glob("full-*/plan.json"))
    assert plans
    for path in plans:
        run = read(path, RunPlan)
        assert run.document == written["document"]
        assert [one.quote for one in run.promises] == [one["quote"] for one in written["promises"]]
        page = (repository / "reports" / study / run.run / "validation.md").read_text()
        assert [one.quote for one in run.promises if escape(clean(one.quote)) not in page] == []
