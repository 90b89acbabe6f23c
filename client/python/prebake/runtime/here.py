"""Where this package lies: code and files below are Prebake's own."""

import os

#: With a separator at its end.
HERE = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "")
