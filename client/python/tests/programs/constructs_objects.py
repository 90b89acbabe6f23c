"""Objects whose behaviour is made at run time: registries, factories, decorators, partials, closures."""

from __future__ import annotations

from builder import Builder, construct


@construct
def registry_by_decorator(b: Builder) -> str:
    b.add(
        "conf",
        f"""
        REG_{b.n} = {{}}
        def register_{b.n}(name):
            def add(f):
                REG_{b.n}[name] = f
                return f
            return add
    """,
    )
    b.need("setup", "import conf")
    b.need("main", "import setup")
    b.add("setup", f"@conf.register_{b.n}('a')\ndef made_{b.n}(x):\n    return x * {b.knob('setup')}")
    return f"{b.use(b.home, 'conf')}REG_{b.n}['a'](i)"


@construct
def registry_of_subclasses(b: Builder) -> str:
    b.add(
        "conf",
        f"""
        class Base{b.n}:
            known = {{}}
            def __init_subclass__(cls, name='', **more):
                super().__init_subclass__(**more)
                Base{b.n}.known[name] = cls
    """,
    )
    b.need("setup", "import conf")
    b.need("main", "import setup")
    b.add(
        "setup",
        f"class A{b.n}(conf.Base{b.n}, name='a'):",
        f"    def go(self, x):\n        return x + {b.knob('setup')}",
    )
    return f"{b.use(b.home, 'conf')}Base{b.n}.known['a']().go(i)"


@construct
def subclasses_asked(b: Builder) -> str:
    b.add("conf", f"class Root{b.n}:\n    pass")
    b.need("setup", "import conf")
    b.need("main", "import setup")
    b.add("setup", f"class Leaf{b.n}(conf.Root{b.n}):\n    k = {b.knob('setup')}")
    return f"[c.k + i for c in {b.use(b.home, 'conf')}Root{b.n}.__subclasses__()]"


@construct
def single_dispatch(b: Builder) -> str:
    b.need("conf", "import functools")
    b.add("conf", f"@functools.singledispatch\ndef show_{b.n}(x):\n    return 'any'")
    b.need("setup", "import conf")
    b.need("main", "import setup")
    b.add("setup", f"@conf.show_{b.n}.register\ndef _show_{b.n}(x: int):\n    return x * {b.knob('setup')}")
    return f"{b.use(b.home, 'conf')}show_{b.n}(i)"


@construct
def virtual_subclass(b: Builder) -> str:
    b.need("conf", "import abc")
    b.add("conf", f"class Kind{b.n}(abc.ABC):\n    pass")
    b.need("main", "import conf")
    b.add("main", f"if {b.knob('main')} % 2:\n    conf.Kind{b.n}.register(int)")
    return f"isinstance(i, {b.use(b.home, 'conf')}Kind{b.n})"


@construct
def metaclass(b: Builder) -> str:
    b.add(
        "lib",
        f"""
        class Meta{b.n}(type):
            scale = {b.knob("lib")}
            def __getattr__(cls, name):
                return len(name) * cls.scale
        class Of{b.n}(metaclass=Meta{b.n}):
            pass
    """,
    )
    return f"{b.use(b.home, 'lib')}Of{b.n}.anything + i"


@construct
def class_by_type(b: Builder) -> str:
    b.add(
        "lib",
        f"def make_{b.n}(k):\n    return type('Made{b.n}', (), {{'k': k, 'go': lambda self, x: x * self.k}})",
    )
    b.add("lib", f"MADE_{b.n} = make_{b.n}({b.knob('lib')})")
    return f"{b.use(b.home, 'lib')}MADE_{b.n}().go(i)"


@construct
def class_by_factory(b: Builder) -> str:
    b.add(
        "lib",
        f"""
        def factory_{b.n}(k):
            class Made:
                def go(self, x):
                    return x + k
            return Made
    """,
    )
    b.add(b.home, f"Made_{b.n} = {b.use(b.home, 'lib')}factory_{b.n}({b.knob(b.home)})")
    return f"Made_{b.n}().go(i)"


@construct
def made_dataclass(b: Builder) -> str:
    b.need("lib", "import dataclasses")
    k = b.knob("lib")
    b.add("lib", f"Data_{b.n} = dataclasses.make_dataclass('Data_{b.n}', [('x', int), ('k', int, {k})])")
    return f"repr({b.use(b.home, 'lib')}Data_{b.n}(i))"


@construct
def named_tuple(b: Builder) -> str:
    b.need("lib", "import collections")
    b.add("lib", f"Tup_{b.n} = collections.namedtuple('Tup_{b.n}', 'x k', defaults=[{b.knob('lib')}])")
    return f"tuple({b.use(b.home, 'lib')}Tup_{b.n}(i))"


@construct
def enumeration(b: Builder) -> str:
    b.need("lib", "import enum")
    b.add("lib", f"Enum_{b.n} = enum.IntEnum('Enum_{b.n}', 'A B', start={b.knob('lib')})")
    return f"int({b.use(b.home, 'lib')}Enum_{b.n}['B']) + i"


