"""What stands on the pages of a run, in both formats."""

from __future__ import annotations

import itertools
import re
from pathlib import Path

import msgspec
import pytest

from phasewise.model.layout import Layout
from phasewise.records.analyse import Analysis, VariantAnalysis
from phasewise.records.base import Record
from phasewise.records.export import Export
from phasewise.records.ledger import Ledger
from phasewise.records.machine import Machine
from phasewise.records.plan import RunPlan, VariantPlan
from phasewise.records.prepare import Prepared
from phasewise.records.profile import Profile
from phasewise.records.validate import Validation
from phasewise.records.verdict import Reason, Status, Verdict
from phasewise.report.blocks import Code, Page, figures_of
from phasewise.report.content import make_pages
from phasewise.report.markdown import render_markdown
from phasewise.report.sections.provenance import render_reproduce
from phasewise.run import Run
from report.make import RUN, STACK, WORKLOAD, change, limit_end, make_records, make_targets
from report.make_less import stripped
from report.reading import as_html, read_html, read_markdown, seen

ORDER = ["answer", "promises", "next-step", "ladder", "alarms", "criteria", "open-risks", "parts", "cases"]
TOPICS = {
    "results": ["summary", "roadmap", "peers", "control"],
    "profile": ["findings", "time"],
    "validation": ["validation", "document"],
    "exports": ["exports"],
    "method": ["risks", "ledger", "considered", "environment", "reproduce"],
}

OF_VARIANTS = (VariantPlan, Validation, Profile, Export, VariantAnalysis)


@pytest.fixture(scope="module")
def pages() -> dict[str, Page]:
    return {page.name: page for page in make_pages(make_records())}


@pytest.fixture(scope="module")
def documents(pages: dict[str, Page]) -> dict[str, str]:
    return {name: as_html(page) for name, page in pages.items()}


def page_of(run: Run, name: str) -> str:
    """One page of a run, as Markdown."""
    return render_markdown(next(page for page in make_pages(run) if page.name == name))


def test_a_run_has_an_index_a_page_a_part_and_one_for_the_rest(pages: dict[str, Page]) -> None:
    assert list(pages) == ["index", *TOPICS, "week-1", "week-2", "phases"]


def test_the_floor_of_a_step_is_not_that_of_a_baseline_timed_by_the_item() -> None:
    records = make_records()
    cases = tuple(msgspec.structs.replace(case, floor_s=1.4e-12) for case in records.analysis.cases)
    per_item = change(records, msgspec.structs.replace(records.analysis, cases=cases))
    text = page_of(per_item, "profile")
    assert text.count("Best possible time of one step at the measured peaks (memory traffic): 600\u00a0µs.") == len(
        cases
    )


def test_what_was_not_measured_is_named_among_the_peers_with_its_reason() -> None:
    records = make_records()
    wanted = "does not fit beside this torch"
    assert wanted in page_of(records, "results").split('<a id="peers">')[1].split("\n## ")[1]
    whole = change(records, msgspec.structs.replace(records.plan, unmeasured=()))
    assert wanted not in page_of(whole, "results")


def test_every_section_of_an_index_is_there_in_order_in_html(documents: dict[str, str]) -> None:
    sections = [one["id"] for one in read_html(documents["index"]).all("section") if one.get("class") != "group"]
    assert sections == ORDER


def test_every_section_of_an_index_is_there_in_order_in_markdown(pages: dict[str, Page]) -> None:
    text = render_markdown(pages["index"])
    anchors = re.findall(r'^<a id="([^"]+)"></a>\n\n## ', text, flags=re.MULTILINE)
    assert anchors == ORDER


def test_every_topic_has_a_page_of_its_own(pages: dict[str, Page]) -> None:
    assert {name: [section.id for section in pages[name].sections] for name in TOPICS} == TOPICS


def test_both_formats_hold_the_same_tables_and_figures(pages: dict[str, Page], documents: dict[str, str]) -> None:
    for name, page in pages.items():
        ours, theirs = read_html(documents[name]), read_markdown(render_markdown(page))
        assert len(ours.all("table")) == len(theirs.all("table"))
        assert (
            len(ours.all("img")) == len(theirs.all("img")) == sum(len(figures_of(one.blocks)) for one in page.sections)
        )
        assert len(ours.all("td")) + len(ours.all("th")) == len(theirs.all("td")) + len(theirs.all("th"))


