"""Which source goes before which, and what is said of settings that cannot be."""

from __future__ import annotations

from pathlib import Path

import pytest

from pubweave.core.config.relocation import RelocationConfig, RelocationMode
from pubweave.design.relocation.rules import Preference, Priority
from pubweave.runtime.net.addresses import Address
from pubweave.runtime.settings.check import check
from pubweave.runtime.settings.sources import Given, read_settings
from pubweave.runtime.settings.text import SettingsError


def written(tmp_path: Path, text: str) -> Path:
    path = tmp_path / "broker.toml"
    path.write_text(text)
    return path


def problems(tmp_path: Path, text: str) -> list[str]:
    with pytest.raises(SettingsError) as caught:
        read_settings(written(tmp_path, text), {})
    return [line.partition("broker.toml: ")[2] for line in str(caught.value).splitlines()]


def test_each_source_goes_before_the_ones_before_it(tmp_path: Path) -> None:
    file = written(tmp_path, "[broker]\nack_delay_s=1\ntick_s=1.5\nping_every_s=1\nhold_limit_s=1")
    variables = {f"PUBWEAVE_BROKER__{name}_S": "2" for name in ("TICK", "PING_EVERY", "HOLD_LIMIT")}
    keys = ("broker", "hold_limit_s")
    found = read_settings(
        file,
        variables,
        ["broker.ping_every_s=3", "broker.hold_limit_s=3"],
        {keys: Given("4", "--hold", is_text=True)},
    )
    table = found.settings.broker
    assert (table.ack_delay_s, table.tick_s, table.ping_every_s, table.hold_limit_s) == (1, 2, 3, 4)
    assert found.note(("broker", "ack_delay_s")) == str(file)
    assert found.note(("broker", "tick_s")) == "PUBWEAVE_BROKER__TICK_S"
    assert found.note(("broker", "ping_every_s")) == "--set broker.ping_every_s"
    assert found.note(keys) == "--hold"
    assert found.note(("broker", "strategy")) == "default"


def test_tables_by_id_are_merged_key_by_key(tmp_path: Path) -> None:
    file = written(tmp_path, '[broker.neighbors]\nb2 = "2"\nb3 = "3"')
    variables = {"PUBWEAVE_BROKER__NEIGHBORS__b3": "33", "PUBWEAVE_BROKER__NEIGHBORS__B4": "4"}
    found = read_settings(file, variables, ['broker.neighbors={b2 = "22", "b.5" = "5"}'])
    ports = {name: address.port for name, address in found.settings.broker.neighbors.items()}
    assert ports == {"b2": 22, "b3": 33, "B4": 4, "b.5": 5}


def test_short_variables_and_those_of_other_verbs() -> None:
    variables = {"PUBWEAVE_RUN": "r", "PUBWEAVE_USER": "ann", "PUBWEAVE_ZOOKEEPER_AUTH": "a:b"}
    settings = read_settings(None, variables).settings
    assert settings.overlay.run_directory == Path("r")


