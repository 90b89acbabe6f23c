"""Runs the examples in the docstring of a public name, in this process and module: `run_examples.py NAME`."""

from __future__ import annotations

import doctest
import functools
import sys

import prebake


def main() -> int:
    name = sys.argv[1]
    found = functools.reduce(getattr, name.split("."), prebake)
    text = (found.fget if isinstance(found, property) else found).__doc__
    test = doctest.DocTestParser().get_doctest(text, {}, name, None, 0)
    # As in a script: what an example defines is found where pickle looks for it.
    test.globs = vars(sys.modules["__main__"])
    runner = doctest.DocTestRunner(optionflags=doctest.FAIL_FAST)
    runner.run(test, clear_globs=False)
    return int(runner.failures > 0 or runner.tries == 0)


if __name__ == "__main__":
    sys.exit(main())