@construct
def decorator_with_state(b: Builder) -> str:
    b.add(
        "conf",
        f"""
        def scaled_{b.n}(k):
            def around(f):
                def call(x):
                    return f(x) * call.k
                call.k = k
                return call
            return around
    """,
    )
    conf = b.use(b.home, "conf")
    b.add(b.home, f"@{conf}scaled_{b.n}({b.knob(b.home)})\ndef deco_{b.n}(x):\n    return x + 1")
    return f"deco_{b.n}(i)"


@construct
def decorator_class(b: Builder) -> str:
    b.add(
        "conf",
        f"""
        class Wrap{b.n}:
            bias = 1
            def __init__(self, f):
                self.f = f
            def __call__(self, x):
                return self.f(x) + self.bias
    """,
    )
    conf = b.use(b.home, "conf")
    b.add(b.home, f"@{conf}Wrap{b.n}\ndef wrapped_{b.n}(x):\n    return x * 2")
    b.add(b.home, f"wrapped_{b.n}.bias = {b.knob(b.home)}")
    return f"wrapped_{b.n}(i)"


@construct
def memo(b: Builder) -> str:
    b.need(b.home, "import functools")
    b.add(b.home, f"TABLE_{b.n} = {{'k': {b.knob(b.home)}}}")
    b.add(b.home, f"@functools.lru_cache\ndef memo_{b.n}(x):\n    return x * TABLE_{b.n}['k']")
    return f"memo_{b.n}(i)"


@construct
def partial_with_attribute(b: Builder) -> str:
    b.need(b.home, "import functools")
    b.add(b.home, f"def base_{b.n}(x, k):\n    return x * k")
    b.add(b.home, f"part{b.n} = functools.partial(base_{b.n}, k={b.knob(b.home)})")
    b.add(b.home, f"part{b.n}.bias = {b.knob(b.home)}")
    return f"part{b.n}(i) + part{b.n}.bias"


@construct
def closure(b: Builder) -> str:
    b.add(
        "lib",
        f"""
        def counter_{b.n}(k):
            def set(v):
                nonlocal k
                k = v
            def get(x):
                return x * k
            return set, get
        set{b.n}, get{b.n} = counter_{b.n}(1)
    """,
    )
    b.need("main", "import lib")
    b.add("main", f"lib.set{b.n}({b.knob('main')})")
    return f"{b.use(b.home, 'lib')}get{b.n}(i)"


@construct
def changed_default(b: Builder) -> str:
    b.add("lib", f"def defaulted_{b.n}(x, k=1):\n    return x * k")
    b.need("main", "import lib")
    b.add("main", f"lib.defaulted_{b.n}.__defaults__ = ({b.knob('main')},)")
    return f"{b.use(b.home, 'lib')}defaulted_{b.n}(i)"


@construct
def changed_code(b: Builder) -> str:
    b.add("lib", f"def coded_{b.n}(x):\n    return x")
    b.need("main", "import lib")
    b.add(
        "main",
        f"def other_{b.n}(x):\n    return x + {b.rng.randrange(2, 9)}",
        f"lib.coded_{b.n}.__code__ = other_{b.n}.__code__",
    )
    return f"{b.use(b.home, 'lib')}coded_{b.n}(i)"


@construct
def attribute_set_by_name(b: Builder) -> str:
    b.add("lib", f"class Set{b.n}:\n    k = 1")
    b.need("main", "import lib")
    b.add("main", f"setattr(getattr(lib, 'Set' + '{b.n}'), 'k', {b.knob('main')})")
    return f"{b.use(b.home, 'lib')}Set{b.n}.k + i"


@construct
def attributes_on_demand(b: Builder) -> str:
    b.add(
        "lib",
        f"""
        class Demand{b.n}:
            def __init__(self, **given):
                self.__dict__['_given'] = given
            def __getattr__(self, name):
                return self._given[name]
    """,
    )
    b.add(b.home, f"OPTIONS_{b.n} = {b.use(b.home, 'lib')}Demand{b.n}(k={b.knob(b.home)})")
    return f"OPTIONS_{b.n}.k * (i + 1)"


@construct
def missing_key(b: Builder) -> str:
    b.add(
        "lib",
        f"class Miss{b.n}(dict):\n    def __missing__(self, key):\n        return key * {b.knob('lib')}",
    )
    return f"{b.use(b.home, 'lib')}Miss{b.n}()[i]"


@construct
def descriptor(b: Builder) -> str:
    b.add(
        "lib",
        f"""
        class Desc{b.n}:
            def __set_name__(self, owner, name):
                self.k = len(name) + {b.knob("lib")}
            def __get__(self, obj, kind):
                return self.k
        class Owner{b.n}:
            field = Desc{b.n}()
    """,
    )
    return f"{b.use(b.home, 'lib')}Owner{b.n}().field + i"
