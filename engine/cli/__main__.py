"""`python -m engine.cli`: the commands without the dashboard."""

from engine.cli.group import main

if __name__ == "__main__":
    main()
