"""`python -m laplacenet` is the command `laplacenet`."""

from laplacenet.cli import main

main()