def test_the_first_screen_is_the_verdict_and_five_numbers_of_the_first_case(documents: dict[str, str]) -> None:
    text = documents["index"]
    answer = seen(text[text.index('id="answer"') : text.index('id="promises"')])
    assert answer.count('class="tile"') == 5
    for words in (
        "takes 1.31\xa0ms a step",
        "9.47×",
        "[9.30,\xa09.64]",
        "chained",
        "46\xa0%",
        f"Of {len(make_targets())} targets of the plan: ",
        *("Is it faster?", "Faster than what?", "Is it right?", "Was the promise kept?", "What next?"),
        "Partly, 2 of 3:",
        "of the measured promises of your document, 1 beaten, 1 kept, 1 broken.",
    ):
        assert words in answer, words


def test_a_headline_that_is_no_claim_is_not_green_and_says_so_wherever_it_stands() -> None:
    records = make_records()
    assert records.analysis is not None
    below = {"stack_status": Status.INCONCLUSIVE, "stack_reason": Reason.BELOW_FLOOR}
    cases = tuple(msgspec.structs.replace(case, **below, rows=limit_end(case, 3.618)) for case in records.results)
    changed = change(records, msgspec.structs.replace(records.analysis, cases=cases))
    before, text = (as_html(make_pages(one)[0]) for one in (records, changed))
    assert '<strong class="tone-good">9.47×' in before and "not a claim" not in before.lower()
    assert '<strong class="tone-warn">9.47×' in text
    assert "differ by up to 362\xa0%" in text and text.count("not a claim)") == len(cases) + 1


def test_a_stack_that_ends_where_it_began_is_no_speed_up() -> None:
    records = make_records()
    cases = tuple(msgspec.structs.replace(case, stack_status=Status.BASELINE) for case in records.results)
    text = seen(page_of(change(records, msgspec.structs.replace(records.analysis, cases=cases)), "index"))
    assert "a step in your own code: no phase has taken its place" in text and "as fast as the baseline" not in text
    assert "it is your code; it takes" in text


def test_promised_numbers_stand_beside_what_was_measured_and_the_other_lines_are_counted(
    pages: dict[str, Page],
) -> None:
    table, whole = next(section for section in pages["index"].sections if section.id == "promises").blocks
    assert [(row[0], row[3], row[1].text) for row in table.rows] == [
        ("Fuse messages: 1.5-2x", "1.5 to 2×", "beaten"),
        ("under 3 ms", "the target's bounds", "kept"),
    ]
    assert whole.text[0] == "Toy plan: 4 promises, 1 beaten, 1 kept, 1 broken, 1 no promise. "


def test_every_line_of_the_document_has_its_place_and_what_answers_it(documents: dict[str, str]) -> None:
    text = documents["validation"]
    told = seen(text[text.index('id="document"') :])
    for words in ("12, 40", "No NaN", "finite", "3 NaN", "a plan of work", "target step of forward"):
        assert words in told, words
    assert 'href="validation.html#document"' in documents["index"]


def test_three_next_steps_are_told_with_what_they_hold_at_most() -> None:
    records = make_records()
    (step,) = records.analysis.next_steps
    many = tuple(msgspec.structs.replace(step, advice=f"Do {index}.") for index in range(5))
    text = page_of(change(records, msgspec.structs.replace(records.analysis, next_steps=many)), "index")
    assert [f"Do {index}." in text for index in range(5)] == [True, True, True, False, False]
    assert "At most 400\xa0µs of a step in `forward`" in text


def test_alarms_come_before_any_table_of_results(documents: dict[str, str]) -> None:
    text = documents["index"]
    assert text.index("channels-last is SLOWER than its parent") < text.index('id="cases"')


def test_the_summary_has_the_columns_that_were_asked_for(documents: dict[str, str]) -> None:
    text = documents["results"]
    head = text[text.index("<thead>", text.index('id="summary"')) : text.index("</thead>", text.index('id="summary"'))]
    titles = re.findall(r"<th[^>]*>([^<]*)</th>", head)
    wanted = [
        "Phase",
        "Verdict",
        "Measured",
        "Interval",
        "Predicted",
        "Documented",
        "Error",
        "Energy an item",
        "Memory",
        "Risk",
        "Method",
    ]
    assert [title for title in titles if title in wanted] == wanted


def leave_out(records: Run, phase: str, cases: int) -> Run:
    """The same run, with a phase that is not for the first so many cases."""
    assert records.analysis is not None
    apart = Verdict(status=Status.SKIPPED, reason=Reason.CASE_NOT_CHOSEN)
    changed = tuple(
        msgspec.structs.replace(
            case,
            rows=tuple(msgspec.structs.replace(row, verdict=apart) if row.phase == phase else row for row in case.rows),
        )
        for case in records.analysis.cases[:cases]
    )
    rest = records.analysis.cases[cases:]
    return change(records, msgspec.structs.replace(records.analysis, cases=(*changed, *rest)))


