"""Names that no code spells: strings that are evaluated, attributes by name, modules found at run time."""

from __future__ import annotations

from builder import Builder, construct


@construct
def by_globals(b: Builder) -> str:
    b.add(b.home, f"SCALE_{b.n} = {b.knob(b.home)}")
    return f"globals()['SCALE' + '_{b.n}'] * (i + 1)"


@construct
def by_vars(b: Builder) -> str:
    b.add("conf", f"SCALE_{b.n} = {b.knob('conf')}")
    conf = b.use(b.home, "conf").rstrip(".")
    return f"vars({conf})['SCALE' + '_{b.n}'] * (i + 1)"


@construct
def by_getattr(b: Builder) -> str:
    b.add("conf", f"OPT_{b.n}_a = {b.knob('conf')}\nOPT_{b.n}_b = {b.knob('conf')}")
    conf = b.use(b.home, "conf").rstrip(".")
    return f"getattr({conf}, 'OPT_{b.n}_' + 'ab'[i % 2])"


@construct
def by_sys_modules(b: Builder) -> str:
    b.add("conf", f"SCALE_{b.n} = {b.knob('conf')}")
    b.use("main", "conf")
    b.need(b.home, "import sys")
    return f"sys.modules['co' 'nf'].SCALE_{b.n} * (i + 1)"


@construct
def eval_of_text(b: Builder) -> str:
    b.add(b.home, f"GAIN_{b.n} = {b.knob(b.home)}")
    return f"eval('GAIN_{b.n} * (i + 1)', globals(), {{'i': i}})"


@construct
def eval_of_held_text(b: Builder) -> str:
    b.add("conf", f"RULE_{b.n} = 'x * {b.rng.randrange(2, 9)} + gain_{b.n}'\ngain_{b.n} = {b.knob('conf')}")
    conf = b.use(b.home, "conf")
    return f"eval({conf}RULE_{b.n}, vars({conf.rstrip('.')}), {{'x': i}})"


@construct
def exec_of_file(b: Builder) -> str:
    b.data[f"rules_{b.n}.txt"] = f"def rule(x):\n    return x * {b.rng.randrange(2, 9)} + 1\n"
    b.add(
        "lib",
        f"space_{b.n} = {{}}\nexec(compile(open('rules_{b.n}.txt').read(), 'rules', 'exec'), space_{b.n})",
    )
    return f"{b.use(b.home, 'lib')}space_{b.n}['rule'](i)"


@construct
def exec_in_namespace(b: Builder) -> str:
    b.add(b.home, f"code_{b.n} = 'def made_{b.n}(x):\\n    return x + %d' % {b.knob(b.home)}")
    b.add(b.home, f"exec(code_{b.n}, globals())")
    return f"made_{b.n}(i)"


@construct
def format_of_attribute(b: Builder) -> str:
    b.add("conf", f"class Opt{b.n}:\n    deep = type('D', (), {{'k': {b.knob('conf')}}})")
    conf = b.use(b.home, "conf")
    return f"'{{0.deep.k}}-{{1}}'.format({conf}Opt{b.n}, i)"


@construct
def attrgetter(b: Builder) -> str:
    b.add("conf", f"class Got{b.n}:\n    deep = type('D', (), {{'k': {b.knob('conf')}}})")
    b.need(b.home, "import operator")
    conf = b.use(b.home, "conf").rstrip(".")
    return f"operator.attrgetter('Got{b.n}.deep.k')({conf}) + i"


@construct
def frame_globals(b: Builder) -> str:
    b.need("lib", "import sys")
    b.add("lib", f"def look_{b.n}(name):\n    return sys._getframe(1).f_globals[name]")
    b.add(b.home, f"SCALE_{b.n} = {b.knob(b.home)}")
    return f"{b.use(b.home, 'lib')}look_{b.n}('SCALE_{b.n}') + i"


@construct
def source_text(b: Builder) -> str:
    b.need(b.home, "import inspect")
    b.add(b.home, f"def shown_{b.n}():\n    return {b.rng.randrange(2, 9)}  # a note")
    return f"inspect.getsource(shown_{b.n}) + str(i)"


@construct
def line_number(b: Builder) -> str:
    b.need(b.home, "import inspect")
    b.add(b.home, f"def line_{b.n}():\n    return inspect.currentframe().f_lineno")
    return f"line_{b.n}() + i"


@construct
def doc_string(b: Builder) -> str:
    b.add(b.home, f"def told_{b.n}():\n    'Says {b.rng.randrange(2, 9)} things.'")
    if b.rng.random() < 0.5:
        return f"told_{b.n}.__doc__ + str(i)"
    b.add(b.home, f"ASKED_{b.n} = '__doc__'\ndef asked_{b.n}(x):\n    return getattr(x, ASKED_{b.n})")
    return f"asked_{b.n}(told_{b.n}) + str(i)"


@construct
def annotations(b: Builder) -> str:
    b.add(b.home, f"def typed_{b.n}(x: {b.rng.randrange(2, 9)}):\n    return x")
    return f"typed_{b.n}.__annotations__['x'] + i"


@construct
def plug_in_by_name(b: Builder) -> str:
    b.need("lib", "import importlib")
    b.data[f"plug_{b.n}.txt"] = f"plug{b.n}a:go\n"
    for end, k in (("a", b.rng.randrange(2, 9)), ("b", 9)):
        b.data[f"plug{b.n}{end}.py"] = f"K = {k}\ndef go(x):\n    return x * K\n"
    b.add(
        "lib",
        f"""
        def plugged_{b.n}():
            name, _, attribute = open('plug_{b.n}.txt').read().strip().partition(':')
            return getattr(importlib.import_module(name), attribute)
    """,
    )
    return f"{b.use(b.home, 'lib')}plugged_{b.n}()(i)"


