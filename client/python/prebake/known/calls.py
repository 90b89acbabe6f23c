"""What installed functions yield beside what their arguments say: a table, by dotted name.

The longest entry that a name starts with decides. It is data: an entry that is missing is caught by the
tripwire and the probe, one too many is only computed again.
"""

from __future__ import annotations

import re

from prebake.runtime.errors import Code
from prebake.runtime.words import words

#: Grows with each change of the tables below, which can make a verdict another.
VERSION = 7

#: Steady whatever its arguments are; a seeded generator is steady if its seed is seen in the code.
STEADY, SEEDED, LISTING = "steady", "seeded", "listing"

CALLS: dict[str, Code | str] = {
    # Random numbers: generators of the process, and those that nobody seeds.
    "random": Code.RANDOM,
    "random.Random": SEEDED,
    "secrets": Code.CLOCK,
    "numpy.random": Code.RANDOM,
    "numpy.random.default_rng": SEEDED,
    "numpy.random.RandomState": SEEDED,
    "numpy.random.SeedSequence": SEEDED,
    "numpy.random.Generator": STEADY,
    "numpy.random.BitGenerator": STEADY,
    "numpy.random.PCG64": SEEDED,
    "numpy.random.PCG64DXSM": SEEDED,
    "numpy.random.MT19937": SEEDED,
    "numpy.random.Philox": SEEDED,
    "numpy.random.SFC64": SEEDED,
    **dict.fromkeys(
        [
            f"torch.{name}"
            for name in words(
                "rand randn randint randperm rand_like randn_like randint_like normal bernoulli "
                "multinomial poisson binomial seed initial_seed manual_seed set_rng_state "
                "get_rng_state dropout dropout_ alpha_dropout alpha_dropout_ feature_dropout "
                "feature_dropout_ feature_alpha_dropout rrelu rrelu_ native_dropout random "
                "distributions cuda.manual_seed cuda.manual_seed_all nn.init utils.data.random_split"
            )
        ],
        Code.RANDOM,
    ),
    **dict.fromkeys(
        [
            f"torch.nn.functional.{name}"
            for name in words(
                "dropout dropout1d dropout2d dropout3d alpha_dropout feature_alpha_dropout "
                "gumbel_softmax rrelu"
            )
        ],
        Code.RANDOM,
    ),
    "tensorflow.random": Code.RANDOM,
    **{
        f"tensorflow.random.{name}": STEADY
        for name in words(
            "stateless_uniform stateless_normal stateless_truncated_normal stateless_binomial "
            "stateless_gamma stateless_poisson stateless_categorical "
            "stateless_parameterized_truncated_normal experimental.stateless_shuffle "
            "experimental.stateless_fold_in experimental.stateless_split"
        )
    },
    "tensorflow.random.Generator.from_seed": SEEDED,
    **dict.fromkeys(
        [
            f"tensorflow.image.random_{name}"
            for name in (
                words("brightness contrast crop flip_left_right flip_up_down hue jpeg_quality saturation")
            )
        ],
        Code.RANDOM,
    ),
    "tensorflow.image.sample_distorted_bounding_box": Code.RANDOM,
    "tensorflow.nn.dropout": Code.RANDOM,
    "tensorflow.timestamp": Code.CLOCK,
    "keras.random": Code.RANDOM,
    "sklearn.utils.shuffle": Code.RANDOM,
    "sklearn.utils.resample": Code.RANDOM,
    "sklearn.model_selection.train_test_split": Code.RANDOM,
    "torchaudio.functional.dither": Code.RANDOM,
    "torchaudio.functional.griffinlim": Code.RANDOM,
    "torchvision.ops.drop_block2d": Code.RANDOM,
    "torchvision.ops.stochastic_depth": Code.RANDOM,
    # OpenCV tells nobody where its generator is: a hit would leave out what seeds it for others.
    **dict.fromkeys([f"cv2.{name}" for name in words("setRNGSeed randu randn randShuffle")], Code.RANDOM),
    # Clocks, and names that are made anew each time.
    **dict.fromkeys(
        [
            f"time.{name}"
            for name in words(
                "time time_ns monotonic monotonic_ns perf_counter perf_counter_ns process_time "
                "process_time_ns thread_time thread_time_ns clock_gettime clock_gettime_ns localtime "
                "gmtime ctime asctime strftime"
            )
        ],
        Code.CLOCK,
    ),
    **dict.fromkeys(["timeit", "datetime.datetime.now", "datetime.datetime.utcnow"], Code.CLOCK),
    **dict.fromkeys(["datetime.datetime.today", "datetime.date.today"], Code.CLOCK),
    **dict.fromkeys(
        ["pandas.Timestamp.now", "pandas.Timestamp.today", "pandas.Timestamp.utcnow"], Code.CLOCK
    ),
    **dict.fromkeys(["uuid.uuid1", "uuid.uuid4", "uuid.getnode", "tempfile"], Code.CLOCK),
    **dict.fromkeys(["os.urandom", "os.getrandom", "os.getpid", "os.getppid", "os.times"], Code.CLOCK),
    **dict.fromkeys(
        words("threading.get_ident threading.get_native_id threading.current_thread signal.getsignal"),
        Code.CLOCK,
    ),
    **dict.fromkeys(
        words("email.utils.formatdate email.utils.localtime resource.getrusage shutil.disk_usage psutil"),
        Code.CLOCK,
    ),
    # Its header tells when it was made, unless it is told.
    "gzip.compress": Code.CLOCK,
    # Who works on it, and how busy it and the machine are.
    **dict.fromkeys(
        words(
            "multiprocessing.current_process asyncio.current_task asyncio.all_tasks os.getloadavg os.getpgrp "
            "os.getpgid os.getsid gc.get_count gc.get_freeze_count sys.getallocatedblocks "
            "tracemalloc.get_traced_memory tracemalloc.get_tracemalloc_memory"
        ),
        Code.CLOCK,
    ),
    "ssl.RAND_bytes": Code.CLOCK,
    # The network.
    **dict.fromkeys(
        words(
            "socket ssl urllib.request http.client ftplib smtplib poplib imaplib telnetlib xmlrpc "
            "socketserver asyncio.open_connection requests httpx aiohttp urllib3 "
            "gcsfs paramiko websocket websockets grpc pycurl redis pymongo psycopg psycopg2 pymysql "
            "google.cloud azure.storage huggingface_hub torch.hub torch.utils.model_zoo wget gdown "
            "openai anthropic"
        ),
        Code.NETWORK,
    ),
    # Files that nothing tells of, and other programs.
    **dict.fromkeys(["os.listdir", "os.scandir", "glob.glob", "glob.iglob", "glob.glob1"], LISTING),
    **dict.fromkeys(["os.walk", "os.fwalk"], Code.UNDECLARED),
    **dict.fromkeys([f"os.path.get{each}time" for each in "mca"], Code.UNDECLARED),
    **dict.fromkeys(["subprocess", "os.system", "os.popen", "pty", "builtins.input"], Code.UNDECLARED),
    **dict.fromkeys(["os.posix_spawn", "os.posix_spawnp", "os.fork", "sys.stdin"], Code.UNDECLARED),
    # What is set inside the interpreter or the kernel, where nobody can ask for it.
    **dict.fromkeys(
        words(
            "os.umask codecs.register codecs.unregister codecs.register_error signal.signal signal.alarm "
            "signal.setitimer resource.setrlimit atexit.register mimetypes.add_type mimetypes.init "
            "logging.disable logging.addLevelName sys.setswitchinterval threading.stack_size gc.enable "
            "gc.disable gc.freeze gc.set_threshold tracemalloc.start tracemalloc.stop faulthandler.enable "
            "faulthandler.disable os.mkfifo os.mknod os.nice os.setpriority os.sched_setaffinity"
        ),
        Code.EFFECT,
    ),
    # The surroundings.
    **dict.fromkeys(
        words(
            "os.getcwd os.getcwdb os.getlogin os.uname os.cpu_count os.sched_getaffinity os.environb "
            "os.getenvb os.path.expandvars platform.node platform.uname getpass.getuser sys.argv "
            "sys.path locale.getlocale os.environ os.getenv os.putenv os.unsetenv os.get_exec_path "
            "multiprocessing.cpu_count pathlib.Path.cwd locale.getpreferredencoding "
            "socket.gethostname os.getuid os.geteuid os.getgid os.getegid "
            # How this process is set, which it may switch between two calls.
            "gc.isenabled gc.get_threshold gc.get_debug sys.getdlopenflags "
            "resource.getrlimit os.getpriority faulthandler.is_enabled tracemalloc.is_tracing "
            "tracemalloc.get_traceback_limit multiprocessing.get_start_method"
        ),
        Code.ENVIRONMENT,
    ),
    # Names that cannot be seen.
    **dict.fromkeys(
        words(
            "sys._getframe sys.modules sys._current_frames inspect.stack inspect.currentframe "
            "gc.get_objects gc.get_referrers importlib.import_module importlib.__import__ "
            "inspect.getsource inspect.getsourcelines inspect.findsource inspect.getcomments "
            "importlib.reload importlib.util.find_spec pydoc.locate pkgutil.resolve_name runpy "
            "builtins.globals builtins.locals builtins.eval builtins.exec builtins.__import__ "
            "builtins.compile ctypes"
        ),
        Code.DYNAMIC,
    ),
    "builtins.id": Code.CLOCK,
    "builtins.hash": Code.UNSTABLE,
}

