"""``pubweave remap``: the file it reads, its errors, and where brokers begin on a ring."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from pubweave.cli import main
from pubweave.model.files.ring_mapping import MappingFileError, read_mapping
from pubweave.model.topology import Topology
from pubweave.runtime.net.errors import OverlayError
from pubweave.runtime.overlay.spec import make_spec

RING = Topology.from_links([("b1", "b2"), ("b2", "b3"), ("b3", "b4")])


def written(folder: Path, text: str) -> Path:
    path = folder / "mapping.csv"
    path.write_text(text)
    return path


def test_a_mapping_is_read_as_design_writes_it(tmp_path: Path) -> None:
    path = written(tmp_path, "broker,position\nb1, 1\n\nb2,0\n")
    assert read_mapping(path) == {"b1": 1, "b2": 0}


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("b1,1\n", "first line must be broker,position"),
        ("broker,position\nb1\n", "line 2 has 1 fields; write broker,position"),
        ("broker,position\nb1,-1\n", "line 2: position '-1' must be from 0 to 0"),
        ("broker,position\nb1,0\nb1,1\n", "line 3: 'b1' is twice"),
        ("broker,position\nb1,0\nb2,2\n", "line 3: position '2' must be from 0 to 1"),
        ("broker,position\nb1,0\nb2,0\n", "line 3: position 0 has 'b1' already"),
    ],
)
def test_what_is_no_mapping_is_refused_with_its_line(tmp_path: Path, text: str, words: str) -> None:
    with pytest.raises(MappingFileError, match=words):
        read_mapping(written(tmp_path, text))


def test_errors_are_one_line_and_exit_code_2(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = written(tmp_path, "broker,position\nb1,0\n")
    run_dir = str(tmp_path / "nowhere")
    assert main.run(["remap", str(path), "--run-dir", run_dir]) == 2
    assert "nowhere" in capsys.readouterr().err
    assert main.run(["remap", str(path), "--abort", "--run-dir", run_dir]) == 2
    assert "not both" in capsys.readouterr().err


def test_brokers_of_a_ring_begin_in_equal_steps_or_where_the_file_says() -> None:
    spec = make_spec(RING, strategy="rendezvous")
    assert [spec.position_of(b) for b in spec.brokers] == [k << 30 for k in range(4)]
    placed = replace(RING, broker_attributes={"b2": {"ring_id": 77}})
    assert make_spec(placed, strategy="rendezvous").position_of("b2") == 77
    assert make_spec(RING).position_of("b2") is None


@pytest.mark.parametrize("ids", [{"b1": "7"}, {"b1": 1 << 32}, {"b1": 7, "b2": 7}])
def test_places_on_a_ring_are_checked(ids: dict[str, object]) -> None:
    attributes = {broker: {"ring_id": value} for broker, value in ids.items()}
    with pytest.raises(OverlayError, match="ring_id"):
        make_spec(replace(RING, broker_attributes=attributes), strategy="rendezvous")
