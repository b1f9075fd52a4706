"""``pubweave plan``: exit codes, files, words and JSON."""

from __future__ import annotations

import contextlib
import json
import signal
import xml.etree.ElementTree as ElementTree
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from pubweave.cli import main, output
from pubweave.cli.deploy import plan as plan_verb
from pubweave.cli.deploy.plan_view import print_result
from pubweave.cli.options.plan_rules import link_named
from pubweave.model.files.plan import PlanRecord, read_plan, topology_hash, write_plan
from pubweave.model.files.topology import write_topology
from pubweave.model.ids import Link
from pubweave.model.plans import Append, Bounds, Detach, Plan, PlanStatus, Shift
from pubweave.model.topology import Topology
from pubweave.planning import solver as solve_module
from pubweave.planning.check.validate import InvalidPlanError, PlanRule, validate_plan
from pubweave.planning.problem.problem import PlanningProblem, PlanningProgress, PlanResult

PNG = b"\x89PNG"


def tree(text: str, **attributes: Any) -> Topology:
    pairs = [(f"b{pair[0]}", f"b{pair[1]}") for pair in text.split()]
    links = Topology.from_links(pairs)
    return Topology(links.brokers, links.links, **attributes)


FIGURE_1 = tree("12 13 24"), tree("12 13 34")
PAPER_PLAN = Plan(((Shift("b4", "b2", "b1"),), (Shift("b4", "b1", "b3"),)))


@pytest.fixture
def files(tmp_path: Path) -> Callable[[Topology, Topology], list[str]]:
    def write(source: Topology, target: Topology) -> list[str]:
        paths = [tmp_path / "source.json", tmp_path / "target.json"]
        write_topology(source, paths[0])
        write_topology(target, paths[1])
        return [str(path) for path in paths]

    return write


def run(capsys: pytest.CaptureFixture[str], *arguments: object) -> tuple[int, str, str]:
    code = main.run(["plan", *(str(argument) for argument in arguments)])
    printed = capsys.readouterr()
    return code, printed.out, printed.err


@pytest.mark.parametrize("method", ["auto", "ip-naive", "bfs"])
def test_make_prints_and_writes_the_plan(
    files: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str], method: str
) -> None:
    output = tmp_path / "plan.json"
    code, out, err = run(capsys, "make", *files(*FIGURE_1), "-o", output, "--method", method)
    assert code == 0
    assert "step 1: shift(b4, b2, b1)\nstep 2: shift(b4, b1, b3)\n2 steps, 2 actions" in out
    assert f"wrote {output}" in err
    record = read_plan(output)
    assert record.plan == PAPER_PLAN
    assert record.source_hash == topology_hash(FIGURE_1[0])
    assert record.target_hash == topology_hash(FIGURE_1[1])


def test_make_speaks_json(files: Any, capsys: pytest.CaptureFixture[str]) -> None:
    code, out, err = run(capsys, "make", *files(*FIGURE_1), "--method", "ip-naive", "--json")
    document = json.loads(out)
    assert (code, err) == (0, "")
    assert document["status"] == "optimal"
    assert document["bounds"] == {"steps": 2, "actions": 2}
    assert (document["step_count"], document["action_count"]) == (2, 2)
    assert document["steps"][0] == [{"op": "shift", "brokers": ["b4", "b2", "b1"]}]


