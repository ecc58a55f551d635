"""The command line without a process."""

from click.testing import CliRunner

from dashboard.serve import main


def run(*args, fails=False):
    result = CliRunner().invoke(main, list(args))
    assert (result.exit_code != 0) == fails, result.output
    return result.stdout if "--json" in args and not fails else result.output
