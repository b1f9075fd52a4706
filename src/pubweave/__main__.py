"""``python -m pubweave``: the command line where its script is not on the path."""

from pubweave.cli.main import main

if __name__ == "__main__":
    main()
