"""`python -m phasewise`."""

from phasewise.cli import main

main()
