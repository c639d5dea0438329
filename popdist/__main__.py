"""`python -m popdist` is `poprun`."""

import sys

from popdist._impl.poprun import main

sys.exit(main())