def test_a_tolerance_of_a_variants_own_stands_in_the_headline_and_in_its_row() -> None:
    records = make_records()
    assert "wider than the usual tier" not in page_of(records, "index")
    plan = records[STACK].plan
    wider = msgspec.structs.replace(plan.allowance, rtol=0.05, why="bfloat16 products")
    changed = change(records, msgspec.structs.replace(plan, allowance=wider))
    lead, rest = page_of(changed, "index"), page_of(changed, "validation")
    assert "Its tolerance is wider than the usual tier moderate: " in lead
    assert "bfloat16 products" in lead
    rows = [line for line in rest.splitlines() if "tolerance of its own: " in line]
    assert rows
    assert all(line.startswith("|") and STACK in line.split("|")[1] and "bfloat16 products" in line for line in rows)


def test_a_phase_that_is_not_for_a_case_is_named_below_its_table() -> None:
    records = make_records()
    changed = leave_out(records, "channels-last", 1)
    told, before = (page_of(one, "results") for one in (changed, records))
    assert "Phases that are not for this case: channels-last." in told and "not for this case" not in before
    rows_in = [text.count("| [`03-channels-last`](") for text in (told, before)]
    assert rows_in[0] == rows_in[1] - 1


@pytest.mark.parametrize(("left_out", "case"), [(0, 0), (1, 1), (2, 0)])
def test_a_phase_is_told_at_a_glance_in_the_first_case_that_it_is_for(left_out: int, case: int) -> None:
    records = leave_out(make_records(), "channels-last", left_out)
    assert len(records.results) == 2
    page = next(page for page in make_pages(records) if page.name == "week-1")
    row = next(line for line in render_markdown(page).splitlines() if line.startswith("| [`03-channels-last`]"))
    assert row.split(" | ")[1] == f"`{records.results[case].case}`"
    assert ("Skipped" in row) == (left_out == 2)


@pytest.mark.parametrize(
    ("there", "commands"),
    [((), "phasewise run"), (("Snakefile",), "snakemake --cores all")],
    ids=["a project of init", "a repository"],
)
def test_the_commands_that_make_a_run_again_are_those_of_its_project(
    tmp_path: Path, there: tuple[str, ...], commands: str
) -> None:
    for name in there:
        (tmp_path / name).touch()
    run = Run(WORKLOAD, RUN, make_records().known, layout=Layout(tmp_path))
    told = next(block for block in render_reproduce(run).blocks if isinstance(block, Code))
    assert told.text.split("\n", 1)[1] == commands


def test_every_phase_stands_on_the_page_of_its_part(pages: dict[str, Page]) -> None:
    sections = {name: [section.id for section in page.sections] for name, page in pages.items()}
    assert sections["week-1"] == ["overview", "01-tf32", "02-fused-message", "03-channels-last"]
    assert sections["week-2"] == ["overview", "04-bigger-block", "05-cuda-graph"]
    assert sections["phases"] == ["overview", "06-offload", "07-checkpoint", "08-two-gpus", "09-noisy"]


def test_a_phase_shows_what_it_changed_and_whether_the_profile_called_for_it(documents: dict[str, str]) -> None:
    text = documents["week-2"]
    assert "- graph = False\n+ graph = True" in text
    assert "in the profile of 02-fused-message" in text
    assert "the author&#39;s idea, not from a trace" in text


def test_every_outcome_is_told(documents: dict[str, str]) -> None:
    everything = "".join(documents.values())
    for words in (
        "the gate had to refuse it, and did", "it ran out of memory", "its parent can&#39;t run here, and it can",
        "needs 2 GPUs, this machine has 1", "other processes were busy on this machine", "within 1\xa0% of no change",
        "fell back: segment_sum", "Looked for, and not there: host-sync", "no Nsight Compute counters", "6.72×", "complex input is not supported",
        "forces lose three digits", "4.10\xa0TB/s", "git checkout 4f2a9c1", "custom operator segment_sum has no ONNX form",
    ):  # fmt: skip
        assert words in everything, words


def test_links_lead_to_anchors_that_exist(pages: dict[str, Page], documents: dict[str, str]) -> None:
    read = {name: read_html(text) for name, text in documents.items()}
    anchors = {name: {one["id"] for _, one in reader.elements if one.get("id")} for name, reader in read.items()}
    for name, reader in read.items():
        for link in reader.all("a"):
            page, _, anchor = (link["href"] or "").partition("#")
            if page.startswith("../"):
                continue
            assert page.removesuffix(".html") in ("", *pages)
            assert not anchor or anchor in anchors[page.removesuffix(".html") or name], link


