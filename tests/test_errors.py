"""What a script does with an error that its user can cure."""

from __future__ import annotations

import pytest

from phasewise.records.errors import UserError, report_errors


def test_a_users_error_is_one_line_and_exit_code_2(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    @report_errors
    def main(text: str) -> None:
        raise UserError(f"{text!r} is no number; give one")

    monkeypatch.setattr("sys.argv", ["/somewhere/script.py"])
    with pytest.raises(SystemExit) as ended:
        main("x")
    assert ended.value.code == 2
    assert capsys.readouterr().err == "script.py: 'x' is no number; give one\n"


def test_any_other_error_keeps_its_traceback() -> None:
    @report_errors
    def main() -> None:
        raise KeyError("x")

    with pytest.raises(KeyError):
        main()
