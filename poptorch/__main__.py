"""python -m poptorch: the command `poptorch`."""

from poptorch._impl.command_line import main

main()
