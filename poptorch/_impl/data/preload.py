"""What the fork server imports before it serves: all that a loading process needs, at once for all of them.

The server was started with SIGINT blocked, for Ctrl-C must not end it in the middle of an import. From here on it is as
Python starts it; what came meanwhile was for the program, not for the server.

What was imported is frozen: a collection of garbage in a forked process neither visits nor copies it.
"""

import gc
import signal

import numpy.random  # noqa: F401  (torch's workers seed it; numpy imports it when it is first used)

import poptorch._impl.data.loader  # noqa: F401
import poptorch._impl.data.worker  # noqa: F401

if signal.SIGINT in signal.pthread_sigmask(signal.SIG_BLOCK, ()):
    while signal.sigtimedwait([signal.SIGINT], 0) is not None:
        pass
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})

gc.freeze()
