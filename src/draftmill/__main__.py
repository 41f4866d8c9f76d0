"""Where the command line begins: all else is loaded in here, so that a Ctrl-C never meets half of it."""

import sys


def main() -> None:
    try:
        from draftmill.cli.app import main as run

        run()
    except KeyboardInterrupt:
        sys.exit(130)


if __name__ == "__main__":
    main()
