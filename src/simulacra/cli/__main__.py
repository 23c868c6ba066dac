"""`python -m simulacra.cli`, for machines where the script is not installed."""

from simulacra.cli import main

main()
