"""Settings by call: what is set in one place of a process changes what a function elsewhere yields, and
nothing in that function's code names it."""

from __future__ import annotations

from builder import Builder, construct


@construct
def csv_dialect(b: Builder) -> str:
    b.setting(f"csv.register_dialect('d{b.n}', delimiter=',;:|!+-_.'[{{k}} % 9])", "import csv")
    b.need(b.home, "import csv, io")
    return f"[list(r) for r in csv.reader(io.StringIO(f'a,b;c:d|e!f+g-h_{{i}}'), dialect='d{b.n}')]"


@construct
def decimal_precision(b: Builder) -> str:
    b.setting("getcontext().prec = {k} + 3", "from decimal import getcontext")
    b.need(b.home, "from decimal import Decimal as Dec")
    return "str(Dec(1) / Dec(i + 7))"


@construct
def decimal_around(b: Builder) -> str:
    b.need("main", "import decimal as dc")
    b.around.append(f"dc.localcontext(dc.Context(prec={b.knob('main')} + 2))")
    b.need(b.home, "from decimal import Decimal as Dec")
    return "str(Dec(2) / Dec(i + 7))"


@construct
def print_options(b: Builder) -> str:
    b.setting("np.set_printoptions(precision={k})", "import numpy as np")
    b.need(b.home, "import numpy as np")
    return "str(np.arange(3) / (i + 7.0))"


@construct
def print_function(b: Builder) -> str:
    b.setting("np.set_printoptions(formatter={'int': lambda v: str(v * {k})})", "import numpy as np")
    b.need(b.home, "import numpy as np")
    return "np.array2string(np.arange(3) + i)"


@construct
def print_around(b: Builder) -> str:
    b.need("main", "import numpy as np")
    b.around.append(f"np.printoptions(precision={b.knob('main')})")
    b.need(b.home, "import numpy as np")
    return "repr(np.arange(2) / (i + 3.0))"


@construct
def error_state(b: Builder) -> str:
    b.setting("np.seterr(divide=['ignore', 'raise'][{k} % 2])", "import numpy as np")
    b.add(
        b.home,
        f"""
        def divide_{b.n}(i):
            try:
                return str(np.ones(2) / np.zeros(2) + i)
            except FloatingPointError:
                return 'raised'
    """,
    )
    b.need(b.home, "import numpy as np")
    return f"divide_{b.n}(i)"


@construct
def error_state_around(b: Builder) -> str:
    b.need("main", "import numpy as np")
    b.around.append(f"np.errstate(over=['ignore', 'raise'][{b.knob('main')} % 2])")
    b.add(
        b.home,
        f"""
        def power_{b.n}(i):
            try:
                return float(np.float32(1e30) * np.float32(1e30) + i)
            except FloatingPointError:
                return 'raised'
    """,
    )
    b.need(b.home, "import numpy as np")
    return f"power_{b.n}(i)"


@construct
def json_default(b: Builder) -> str:
    b.setting("json.JSONEncoder.default = lambda self, o: [type(o).__name__, {k}]", "import json")
    b.need(b.home, "import json")
    return "json.dumps([i, {1, 2}])"


@construct
def pandas_option(b: Builder) -> str:
    b.setting("pd.set_option('display.precision', {k})", "import pandas as pd")
    b.need(b.home, "import pandas as pd")
    return "pd.DataFrame({'a': [(i + 1) / 7]}).to_string()"


@construct
def pandas_option_around(b: Builder) -> str:
    b.need("main", "import pandas as pd")
    b.around.append(f"pd.option_context('display.max_rows', {b.knob('main')})")
    b.need(b.home, "import pandas as pd")
    return "repr(pd.Series(range(i, i + 20)))"


@construct
def pandas_query(b: Builder) -> str:
    b.need(b.home, "import pandas as pd")
    b.add(b.home, f"LIMIT_{b.n} = {b.knob(b.home)}")
    return f"pd.DataFrame({{'a': range(i + 12)}}).query('a > @LIMIT_{b.n}')['a'].tolist()"


@construct
def truncated_images(b: Builder) -> str:
    b.setting("ImageFile.LOAD_TRUNCATED_IMAGES = bool({k} % 2)", "from PIL import ImageFile")
    b.need(b.home, "from PIL import Image", "import io")
    b.add(
        b.home,
        f"""
        def picture_{b.n}(i):
            whole = io.BytesIO()
            Image.effect_noise((40, 40), 0).save(whole, 'JPEG')
            try:
                return sum(Image.open(io.BytesIO(whole.getvalue()[:-(30 + i)])).tobytes()) > 0
            except OSError:
                return 'broken'
    """,
    )
    return f"picture_{b.n}(i)"


@construct
def largest_image(b: Builder) -> str:
    b.setting("Image.MAX_IMAGE_PIXELS = {k} * 40", "from PIL import Image")
    b.need(b.home, "from PIL import Image", "import io")
    b.add(
        b.home,
        f"""
        def bomb_{b.n}(i):
            whole = io.BytesIO()
            Image.new('L', (20, 20 + i)).save(whole, 'PNG')
            try:
                return Image.open(whole).size
            except Image.DecompressionBombError:
                return 'bomb'
    """,
    )
    return f"bomb_{b.n}(i)"


@construct
def image_opener(b: Builder) -> str:
    b.setting(
        f"""
        def open_{b.n}(fp, filename=None):
            return Image.new('L', (1, 1), fp.read(5)[4] * {{k}} % 256)
        Image.register_open('RAW{b.n}', open_{b.n}, lambda p: p[:4] == b'RAW{b.n}')
    """,
        "from PIL import Image",
    )
    b.need(b.home, "from PIL import Image", "import io")
    return f"list(Image.open(io.BytesIO(b'RAW{b.n}' + bytes([i + 1]))).tobytes())"
