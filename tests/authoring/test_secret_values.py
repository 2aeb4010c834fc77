"""A worker reads the value of a secret when it needs it."""

from pathlib import Path

import pytest

from wakeful.authoring.secret_values import read_secret, without_secrets
from wakeful.contract.errors import ConfigurationError
from wakeful.contract.remote import Secret


def test_a_secret_is_read_from_the_environment_or_a_file(tmp_path: Path) -> None:
    (tmp_path / "token").write_text("canary\n")
    assert read_secret(Secret(env="TOKEN"), {"TOKEN": "canary"}) == "canary"
    assert read_secret(Secret(file=str(tmp_path / "token"))) == "canary"


def test_a_secret_that_is_missing_is_named_by_its_place(tmp_path: Path) -> None:
    (tmp_path / "binary").write_bytes(b"\xff")
    (tmp_path / "empty").write_text("\n")
    with pytest.raises(ConfigurationError, match="environment variable 'TOKEN' is missing or empty"):
        read_secret(Secret(env="TOKEN"), {})
    with pytest.raises(ConfigurationError, match="empty' is missing or empty"):
        read_secret(Secret(file=str(tmp_path / "empty")))
    with pytest.raises(ConfigurationError, match="No such file"):
        read_secret(Secret(file=str(tmp_path / "absent")))
    with pytest.raises(ConfigurationError, match="not UTF-8"):
        read_secret(Secret(file=str(tmp_path / "binary")))


def test_secrets_are_removed_from_a_text_the_longest_first() -> None:
    text = "Bearer tok-12345678-x: tok-12345678 is expired"
    assert without_secrets(text, ["tok-12345678", "tok-12345678-x"]) == "Bearer [secret]: [secret] is expired"


def test_a_value_of_less_than_eight_characters_is_part_of_any_word() -> None:
    assert without_secrets("unused in a house", ["use", "a", "", "unused"]) == "unused in a house"
    assert without_secrets("use eight888 here", ["eight888"], instead="[api key]") == "use [api key] here"