def test_ids_are_unique_and_headings_skip_no_level(documents: dict[str, str]) -> None:
    for text in documents.values():
        reader = read_html(text)
        ids = [one["id"] for _, one in reader.elements if one.get("id")]
        assert len(ids) == len(set(ids))
        levels = [int(tag[1]) for tag, _ in reader.elements if re.fullmatch(r"h[1-6]", tag)]
        assert levels[0] == 1 and levels.count(1) == 1
        assert all(after <= before + 1 for before, after in itertools.pairwise(levels))


def test_pages_can_be_read_without_eyes_mouse_or_network(documents: dict[str, str]) -> None:
    for name, text in documents.items():
        reader = read_html(text)
        assert all(one.get("alt") for one in reader.all("img"))
        assert len(reader.all("caption")) == len(reader.all("table"))
        assert reader.all("a")[0]["href"] == "#content" and reader.all("main")[0]["id"] == "content"
        assert all(one.get("scope") for one in reader.all("th"))
        assert "@media print" in text and "http-equiv" not in text and "@import" not in text and "url(" not in text
        sources = [one["src"] for _, one in reader.elements if one.get("src")]
        assert all(source.startswith("data:image/svg+xml,") or source == "../../vega.js" for source in sources)
        assert not [one for _, one in reader.elements if "http" in (one.get("href") or "")]
        assert ("../../vega.js" in sources) == (name in ("index", "results", "profile"))


def test_the_same_records_give_the_same_bytes(documents: dict[str, str]) -> None:
    again = {page.name: as_html(page) for page in make_pages(make_records())}
    assert again == documents


def test_a_run_of_nothing_but_a_baseline_renders() -> None:
    records = make_records()
    assert records.plan is not None and records.analysis is not None
    cases = tuple(
        msgspec.structs.replace(
            case,
            rows=case.rows[:1],
            stack="00-baseline",
            stack_speedup=None,
            control=None,
            baseline_control=None,
            peers=(),
            parts=(),
        )
        for case in records.analysis.cases[:1]
    )
    alone = [
        msgspec.structs.replace(records.plan, phases=(), parts=(), variants=records.plan.variants[:1], stack={}),
        msgspec.structs.replace(records.analysis, cases=cases, targets=(), risks=(), next_steps=(), alarms=()),
        records.machine,
        *(one for one in records.known if getattr(one, "variant", "") == "00-baseline"),
    ]
    page = make_pages(Run(WORKLOAD, RUN, alone))[0]
    assert "No alarms" in as_html(page) and "no ratio is on record" in as_html(page)


@pytest.mark.parametrize(
    "missing", [RunPlan, Analysis, Ledger, Prepared, Machine, "variants", "optional", "everything"]
)
def test_missing_records_are_holes_and_never_a_crash(missing: type[Record] | str) -> None:
    records = make_records()
    if missing == "everything":
        records = Run(WORKLOAD, RUN)
    elif missing == "optional":
        records = stripped(records)
    else:
        records = change(records, without=OF_VARIANTS if missing == "variants" else (missing,))
    pages = make_pages(records)
    assert [section.id for section in pages[0].sections] == ORDER
    for page in pages:
        assert "None" not in "".join(read_html(as_html(page)).text).replace("no digits", "")
        assert "None" not in render_markdown(page)


def test_a_plan_without_results_shows_the_road_ahead() -> None:
    pages = {page.name: page for page in make_pages(change(make_records(), without=(Analysis,)))}
    results = pages["results"].sections
    assert [figure.name for section in results for figure in figures_of(section.blocks)] == ["roadmap"]
    assert "Success criteria, not judged yet" in render_markdown(pages["index"])


def test_the_stack_of_the_run_is_the_one_that_is_shown_in_profile(pages: dict[str, Page]) -> None:
    text = render_markdown(pages["profile"])
    assert f"Profile of `{STACK}`: 20 steps" in text and "attributed by the step without graphs" in text


def test_a_peer_that_only_an_earlier_program_was_held_against_is_told_with_it() -> None:
    records = make_records()
    first, *others = records.results
    earlier = tuple(msgspec.structs.replace(peer, variant="02-fused-message") for peer in first.peers)
    cases = (msgspec.structs.replace(first, peers=earlier), *others)
    before, after = (
        seen(page_of(one, "index"))
        for one in (records, change(records, msgspec.structs.replace(records.analysis, cases=cases)))
    )
    assert "held against" not in before and "; held against 02-fused-message." in after
    untimed = tuple(msgspec.structs.replace(case, stack_speedup=None, stack_at_least=None) for case in cases)
    text = seen(page_of(change(records, msgspec.structs.replace(records.analysis, cases=untimed)), "index"))
    assert "Yes, than the strongest other way:" in text
    assert "your code (the baseline) was not timed beside it" in text
    assert "Held against the other way was an earlier program, 02-fused-message." in text


