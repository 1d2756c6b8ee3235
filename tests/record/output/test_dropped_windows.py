"""Windows that there is no room for."""

from __future__ import annotations

from pathlib import Path

from kinetoscope.record.always_on.always import KeptWindow, KeptWindows
from kinetoscope.record.output.dropped_windows import DROP, DroppedWindows, leave_to_drop
from kinetoscope.record.session.child_config import RecordPlan


def test_files_of_the_run_are_deleted_and_no_others(tmp_path: Path) -> None:
    run, other = tmp_path / "run", tmp_path / "other"
    run.mkdir()
    files = [run / "a.meta.json", other]
    for file in files:
        file.write_text("")
    leave_to_drop(run / "control", "0.1.7", map(str, files))
    (run / "control" / DROP / "junk").write_text('{"host": 1, "files": 3}')
    with DroppedWindows(RecordPlan(dir=str(run), control=str(run / "control"))):
        pass
    assert not files[0].exists()
    assert other.exists()
    assert [each.name for each in (run / "control" / DROP).iterdir()] == ["junk"]


def test_where_nobody_deletes_them_the_job_does(tmp_path: Path) -> None:
    kept = KeptWindows(tmp_path / "control", 1, leads=True, name="0.1")
    for number in range(20):
        file = tmp_path / f"{number}"
        file.write_text("")
        kept.add(KeptWindow(number, 1.0, (str(file),)))
    assert sorted(int(each.name) for each in tmp_path.iterdir() if each.is_file()) == list(range(11, 20))
    assert len(list((tmp_path / "control" / DROP).iterdir())) == 8
