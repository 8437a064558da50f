"""The settings: one table; what cannot be read stops the start and never becomes a default."""

import pytest

from inbox import settings
from inbox.settings import SETTINGS, SettingsError


def test_an_empty_environment_gives_the_defaults() -> None:
    read = settings.read({"HOME": "/", "TASKPOSTAL": "x"})
    assert (read.host, read.port, read.database) == (
        "127.0.0.1", 8080, "sqlite:///taskpost.db",
    )  # fmt: skip
    assert (read.max_body, read.workers) == (1 << 20, 1)


def test_every_setting_is_read_from_its_variable() -> None:
    given = {
        "TASKPOST_HOST": "[::1]",
        "TASKPOST_PORT": "9",
        "TASKPOST_DATABASE": "postgresql://u:p@h:5/n",
        "TASKPOST_DATABASE_TIMEOUT": "0.5",
        "TASKPOST_WORKERS": "2",
        "TASKPOST_MAX_BODY": "2048",
    }
    read = settings.read(given)
    assert (read.host, read.port, read.database) == ("::1", 9, "postgresql://u:p@h:5/n")
    assert (read.database_timeout, read.workers, read.max_body) == (0.5, 2, 2048)


@pytest.mark.parametrize("setting", SETTINGS, ids=lambda setting: setting.name)
def test_every_setting_says_what_it_is_and_has_a_default_that_it_takes(
    setting: settings.Setting,
) -> None:
    assert setting.variable == f"TASKPOST_{setting.name.upper()}"
    assert setting.help.endswith(".")
    assert setting.type
    setting.read(setting.default)


@pytest.mark.parametrize(
    ("variable", "meant"),
    [("TASKPOST_PROT", "TASKPOST_PORT"), ("TASKPOST_DATABASE_URL", "TASKPOST_DATABASE"),
     ("TASKPOST_port", "TASKPOST_PORT"), ("TASKPOST_XQZWJK", ""), ("TASKPOST_", "")],
)  # fmt: skip
def test_an_unknown_variable_stops_the_start(variable: str, meant: str) -> None:
    """Case 73."""
    with pytest.raises(SettingsError) as caught:
        settings.read({variable: "1"})
    line = str(caught.value)
    assert line.startswith(f"{variable} is not a setting")
    assert meant in line
    assert "\n" not in line


BAD = [
    ("PORT", ["", "0", "65536", "-1", "80.5", "http", " 80", "1e3", "0x50", "٣", "²", "9" * 5000]),
    ("HOST", ["", "0.0.0.0", "::", "10.0.0.1", "example.org", "127.0.0.1:80", "localhost.x", "*"]),
    ("DATABASE", ["", "taskpost.db", "mysql://x", "sqlite:", "sqlite://x", "SQLITE:///x"]),
    ("DATABASE_TIMEOUT", ["", "0", "nan", "inf", "-1", "301", "1s", ".5", "1."]),
    ("WORKERS", ["", "0", "65", "two"]),
    ("MAX_BODY", ["", "0", "1023", "1MiB", "99999999999"]),
    ("GRACEFUL_TIMEOUT", ["", "0", "3601"]),
]  # fmt: skip


@pytest.mark.parametrize(("name", "values"), BAD, ids=[name for name, _ in BAD])
def test_a_bad_value_stops_the_start_with_one_line(name: str, values: list[str]) -> None:
    """Cases 72 and 73: also an empty one, as an unset variable of a script gives it."""
    for value in values:
        with pytest.raises(SettingsError) as caught:
            settings.read({f"TASKPOST_{name}": value})
        line = str(caught.value)
        assert line.startswith(f"TASKPOST_{name}")
        assert "\n" not in line


def test_a_bad_database_url_is_not_repeated() -> None:
    with pytest.raises(SettingsError) as caught:
        settings.read({"TASKPOST_DATABASE": "postgers://user:s3cret@host/db"})
    assert "s3cret" not in str(caught.value)


def test_a_value_with_newlines_is_shown_in_one_line() -> None:
    with pytest.raises(SettingsError) as caught:
        settings.read({"TASKPOST_PORT": "80\n80"})
    assert "\n" not in str(caught.value)