def test_every_mistake_is_told_at_once_with_its_source(tmp_path: Path) -> None:
    file = written(
        tmp_path,
        """
        [broker]
        tick = 1
        ping_every_s = 'often'
        max_clients = 1.5
        [broker.mqtt]
        qos_max = 7
        [self_organizing]
        eta = 1
        [rellocation]
        mode = 'pop'
        """,
    )
    with pytest.raises(SettingsError) as caught:
        read_settings(file, {"PUBWEAVE_OVERLAY__PORT": "70000"}, ["broker.listen=nowhere"])
    assert str(caught.value).splitlines() == [
        f"{file}: unknown key broker.tick: did you mean broker.tick_s?",
        f"{file}: broker.ping_every_s: expected a number, got 'often'",
        f"{file}: broker.max_clients: expected a whole number, got 1.5",
        f"{file}: unknown key rellocation: did you mean relocation?",
        "PUBWEAVE_OVERLAY__PORT: overlay.port: expected a whole number <= 65535, got '70000'",
        "--set broker.listen: broker.listen: 'nowhere' is no address: write host:port, for "
        "example 127.0.0.1:7001",
        f"{file}: broker.mqtt: qos_max is 0, 1 or 2, not 7",
        f"{file}: self_organizing: eta must be at least 2",
    ]


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("broker = 5", "broker is a table, not a value"),
        ("[broker.id]\nb1 = 1", "broker.id is a value, not a table"),
        ("[broker]\nid = 1", "broker.id: expected a string, got 1"),
        ("[broker]\ntick_s = inf", "broker.tick_s: expected a finite number, got inf"),
        ("[broker]\ntick_s = 0", "broker.tick_s: expected a number > 0.0, got 0"),
        ("[broker]\ntick_s = true", "broker.tick_s: expected a number, got True"),
        ("[broker]\nxyz = 0", "unknown key broker.xyz: [broker] has ack_delay_s"),
        ("[broker]\nneighbors = 'b2'", "broker.neighbors is a table, not a value"),
        ("[broker.neighbors]\nb2 = 'x'", "broker.neighbors.b2: 'x' is no address"),
        ("[broker.telemetry]\nsample = 2", "broker.telemetry.sample: expected a number <= 1.0"),
        ("[broker.entry]\nconnections = 0", "broker.entry: the limit 'connections' must be more"),
        ("[broker.security]\nca = 'x'", "broker.security: a broker needs all of ca, cert and key"),
        ("[broker.security]\naccess = 'x'", "broker.security: crl, passwords and access need TLS"),
        ("[brokers.b1]\ntick = 1", "unknown key brokers.b1.tick: did you mean brokers.b1.tick_s?"),
        ("[brokers.b1]\ntick_s = -1", "brokers.b1.tick_s: expected a number > 0.0, got -1"),
        ("[relocation]\nmode = 'x'", "relocation.mode: expected one of off, pop, grape, got 'x'"),
        ("[relocation.publishers]\nq = 'x'", "relocation.publishers.q: expected one of off, pop"),
        ("[relocation]\ngrape_threshold = 0", "relocation: grape_threshold must be"),
        ("[relocation]\nleast_gain = 1.0", "relocation: least_gain must be"),
        ("[relocation]\nrest_s = -1.0", "relocation: rest_s must be"),
        ("[relocation]\nmost_clients = 0", "relocation: most_clients must be"),
        ("[relocation.preference]\nweight = 200", "relocation.preference: the weight must be"),
        ("[placement]\nmembers = 5", "placement.members: expected a list, got 5"),
        ("[placement]\nrule = 'x'", "placement: rule 'x' is none of lasting, similarity"),
        ("[broker", "not TOML"),
    ],
)
def test_what_cannot_be_is_told_in_words(tmp_path: Path, text: str, told: str) -> None:
    [problem] = problems(tmp_path, text)
    assert problem.startswith(told)


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match=r"no\.toml: No such file"):
        read_settings(tmp_path / "no.toml", {})


@pytest.mark.parametrize("text", ["broker.tick_s", "=3", "broker..tick_s=3", "broker tick=3"])
def test_a_set_without_path_or_value_is_refused(text: str) -> None:
    with pytest.raises(SettingsError, match="write path=value"):
        read_settings(None, {}, [text])


def test_the_tables_of_protocols_arrive(tmp_path: Path) -> None:
    text = """
        [relocation]
        mode = "grape"
        publishers = { "a=b" = "off" }
        preference = { priority = "delay", weight = 5 }
        """
    found = read_settings(written(tmp_path, text), {}).settings.relocation
    delay = Preference(Priority.DELAY, 5)
    assert found == RelocationConfig(RelocationMode.GRAPE, delay, {"a=b": RelocationMode.OFF})


@pytest.mark.parametrize(
    ("sets", "told"),
    [
        (["broker.strategy=star"], "broker.strategy must be one of "),
        (["broker.topics.ring=['b1']"], "needs broker.strategy = 'topic_connected'"),
        (["placement.size=4"], "--set placement.size: placement.size needs broker.strategy"),
        (["overlay.topology=no.json"], "= no.json: No such file or directory"),
        (["broker.id=b1", "broker.neighbors.b1=2"], "cannot be its own neighbor"),
        (["broker.limits.relieved_bytes=9999999"], "must not be more than congested_bytes"),
        (["store.zookeeper=z", "store.enabled=false"], "is of no use with store.enabled = false"),
        (["store.zookeeper=z", "broker.strategy=topic_connected"], "is of no use with broker"),
        (["store.auth_file=/dev/null"], "give store.zookeeper, too"),
    ],
)
def test_what_does_not_fit_together_is_refused(sets: list[str], told: str) -> None:
    with pytest.raises(SettingsError) as caught:
        check(read_settings(None, {}, sets))
    assert told in str(caught.value)


def test_an_address_may_be_a_port() -> None:
    settings = read_settings(None, {}, ["broker.listen=7001"]).settings
    assert settings.broker.listen == Address("127.0.0.1", 7001)
