"""The field of uploads: the one way by which pages take files."""

from pathlib import Path

import dashboard


def test_pages_take_files_by_this_field_alone():
    files = Path(dashboard.__file__).parent.rglob("*.py")
    assert [file.name for file in files if "file_uploader(" in file.read_text()] == ["basics.py"]
