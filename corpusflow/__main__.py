"""`python -m corpusflow`."""

from corpusflow.cli import main

if __name__ == "__main__":
    main()