def test_where_only_an_earlier_program_was_held_against_the_baseline_that_is_told() -> None:
    records = make_records()
    first, *others = records.results
    rows = tuple(
        msgspec.structs.replace(row, verdict=msgspec.structs.replace(row.verdict, baseline_status=Status.FASTER))
        if row.variant == "02-fused-message" else row
        for row in first.rows
    )  # fmt: skip
    untold = msgspec.structs.replace(first, rows=rows, stack_speedup=None, stack_at_least=None)
    text = seen(page_of(change(records, msgspec.structs.replace(records.analysis, cases=(untold, *others))), "index"))
    assert "an earlier program, 02-fused-message, is" in text and "as fast as your code, the baseline" in text
    assert "; held against 02-fused-message; it takes" in text


def test_a_share_above_the_whole_is_left_out_with_its_reason() -> None:
    records = make_records()
    profile = records[STACK].profile
    impossible = tuple(
        msgspec.structs.replace(
            case, counters=tuple(msgspec.structs.replace(one, l2_hit_percent=143.45) for one in case.counters)
        )
        for case in profile.cases
    )
    before, after = (
        page_of(one, "profile")
        for one in (records, change(records, msgspec.structs.replace(profile, cases=impossible)))
    )
    assert "38\xa0%" in before and "above 100" not in before
    assert "143" not in after and "38\xa0%" not in after and "A share above 100 % is left out" in after


def test_sensors_are_told_without_the_start_up() -> None:
    records = make_records()
    profile = records[STACK].profile
    idle = tuple(
        msgspec.structs.replace(
            case,
            sensors=tuple(
                msgspec.structs.replace(one, utilisation_percent=0.0) if one.at_s < 0.4 else one for one in case.sensors
            ),
        )
        for case in profile.cases
    )
    text = page_of(change(records, msgspec.structs.replace(profile, cases=idle)), "profile")
    assert "| busy | 88 % |" in text and "Without the first 5 readings" in text


def test_the_step_and_its_trace_are_told_where_they_are_on_record() -> None:
    records = make_records()
    profile = records[STACK].profile
    bare = tuple(msgspec.structs.replace(case, stretches=(), captures=()) for case in profile.cases)
    before, after = (
        next(page for page in make_pages(one) if page.name == "profile")
        for one in (records, change(records, msgspec.structs.replace(profile, cases=bare)))
    )
    assert 'href="../../../profiles/captures/toy_model/full-h200/trace.json.gz"' in as_html(before)
    names = [
        [figure.name for section in page.sections for figure in figures_of(section.blocks)] for page in (before, after)
    ]
    assert "step-forward" in names[0] and "step-forward" not in names[1]
    assert "perfetto" not in as_html(after)


def test_kernels_can_be_sorted_and_two_variants_of_many_chosen(documents: dict[str, str]) -> None:
    reader = read_html(documents["profile"])
    kinds = {word for one in reader.all("table") for word in (one.get("class") or "").split()}
    assert {"sortable", "paired"} <= kinds
    values = [float(one["data-value"]) for one in reader.all("td") if one.get("data-value")]
    assert len(values) > 20 and max(values) > 1.0


QUANTITY = re.compile(r"(?<![\w.])\d[\d.\u202f]*[\u00a0 ]?(?:×|%|[nµm]?s|[kMGT]?B|W|J|MHz|°C|FLOP/s)(?![\w/])")


@pytest.mark.parametrize("bare", [False, True], ids=["records without numbers", "no records"])
def test_no_number_is_told_without_a_record(bare: bool) -> None:
    records = Run(WORKLOAD, RUN) if bare else stripped(make_records())
    guesses = tuple(msgspec.structs.replace(one, documented=None, expect=None) for one in records.plan.phases)
    for page in make_pages(records if bare else change(records, msgspec.structs.replace(records.plan, phases=guesses))):
        # the level of all intervals is ours
        told = QUANTITY.findall(render_markdown(page).replace("with 95 % intervals", ""))
        assert not told, page.name
        assert not [one.name for section in page.sections for one in figures_of(section.blocks)]
    assert len(QUANTITY.findall(page_of(make_records(), "index"))) > 20