@construct
def plug_ins_in_folder(b: Builder) -> str:
    b.need("lib", "import importlib, pkgutil")
    b.data[f"plugs{b.n}/__init__.py"] = ""
    for end in "ab":
        b.data[f"plugs{b.n}/{end}.py"] = f"def go(x):\n    return x + {b.rng.randrange(2, 9)}\n"
    b.add(
        "lib",
        f"""
        def all_{b.n}(x):
            import plugs{b.n}
            names = sorted(each.name for each in pkgutil.iter_modules(plugs{b.n}.__path__))
            return [importlib.import_module('plugs{b.n}.' + name).go(x) for name in names]
    """,
    )
    return f"{b.use(b.home, 'lib')}all_{b.n}(i)"


@construct
def dunder_import(b: Builder) -> str:
    b.data[f"hid{b.n}.py"] = f"VALUE = {b.rng.randrange(2, 9)}\ndef go(x):\n    return x - VALUE\n"
    return f"__import__('hid' + str({b.n})).go(i)"


@construct
def run_path(b: Builder) -> str:
    b.need(b.home, "import runpy")
    b.data[f"ran{b.n}.py"] = f"value = {b.rng.randrange(2, 9)} * 3\n"
    return f"runpy.run_path('ran{b.n}.py')['value'] + i"


@construct
def module_from_file(b: Builder) -> str:
    b.need("lib", "import importlib.util")
    b.data[f"parts{b.n}/odd-name.py"] = f"K = {b.rng.randrange(2, 9)}\ndef go(x):\n    return x * K\n"
    b.add(
        "lib",
        f"""
        def loaded_{b.n}(path):
            spec = importlib.util.spec_from_file_location('odd{b.n}', path)
            made = importlib.util.module_from_spec(spec)
            spec.loader.exec_module(made)
            return made
        LOADED_{b.n} = loaded_{b.n}('parts{b.n}/odd-name.py')
    """,
    )
    return f"{b.use(b.home, 'lib')}LOADED_{b.n}.go(i)"


@construct
def path_order(b: Builder) -> str:
    b.need("conf", "import sys")
    for end, k in (("p", 3), ("q", 5)):
        b.data[f"{end}{b.n}/shade{b.n}.py"] = f"def go(x):\n    return x * {k}\n"
    b.add("conf", f"sys.path[1:1] = ['p{b.n}', 'q{b.n}'][::1 if {b.knob('conf')} % 2 else -1]")
    b.use("main", "conf")
    return f"__import__('shade{b.n}').go(i)"


@construct
def injected_module(b: Builder) -> str:
    b.setting(
        f"""
        sys.modules['made{b.n}'] = types.ModuleType('made{b.n}')
        sys.modules['made{b.n}'].K = {{k}}
    """,
        "import sys, types",
    )
    b.add(b.home, f"def injected_{b.n}():\n    import made{b.n}\n    return made{b.n}.K")
    return f"injected_{b.n}() + i"


@construct
def import_hook(b: Builder) -> str:
    b.setting(
        f"""
        class Find{b.n}(importlib.abc.MetaPathFinder, importlib.abc.Loader):
            def find_spec(self, name, path, target=None):
                return importlib.util.spec_from_loader(name, self) if name == 'hooked{b.n}' else None
            def exec_module(self, module):
                module.K = {{k}}
        sys.meta_path.append(Find{b.n}())
    """,
        "import sys, importlib.abc, importlib.util",
    )
    b.add(b.home, f"def hooked_{b.n}():\n    import hooked{b.n}\n    return hooked{b.n}.K")
    return f"hooked_{b.n}() + i"


@construct
def star_import(b: Builder) -> str:
    b.data[f"stars{b.n}.py"] = f"star_{b.n} = {b.rng.randrange(2, 9)}\n"
    b.need(b.home, f"from stars{b.n} import *")
    return f"star_{b.n} * (i + 1)"


@construct
def module_getattr(b: Builder) -> str:
    b.data[f"lazy{b.n}.py"] = (
        f"_table = {{'k': {b.rng.randrange(2, 9)}}}\ndef __getattr__(name):\n    return _table[name]\n"
    )
    b.need(b.home, f"import lazy{b.n}")
    return f"lazy{b.n}.k + i"


@construct
def variable_inside(b: Builder) -> str:
    b.need(b.home, "import os")
    b.env[f"FZ_IN{b.n}"] = str(b.rng.randrange(2, 9))
    return f"os.environ.get('FZ_IN{b.n}', 'none') + str(i)"


@construct
def variable_by_made_up_name(b: Builder) -> str:
    b.need(b.home, "import os")
    b.env[f"FZ_MADE{b.n}"] = str(b.rng.randrange(2, 9))
    return f"os.environ.get('FZ_' + 'made'.upper() + str({b.n}), 'none') + str(i)"


@construct
def variables_counted(b: Builder) -> str:
    b.need(b.home, "import os")
    b.env[f"FZ_COUNT{b.n}"] = "1"
    return "sorted(k for k in os.environ if k.startswith('FZ_')).__len__() + i"


@construct
def variables_expanded(b: Builder) -> str:
    b.need("lib", "import os.path")
    b.env[f"FZ_EXP{b.n}"] = str(b.rng.randrange(2, 9))
    b.add("lib", f"def expand_{b.n}(text):\n    return os.path.expandvars(text)")
    return f"{b.use(b.home, 'lib')}expand_{b.n}(f'a$FZ_EXP{b.n}-{{i}}')"


@construct
def argument_inside(b: Builder) -> str:
    b.need(b.home, "import sys")
    b.argv.append(f"n{b.n}={b.rng.randrange(2, 9)}")
    return "sys.argv[1:] + [i]"
