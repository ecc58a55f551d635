"""What a figure was measured on, as result pages say it."""

import os
import platform
from collections.abc import Iterable
from importlib.metadata import version
from pathlib import Path

import torch


def machine(packages: Iterable[str]) -> str:
    """Processor, cores, GPU where there is one, and versions."""
    where = Path("/proc/cpuinfo")
    told = where.read_text().splitlines() if where.is_file() else []
    names = [line.split(":", 1)[1].strip() for line in told if line.startswith("model name")]
    cpu = names[0] if names else platform.processor() or platform.machine()
    gpu = f", {torch.cuda.get_device_name()}" if torch.cuda.is_available() else ""
    versions = ", ".join(f"{name} {version(name)}" for name in packages)
    return f"{cpu}, {os.cpu_count()} cores, one thread used{gpu}; Python {platform.python_version()}, {versions}"