def test_brokers_are_appended_first_and_detached_last(
    files: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    source, target = tree("12 23 34"), tree("13 34 45")
    output = tmp_path / "plan.json"
    code, _, _ = run(capsys, "make", *files(source, target), "-o", output, "--method", "bfs")
    assert code == 0
    plan = read_plan(output).plan
    assert plan.steps[0] == (Append("b5", "b4"),)
    assert plan.steps[-1] == (Detach("b2", "b1"),)
    validate_plan(PlanningProblem(source, target), plan)
    refused, _, err = run(capsys, "make", *files(source, target), "--same-brokers")
    assert refused == 2
    assert "different brokers, for example 'b2'" in err


def test_costs_change_the_plan(
    files: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    source, target = tree("12 23 34"), tree("12 34 14")
    plans = []
    for dear in ("b1", "b4"):
        costs = tmp_path / f"{dear}.csv"
        other = "b2,b1" if dear == "b1" else "b3,b4"
        mover = "b3" if dear == "b1" else "b2"
        costs.write_text(f"mover,old_peer,new_peer,cost\n{mover},{other},9\n")
        output = tmp_path / "plan.json"
        arguments = [*files(source, target), "-o", output, "--action-cost", costs]
        assert run(capsys, "make", *arguments, "--method", "ip-naive")[0] == 0
        plans.append(read_plan(output).plan)
        assert Shift(mover, *other.split(",")) not in set(plans[-1].actions())
    assert plans[0] != plans[1]


def test_costs_by_latency_and_traffic_need_their_numbers(
    files: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    bare = files(*FIGURE_1)
    code, _, err = run(capsys, "make", *bare, "--action-cost", "latency")
    assert (code, "neither topology has latencies" in err) == (2, True)
    code, _, err = run(capsys, "make", *bare, "--action-cost", "traffic")
    assert (code, "broker 'b1' has no rate_per_s" in err) == (2, True)
    source = tree(
        "12 13 24",
        latency_ms={Link("b1", "b2"): 10.0},
        broker_attributes={f"b{n}": {"rate_per_s": 5} for n in range(1, 5)},
    )
    known = files(source, FIGURE_1[1])
    for name in ("latency", "traffic"):
        assert run(capsys, "make", *known, "--action-cost", name, "--method", "bfs")[0] == 0


BAD_INPUT = {
    "a missing file": (["make", "nowhere.json", "nowhere.json"], "nowhere.json"),
    "an unknown pin": (["make", "S", "T", "--pin", "b1-b9"], "there is no broker 'b9'"),
    "a pin that cannot stay": (
        ["make", "S", "T", "--pin", "b2-b4"],
        "pinned link b2-b4 is not in the target topology",
    ),
    "a pin that never was": (
        ["make", "S", "T", "--pin", "b3-b4"],
        "pinned link b3-b4 is not in the source topology",
    ),
    "a forbidden goal": (
        ["make", "S", "T", "--forbid", "b3-b4"],
        "forbidden link b3-b4 is in the target topology",
    ),
    "half a link": (["make", "S", "T", "--forbid", "b3"], "expected two different brokers as A-B"),
    "a degree that cannot hold": (
        ["make", "S", "T", "--max-degree", "1"],
        "has 2 links in the target, more than the degree limit of 1",
    ),
    "a cost file that is none": (
        ["make", "S", "T", "--action-cost", "cheap"],
        "give uniform, latency, traffic or a CSV file",
    ),
    "an unknown method": (["make", "S", "T", "--method", "magic"], "'magic' is not one of"),
    "no time at all": (["make", "S", "T", "--time-limit", "0"], "0"),
    "a plan that is none": (["show", "S", "T"], "missing required field `format_version`"),
}


@pytest.mark.parametrize("name", BAD_INPUT)
def test_bad_input_is_one_message_and_code_2(
    files: Any, capsys: pytest.CaptureFixture[str], name: str
) -> None:
    arguments, complaint = BAD_INPUT[name]
    source, target = files(*FIGURE_1)
    filled = [{"S": source, "T": target}.get(word, word) for word in arguments]
    code, out, err = run(capsys, *filled)
    assert (code, out) == (2, "")
    assert complaint in err
    assert "Traceback" not in err


def test_a_topology_that_is_no_tree_is_named(
    files: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    code, _, err = run(capsys, "make", *files(tree("12 13 23 34"), FIGURE_1[1]))
    assert code == 2
    assert "the source topology: not a tree: " in err
    assert "cycle" in err


def answering(monkeypatch: pytest.MonkeyPatch, answer: Callable[..., PlanResult]) -> None:
    monkeypatch.setattr("pubweave.planning.solver.solve_problem", answer)


def test_a_proven_impossibility_has_its_own_code_and_says_why(
    files: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def impossible(*_: object, **__: object) -> PlanResult:
        notes = ("every way needs link b1-b4",)
        return PlanResult(PlanStatus.INFEASIBLE, None, Bounds(1, 1), "exact", 0.1, notes)

    answering(monkeypatch, impossible)
    output = tmp_path / "plan.json"
    code, out, _ = run(capsys, "make", *files(*FIGURE_1), "-o", output)
    assert (code, out) == (3, "infeasible (exact, 0.10 s)\nnote: every way needs link b1-b4\n")
    assert not output.exists()


@pytest.mark.parametrize("method", ["auto", "exact", "fast"])
@pytest.mark.parametrize(
    ("source", "target", "rules", "why"),
    [
        ("12 23 34", "14 23 34", ["--forbid", "b1-b3"], "the rules allow no step from the source"),
        (
            "12 13 24",
            "12 14 23",
            ["--max-degree", "2", "--disjoint-brokers", "--forbid", "b3-b4"],
            "the rules allow no step from the source",
        ),
        (
            "12 13 14 15",
            "12 23 34 45",
            ["--max-degree", "2", "--disjoint-brokers"],
            "the source has brokers with more than 2 links, and no single step brings them all "
            "down to that",
        ),
    ],
)
def test_what_the_planner_proves_impossible_exits_with_3_and_the_reason(
    files: Any,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    method: str,
    source: str,
    target: str,
    rules: list[str],
    why: str,
) -> None:
    output = tmp_path / "plan.json"
    arguments = [*files(tree(source), tree(target)), *rules, "--method", method]
    code, out, _ = run(capsys, "make", *arguments, "-o", output)
    assert code == 3
    assert out.startswith(f"infeasible ({method}, ")
    assert out.endswith(f" s)\nnote: {why}\n")
    assert not output.exists()
    code, out, _ = run(capsys, "make", *arguments, "--json")
    document = json.loads(out)
    assert (code, document["status"], document["notes"]) == (3, "infeasible", [why])
    assert "steps" not in document


def test_an_invalid_plan_is_a_crash_and_not_bad_input(
    files: Any, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def lying(*_: object) -> None:
        raise InvalidPlanError(PlanRule.PIVOT_STAYS, step=1)

    monkeypatch.setattr(solve_module, "_Solver", lying)
    code, _, err = run(capsys, "make", *files(*FIGURE_1))
    assert code == 1
    assert "Traceback" in err
    assert "the planner (auto) made an invalid plan: step 1: another action" in err


def test_no_plan_in_time_has_its_own_code(files: Any, capsys: pytest.CaptureFixture[str]) -> None:
    limit = ["--time-limit", "0.000001", "--method", "ip-naive"]
    code, out, _ = run(capsys, "make", *files(*FIGURE_1), *limit)
    assert code == 4
    assert "unknown" in out
    assert "ended by the time limit of 1e-06 s: no plan was found by then" in out


def test_ctrl_c_returns_the_best_plan_so_far(
    files: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(*_: object, stop: Callable[[], bool], **__: object) -> PlanResult:
        assert not stop()
        signal.raise_signal(signal.SIGINT)
        assert stop()
        return PlanResult(PlanStatus.FEASIBLE, PAPER_PLAN, Bounds(1, 1), "exact", 0.1)

    answering(monkeypatch, interrupted)
    before = signal.getsignal(signal.SIGINT)
    output = tmp_path / "plan.json"
    code, out, _ = run(capsys, "make", *files(*FIGURE_1), "-o", output)
    assert code == 0
    assert "note: ended by Ctrl-C: this is the best plan by then" in out
    assert read_plan(output).status is PlanStatus.FEASIBLE
    assert signal.getsignal(signal.SIGINT) == before


def test_a_second_ctrl_c_interrupts(
    files: Any, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def stubborn(*_: object, **__: object) -> PlanResult:
        signal.raise_signal(signal.SIGINT)
        signal.raise_signal(signal.SIGINT)
        raise AssertionError("still running")

    answering(monkeypatch, stubborn)
    assert run(capsys, "make", *files(*FIGURE_1))[0] == 130


@pytest.fixture
def plan_file(tmp_path: Path) -> Path:
    path = tmp_path / "plan.json"
    hashes = [topology_hash(topology) for topology in FIGURE_1]
    record = PlanRecord(PAPER_PLAN, PlanStatus.OPTIMAL, "exact", 0.1, Bounds(2, 2), *hashes)
    write_plan(record, path)
    return path


def test_validate_accepts_a_valid_plan(
    files: Any, plan_file: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    paths = files(*FIGURE_1)
    assert run(capsys, "validate", *paths, plan_file) == (0, "valid: 2 steps, 2 actions\n", "")
    code, out, _ = run(capsys, "validate", *paths, plan_file, "--json")
    assert (code, json.loads(out)) == (0, {"valid": True, "steps": 2, "actions": 2})


def test_validate_names_step_action_and_rule(
    files: Any, plan_file: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = [*files(*FIGURE_1), plan_file, "--forbid", "b1-b4"]
    code, out, _ = run(capsys, "validate", *arguments)
    assert (code, out) == (
        1,
        "not valid: step 1, shift(b4, b2, b1): the link it adds is forbidden (b1-b4)\n",
    )
    code, out, _ = run(capsys, "validate", *arguments, "--json")
    verdict = json.loads(out)
    assert (code, verdict["step"], verdict["action"]) == (1, 1, "shift(b4, b2, b1)")
    assert (verdict["valid"], verdict["rule"]) == (False, "forbidden")


def test_validate_warns_of_a_plan_made_for_other_topologies(
    files: Any, plan_file: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    wider = tree("12 13 24 15"), tree("12 13 34 15")
    code, out, err = run(capsys, "validate", *files(*wider), plan_file)
    assert (code, out) == (0, "valid: 2 steps, 2 actions\n")
    assert "was made for another source topology" in err


def test_show_prints_the_steps(
    files: Any, plan_file: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    source, target = files(*FIGURE_1)
    code, out, _ = run(capsys, "show", source, plan_file)
    assert code == 0
    assert out.endswith("step 2: shift(b4, b1, b3)\n2 steps, 2 actions, optimal\n")
    code, _, err = run(capsys, "show", target, plan_file)
    assert code == 2
    assert "another source topology" in err


def test_show_draws_png_and_svg(
    files: Any, plan_file: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    source, _ = files(*FIGURE_1)
    assert run(capsys, "show", source, plan_file, "-o", tmp_path / "plan.png")[0] == 0
    assert (tmp_path / "plan.png").read_bytes().startswith(PNG)
    pictures = []
    for name in ("one.svg", "two.svg"):
        assert run(capsys, "show", source, plan_file, "-o", tmp_path / name)[0] == 0
        pictures.append((tmp_path / name).read_text())
    assert pictures[0] == pictures[1]
    texts = {element.text for element in ElementTree.fromstring(pictures[0]).iter()}
    assert {"step 1: 1 action", "step 2: 1 action", "after 2 steps", "b4"} <= texts
    code, _, err = run(capsys, "show", source, plan_file, "-o", tmp_path / "plan.jpg")
    assert (code, "a picture ends in .png or .svg" in err) == (2, True)


@pytest.mark.parametrize(
    ("action", "complaint"),
    [
        (Shift("b4", "b3", "b1"), "step 1 removes b3-b4, which is not there"),
        (Shift("b4", "b2", "b9"), "names the unknown broker 'b9'"),
        (Shift("b4", "b2", "b4"), "a link needs two different brokers"),
        (Append("b9", "b8"), "names the unknown broker 'b8'"),
    ],
)
def test_what_cannot_be_drawn_is_said(
    files: Any,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    action: Shift | Append,
    complaint: str,
) -> None:
    source, _ = files(*FIGURE_1)
    wrong = tmp_path / "wrong.json"
    write_plan(PlanRecord(Plan(((action,),))), wrong)
    code, _, err = run(capsys, "show", source, wrong, "-o", tmp_path / "plan.png")
    assert code == 2
    assert complaint in err
    assert not (tmp_path / "plan.png").exists()


def test_a_long_plan_in_a_file_is_not_repeated(capsys: pytest.CaptureFixture[str]) -> None:
    step = tuple(Shift(f"b{number}", "x", "y") for number in range(301))
    result = PlanResult(PlanStatus.FEASIBLE, Plan((step,)), Bounds(1, 1), "fast", 0.1)
    print_result(result, is_written=True)
    assert capsys.readouterr().out.startswith("1 step, 301 actions in 301 rounds (feasible")
    print_result(result, is_written=False)
    assert capsys.readouterr().out.startswith("step 1: shift(b0, x, y)")


def test_progress_names_the_best_plan_so_far(monkeypatch: pytest.MonkeyPatch) -> None:
    shown: list[str] = []

    class Line:
        def update(self, text: str) -> None:
            shown.append(text)

    class Terminal:
        @contextlib.contextmanager
        def status(self, text: str) -> Iterator[Line]:
            shown.append(text)
            yield Line()

    monkeypatch.setattr("sys.stderr.isatty", lambda: True)
    monkeypatch.setattr(output, "error_console", Terminal)
    with plan_verb._shown_progress(as_json=False) as tell:
        tell(PlanningProgress("looking", PAPER_PLAN))
        tell(PlanningProgress("still looking"))
    assert shown[1:] == [
        "looking; best so far 2 steps, 2 actions",
        "still looking; best so far 2 steps, 2 actions",
    ]


def test_a_link_is_found_where_ids_have_dashes() -> None:
    known = frozenset({"eu-1", "eu-2", "us"})
    assert link_named("--pin", "eu-1-eu-2", known) == Link("eu-1", "eu-2")
    assert link_named("--pin", "us-eu-1", known) == Link("eu-1", "us")
