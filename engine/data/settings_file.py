"""Settings in a TOML file of Frontier's folder, a table an entry; it names variables with secrets and holds none."""

import os
import re
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

from engine import paths
from engine.errors import DataError


@dataclass(frozen=True)
class SettingsFile:
    """A TOML file of tables. purpose: what it says, after "it says"; entry_kind: what one of its tables stands for."""

    file_name: str
    purpose: str
    entry_kind: str
    example: str  # quoted by errors, to be pasted
    ranges: Mapping[str, tuple[float, float]]  # allowed range of a number, by setting

    @property
    def path(self) -> Path:
        """The path of the file, which need not exist."""
        return paths.home() / self.file_name

    def read(self) -> dict[str, dict[str, Any]]:
        """Read the file: settings by entry. Raises DataError that quotes none of its contents."""
        try:
            all_settings = tomllib.loads(self.path.read_text(encoding="utf-8"))
        except FileNotFoundError:
            raise DataError(
                f"there is no {self.path}; it says {self.purpose}, for example\n\n{self.example}",
                f"there is no {self.file_name}",
            ) from None
        except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
            # The file may hold secrets: of the parser's message, quoted text and unusual characters are left out.
            parser_message = re.sub(r"[^\w ,().-]|(?<=')[^']*(?=')", "", str(error))
            raise DataError(f"{self.path} cannot be read as TOML: {parser_message}") from None
        if loose_keys := [name for name, value in all_settings.items() if not isinstance(value, dict)]:
            raise DataError(
                f"{self.path}: {loose_keys[0]!r} stands outside a {self.entry_kind}'s table; begin with\n\n"
                f"{self.example}"
            )
        return all_settings

    def read_entry(self, entry_name: str) -> dict[str, Any]:
        """Read the settings of one entry. Raises DataError that names the entries there are."""
        all_settings = self.read()
        if entry_name not in all_settings:
            names = ", ".join(all_settings) or "nothing"
            problem = f"has no {self.entry_kind} {entry_name!r}, it has {names}"
            raise DataError(
                f"{self.path} {problem}; add it, for example\n\n{self.example}", f"{self.file_name} {problem}"
            )
        return all_settings[entry_name]

    def refuse_secret(self, entry_name: str, setting: str, variable_key: str, variable: str) -> DataError:
        """Return the error for a setting that belongs into the environment, without its value.

        variable_key, variable: the setting to write instead, and an example of its value.
        """
        return DataError(
            f"{self.path}: [{entry_name}] holds a secret, {setting!r}; put it into a variable of the environment and "
            f'write {variable_key} = "{variable}" instead'
        )

    def check_settings(
        self, settings_class: Any, entry_name: str, settings: Mapping[str, Any], further: Sequence[str] = ()
    ) -> None:
        """Raise a DataError for unknown settings, wrong types and impossible values.

        settings_class: dataclass of the settings; entry_name: heading of the table; further: settings that another
        reader takes, for errors.
        """
        # No value is quoted by its text: what stands in a wrong line may be a secret.
        location = f"{self.path}: [{entry_name}]"
        # Annotations are texts such as "str | None", or types, of which the first word is the name.
        types = {
            field.name: getattr(field.type, "__name__", str(field.type)).split(" ")[0]
            for field in fields(settings_class)
            if field.name != "name"
        }
        # A misspelt setting would otherwise be ignored silently.
        if unknown_keys := [setting for setting in settings if setting not in types]:
            field_names = ", ".join([*types, *further])
            raise DataError(f"{location} has {unknown_keys[0]!r}, which nothing reads; it may have {field_names}")
        python_types: dict[str, Any] = {"str": str, "int": int, "float": (int, float), "bool": bool}
        for setting, value in settings.items():
            expected_type = python_types[types[setting]]
            if not isinstance(value, expected_type) or (isinstance(value, bool) and expected_type is not bool):
                # Not the value: it may be a secret that stands in the wrong line.
                raise DataError(f"{location} {setting} must be {types[setting]}; got {type(value).__name__}")
            if setting.endswith("_env") and not re.fullmatch(r"[A-Z_][A-Z0-9_]*", value):
                # The value is not quoted here either: what is no name of a variable may be the secret itself.
                example = f"{self.entry_kind.upper()}_{setting.removesuffix('_env').upper()}"
                raise DataError(f"{location} {setting} must be the name of a variable, in capitals, such as {example}")
            # A setting without a range lies in that of its own value.
            min_value, max_value = self.ranges.get(setting, (value, value))
            if not min_value <= value <= max_value:
                raise DataError(f"{location} {setting} must lie between {min_value:,} and {max_value:,}; got {value}")


def read_secret(variable: str | None, owner: str) -> str:
    """Return the value of a variable of the environment, "" if no variable is named; owner: who reads it, for errors.

    Raises DataError if it is not set.
    """
    if variable is None:
        return ""
    if not (value := os.environ.get(variable)):
        raise DataError(
            f"{owner} reads {variable}, which is not set: export {variable}=…",
            f"{owner} reads {variable}, which is not set in the environment of this server",
        )
    return value
