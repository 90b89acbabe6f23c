"""Calls of which the caller sees more than the value: what they were given, and what was set around them."""

from __future__ import annotations

from builder import Builder, construct

#: What a function does with a dictionary that holds a list, and returns.
_DOES = [
    "d['y'] = d['x'][0] * {k}\n    return d",
    "d['y'] = d.pop('x')\n    return d",
    "d['x'].append({k})\n    return d",
    "d['y'] = {k}\n    return d['y']",
    "return {{'x': d['x'], 'n': {k}}}",
    "return [d['x'], d['x'], {k}]",
    "return d",
    "d['x'] = [*d['x'], {k}]\n    return d['x']",
]


@construct
def given_and_returned(b: Builder) -> str:
    b.need(b.home, "import prebake")
    does = b.rng.choice(_DOES).format(k=b.knob(b.home))
    b.add(
        b.home,
        f"@prebake.cached\ndef does_{b.n}(d):\n    {does}",
        f"""
        def given_{b.n}(i):
            x = [i]
            d = {{'x': x}}
            found = does_{b.n}(d)
            x.append(7)
            return repr([found, d, found is d])
    """,
    )
    return f"given_{b.n}(i)"


@construct
def within_a_statement(b: Builder) -> str:
    b.need("main", "from unittest import mock")
    k = b.knob("main")
    b.need(b.home, "import textwrap")
    b.add(
        "main",
        f"""
        def inside_{b.n}(j, call):
            if j < 3:
                return call()
            with mock.patch('textwrap.TextWrapper.wrap', lambda self, text: [str({k})]):
                return call()
    """,
    )
    b.between.append("0")
    b.inside.append(f"inside_{b.n}")
    return "textwrap.fill('ab ' * (i + 4), 7)"