#: What draws from generators whose state is compared around each element: where code has run, it was seen.
WATCHED = ("random.", "numpy.random.", "torch.")
#: Methods that draw random numbers from the process's generators, on whatever object.
DRAWING_METHODS = words("uniform_ normal_ random_ bernoulli_ exponential_ cauchy_ geometric_ log_normal_")
#: Methods that draw random numbers unless an argument seeds them.
SEEDABLE_METHODS = frozenset({"sample", "shuffle", "rvs", "train_test_split"})
SEEDS = frozenset({"seed", "random_state", "generator", "rng", "key"})
#: Methods of paths that list folders in the order of the file system.
LISTING_METHODS = frozenset({"iterdir", "rglob", "scandir"})
#: Attributes that lead to names which cannot be seen in the code, and what a file says beside its content.
ATTRIBUTES = {
    Code.DYNAMIC: words("__globals__ __builtins__ f_globals f_locals f_back __subclasses__"),
    Code.UNDECLARED: words(
        "st_mtime st_mtime_ns st_ctime st_ctime_ns st_atime st_atime_ns st_ino st_birthtime"
    ),
}
#: Functions that read the file that their first argument names.
READERS = words(
    "builtins.open io.open numpy.load numpy.loadtxt numpy.genfromtxt numpy.fromfile torch.load "
    "PIL.Image.open pandas.read_csv pandas.read_json pandas.read_parquet pandas.read_pickle "
    "pandas.read_table polars.read_csv polars.read_parquet cv2.imread gzip.open bz2.open lzma.open "
    "tokenizers.Tokenizer.from_file safetensors.torch.load_file pyarrow.parquet.read_table "
    "pyarrow.csv.read_csv codecs.open linecache.getline linecache.getlines zipfile.ZipFile tarfile.TarFile "
    "sqlite3.connect"
)
#: Functions that open files in compiled code, some of which reads ahead.
COMPILED_READERS = words(
    "cv2.imread cv2.imreadmulti cv2.VideoCapture cv2.FileStorage h5py.File h5netcdf.File netCDF4.Dataset "
    "tables.open_file lmdb.open lmdb.Environment torchvision.io.read_image torchvision.io.read_file "
    "torchvision.io.decode_image torchvision.io.read_video torchvision.io.VideoReader torchaudio.load "
    "torchaudio.info soundfile.read soundfile.SoundFile soundfile.info librosa.load av.open "
    "decord.VideoReader rasterio.open SimpleITK.ReadImage pyvips.Image.new_from_file "
    "tokenizers.Tokenizer.from_file sentencepiece.SentencePieceProcessor safetensors.safe_open "
    "safetensors.torch.load_file safetensors.numpy.load_file pyarrow.parquet.read_table "
    "pyarrow.parquet.ParquetFile pyarrow.memory_map pyarrow.OSFile pyarrow.csv.read_csv "
    "pyarrow.feather.read_table pyarrow.dataset.dataset polars.read_csv polars.read_parquet "
    "polars.scan_csv polars.scan_parquet duckdb.connect duckdb.read_parquet faiss.read_index "
    "tensorflow.io.read_file tensorflow.io.gfile.GFile xgboost.Booster lightgbm.Booster sqlite3.connect"
)
#: Functions whose result does not depend on the order of what they are given.
ORDERLESS = frozenset({"sorted", "len", "min", "max", "set", "frozenset", "any", "all", "bool", "fsum"})
#: Functions that read the clock for these words.
NOW = frozenset({"numpy.datetime64", "pandas.Timestamp", "pandas.to_datetime"})
NOWS = ("now", "today")
#: Those of them that take a mode after the name.
OPENERS = words(
    "builtins.open io.open codecs.open gzip.open bz2.open lzma.open zipfile.ZipFile tarfile.TarFile "
    "tarfile.open"
)
#: What functions are called that read a file by its name, whoever wrote them: a file whose name is written in
#: the code counts, though nothing is known of the function.
READING = re.compile(r"(read|load|open|parse|imread|memmap|from_?file|loadtxt|genfromtxt)(_\w+)?")
#: Keywords that name a file.
FILE_KEYWORDS = words("file filename fname path fp io source filepath filepath_or_buffer")
#: Functions that tell whether there is a file, or how large it is.
LOOKERS = words("os.path.exists os.path.lexists os.path.isfile os.path.isdir os.path.getsize os.stat")
#: All whose first argument names a file.
NAMING = READERS | LOOKERS
#: Methods of paths that read the file, or look at it.
PATH_METHODS = words("read_text read_bytes open exists is_file is_dir stat")
#: Functions and methods whose result depends on the time zone.
LOCAL_TIME = words("fromtimestamp timestamp astimezone localtime mktime ctime")
#: Functions that make a path of parts.
JOINING = frozenset({"os.path.join", "pathlib.Path", "pathlib.PurePath", "pathlib.PosixPath"})
#: Keys by which no unequal things tie.
INJECTIVE = frozenset({"builtins.str", "builtins.repr", "builtins.ord"})
#: Methods of sets that make sets.
SET_METHODS = frozenset({"union", "intersection", "difference", "symmetric_difference", "copy"})
#: Functions that hand on the order of what they are given, for others to sort.
PASSING = frozenset({"list", "tuple", "iter", "map", "filter", "reversed"})
#: Functions whose result depends on the order of a set that they are given.
ORDERED = PASSING | (
    words(
        "str repr format enumerate next zip join array asarray fromiter tensor as_tensor stack chain "
        "Counter deque dumps fromkeys cat concat "
        "concatenate Series Index DataFrame OrderedDict writelines choice islice cycle product"
    )
)
#: Functions whose result is a number, whatever they are given.
NUMBERS = frozenset(
    {"int", "len", "sum", "abs", "round", "ord", "zlib.crc32", "zlib.adler32", "int.from_bytes"}
)
#: What makes temporary files: whether a value holds their names is looked at once it is made (`temporary`).
MAKING_TEMPORARY = frozenset(
    f"tempfile.{name}"
    for name in words(
        "TemporaryDirectory NamedTemporaryFile TemporaryFile SpooledTemporaryFile mkdtemp mkstemp"
    )
)
#: Functions that change their first argument.
CHANGING = words(
    "heapq.heappush heapq.heappop heapq.heappushpop heapq.heapreplace heapq.heapify bisect.insort "
    "bisect.insort_left bisect.insort_right builtins.setattr builtins.delattr operator.setitem operator.iadd "
    "_heapq.heappush _heapq.heappop _heapq.heappushpop _heapq.heapreplace _heapq.heapify _bisect.insort "
    "_bisect.insort_left _bisect.insort_right"
)
#: Methods that change a list, dictionary or set.
MUTATORS = words(
    "append extend insert add update pop popitem setdefault remove discard clear appendleft popleft "
    "extendleft rotate subtract sort reverse"
)
