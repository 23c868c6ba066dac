"""`python -m simulacra`, for machines where the script is not installed."""

from simulacra.cli import main

main()
