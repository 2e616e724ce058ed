"""What functions and methods of Python and common libraries return; what isn't here is unknown."""

from __future__ import annotations

import ast
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from functools import cache
from pathlib import Path

from lumia.pkg.validate.classes import class_named
from lumia.pkg.validate.types import BOOL, BYTES, FLOAT, INT, NONE, STR, UNKNOWN, External, Inst, Type, union

_NAMES: dict[str, Type] = {
    "str": STR,
    "int": INT,
    "float": FLOAT,
    "bool": BOOL,
    "bytes": BYTES,
    "None": NONE,
    "?": UNKNOWN,
}

_FUNCTIONS = """
ascii str; bin str; chr str; format str; hex str; input str; oct str; repr str; ord int; len int; hash int; id int
callable bool; hasattr bool; isinstance bool; issubclass bool; dir list[str]; globals dict; locals dict; print None
open io.IOBase; all bool; any bool; memoryview memoryview; math.sqrt float; math.floor int; math.ceil int
math.log float; math.isnan bool; json.dumps str; time.time float; time.monotonic float; time.perf_counter float
time.strftime str; time.sleep None; time.time_ns int; random.random float; random.randint int; random.uniform float
random.randrange int; secrets.token_hex str; secrets.token_bytes bytes; secrets.token_urlsafe str; os.getcwd str
os.urandom bytes; os.getpid int; os.listdir list[str]; os.path.join str; os.path.exists bool; os.path.basename str
os.path.isfile bool; os.path.dirname str; os.path.getsize int; pickle.dumps bytes; dill.dumps bytes; re.sub str
re.escape str; re.split list; re.findall list; textwrap.dedent str; textwrap.shorten str; textwrap.fill str
html.escape str; html.unescape str; base64.b64encode bytes; base64.b64decode bytes; base64.urlsafe_b64encode bytes
urllib.parse.quote str; urllib.parse.urlencode str; urllib.parse.urljoin str; uuid.uuid4 uuid.UUID
uuid.uuid1 uuid.UUID; platform.node str; shutil.which ?; dataclasses.asdict dict; dataclasses.astuple tuple
hmac.compare_digest bool; asyncio.sleep None; copy.copy ?; locale.str str; calendar.timegm int; struct.pack bytes
zlib.compress bytes; zlib.decompress bytes; tomllib.loads dict; tomllib.load dict; csv.reader ?
lumia.system.now float; lumia.system.new_id str; lumia.system.random float; lumia.store.incr int
lumia.store.set None; lumia.store.append ?; lumia.store.delete ?; lumia.annotate None; lumia.utils.next None
lumia.utils.stop None; lumia.utils.intercept None; lumia.event.start str; lumia.pipe.start str
lumia.payloads.reply_to str; lumia.payloads.text_of str; lumia.payloads.destination str; lumia.payloads.lane str
socket.create_connection socket.socket; socket.socketpair tuple[socket.socket,socket.socket]
socket.create_server socket.socket; socket.gethostname str; sqlite3.connect sqlite3.Connection
threading.Lock threading.Lock; threading.RLock threading.RLock; urllib.request.urlopen http.client.HTTPResponse
tempfile.NamedTemporaryFile tempfile._TemporaryFileWrapper; tempfile.TemporaryFile io.IOBase
tempfile.SpooledTemporaryFile tempfile._TemporaryFileWrapper; tempfile.mkdtemp str; tempfile.gettempdir str
os.popen io.IOBase; os.fdopen io.IOBase; gzip.open io.IOBase; bz2.open io.IOBase; lzma.open io.IOBase
asyncio.create_task asyncio.Task; asyncio.ensure_future asyncio.Future; asyncio.get_event_loop asyncio.AbstractEventLoop
asyncio.get_running_loop asyncio.AbstractEventLoop; asyncio.new_event_loop asyncio.AbstractEventLoop
asyncio.open_connection tuple[asyncio.StreamReader,asyncio.StreamWriter]
asyncio.open_unix_connection tuple[asyncio.StreamReader,asyncio.StreamWriter]
asyncio.create_subprocess_exec asyncio.subprocess.Process; ssl.create_default_context ssl.SSLContext
ssl.wrap_socket socket.socket; multiprocessing.Queue multiprocessing.queues.Queue
multiprocessing.Pipe tuple[multiprocessing.connection.Connection,multiprocessing.connection.Connection]
multiprocessing.Lock multiprocessing.synchronize.Lock; multiprocessing.Pool multiprocessing.pool.Pool
psycopg.connect psycopg.Connection; psycopg2.connect psycopg2.extensions.connection; pymysql.connect pymysql.Connection
redis.from_url redis.Redis; redis.Redis.from_url redis.Redis; redis.asyncio.from_url redis.asyncio.Redis
sqlalchemy.create_engine sqlalchemy.Engine; aiofiles.open aiofiles.File; aiosqlite.connect aiosqlite.Connection
asyncpg.connect asyncpg.Connection; asyncpg.create_pool asyncpg.Pool; websockets.connect websockets.ClientConnection
websockets.sync.client.connect websockets.ClientConnection; datetime.datetime.now datetime.datetime
datetime.datetime.utcnow datetime.datetime; datetime.datetime.fromtimestamp datetime.datetime
datetime.datetime.fromisoformat datetime.datetime; datetime.datetime.strptime datetime.datetime
datetime.date.today datetime.date; datetime.date.fromisoformat datetime.date; pathlib.Path.cwd pathlib.Path
pathlib.Path.home pathlib.Path; collections.Counter collections.Counter; fractions.Fraction fractions.Fraction
bytes.fromhex bytes; dict.fromkeys dict; int.from_bytes int
"""

_METHODS = """
str capitalize casefold lower upper title strip lstrip rstrip replace join format center ljust rjust zfill swapcase
str removeprefix removesuffix expandtabs translate format_map -> str
str split rsplit splitlines -> list[str]
str encode -> bytes
str startswith endswith isdigit isalpha isalnum isnumeric isdecimal isspace isupper islower isidentifier -> bool
str find rfind index rindex count -> int
str partition rpartition -> tuple[str,str,str]
bytes decode hex -> str
bytes strip replace join lower upper -> bytes
bytes startswith endswith -> bool
bytes split rsplit splitlines -> list[bytes]
list append extend insert remove sort reverse clear -> None
list index count -> int
dict clear update -> None
set add discard remove clear update -> None
int bit_length bit_count -> int
int to_bytes -> bytes
float is_integer -> bool
float hex -> str
datetime.datetime timestamp -> float
datetime.datetime date -> datetime.date
datetime.datetime astimezone replace -> datetime.datetime
datetime.date isoformat strftime ctime -> str
datetime.date weekday isoweekday toordinal -> int
datetime.timedelta total_seconds -> float
pathlib.PurePath as_posix as_uri -> str
pathlib.PurePath with_suffix with_name joinpath relative_to -> pathlib.Path
pathlib.Path resolve absolute expanduser -> pathlib.Path
pathlib.Path read_text -> str
pathlib.Path read_bytes -> bytes
pathlib.Path exists is_file is_dir -> bool
pathlib.Path open -> io.IOBase
pathlib.Path write_text write_bytes -> int
pathlib.Path mkdir unlink -> None
sqlite3.Connection cursor execute executemany executescript -> sqlite3.Cursor
sqlite3.Connection commit close rollback -> None
sqlite3.Cursor fetchall -> list
socket.socket dup -> socket.socket
socket.socket makefile -> io.IOBase
socket.socket recv -> bytes
socket.socket send -> int
socket.socket sendall close connect bind listen settimeout -> None
subprocess.Popen wait -> int
collections.Counter most_common -> list
uuid.UUID __str__ -> str
enum.Enum __str__ -> str
"""

LIVE_ELSEWHERE = frozenset(
    [
        "threading.Lock",
        "threading.RLock",
        "httpx.Client",
        "httpx.AsyncClient",
        "aiohttp.ClientSession",
        "redis.Redis",
        "redis.StrictRedis",
        "redis.asyncio.Redis",
        "redis.client.Redis",
        "psycopg.Connection",
        "psycopg.AsyncConnection",
        "psycopg2.extensions.connection",
        "pymysql.Connection",
        "sqlalchemy.Engine",
        "aiosqlite.Connection",
        "asyncpg.Connection",
        "asyncpg.Pool",
        "paramiko.SSHClient",
        "websockets.ClientConnection",
        "aiofiles.File",
        "psycopg_pool.ConnectionPool",
        "psycopg_pool.AsyncConnectionPool",
        "asyncio.subprocess.Process",
        "serial.Serial",
        "smtplib.SMTP",
        "smtplib.SMTP_SSL",
        "ftplib.FTP",
        "ftplib.FTP_TLS",
        "imaplib.IMAP4",
        "imaplib.IMAP4_SSL",
        "poplib.POP3",
        "zipfile.ZipFile",
        "tarfile.TarFile",
        "zmq.Socket",
        "zmq.Context",
        "pika.BlockingConnection",
        "websocket.WebSocket",
        "multiprocessing.synchronize.Lock",
        "multiprocessing.queues.Queue",
        "multiprocessing.connection.Connection",
        "tempfile._TemporaryFileWrapper",
    ]
)
"""Classes that hold a live resource and aren't looked into."""

SAMPLES: dict[type, object] = {
    bool: True, int: 3, float: 1.5, str: "a", bytes: b"a", list: [], dict: {}, set: set(), tuple: (), type(None): None,
}  # fmt: skip
"""A value of each plain class, to ask Python itself what an operator does with it."""

OTHERS: dict[object, object] = {
    datetime: datetime(2000, 1, 1, tzinfo=UTC), date: date(2000, 1, 1), timedelta: timedelta(1), Decimal: Decimal(1),
    Path: Path("a"),
}  # fmt: skip
"""The same for classes of which only what comes out is of interest."""

TAKES = {
    "json.loads": (str, bytes, bytearray), "builtins.ord": (str, bytes, bytearray), "builtins.chr": (int,),
    "base64.b64encode": (bytes, bytearray), "html.escape": (str,), "math.sqrt": (int, float),
    "math.floor": (int, float),
    "math.ceil": (int, float), "builtins.abs": (int, float, complex), "builtins.round": (int, float),
    "datetime.datetime.fromtimestamp": (int, float), "datetime.datetime.fromisoformat": (str,),
    "datetime.date.fromisoformat": (str,), "urllib.parse.urlparse": (str, bytes), "time.sleep": (int, float),
    "lumia.payloads.parse_destination": (str,), "builtins.sum": (list, tuple, set, dict, frozenset),
    "builtins.sorted": (list, tuple, set, dict, str, frozenset, bytes), "textwrap.dedent": (str,),
    "builtins.enumerate": (list, tuple, set, dict, str, frozenset, bytes), "textwrap.shorten": (str,),
}  # fmt: skip
"""Of functions whose first argument has to be one of a few plain classes: these."""


@cache
def type_named(text: str) -> Type:
    """Return the type that one of the tables names."""
    return _typed(ast.parse(text, mode="eval").body) if text != "?" else UNKNOWN


def _typed(node: ast.expr) -> Type:
    if isinstance(node, ast.Subscript):
        inner = node.slice.elts if isinstance(node.slice, ast.Tuple) else [node.slice]
        base = _typed(node.value)
        return Inst(base.cls, tuple(_typed(one) for one in inner)) if isinstance(base, Inst) else UNKNOWN
    if isinstance(node, ast.BinOp):
        return union([_typed(node.left), _typed(node.right)])
    text = ast.unparse(node)
    return _NAMES.get(text) or Inst(class_named(text))


@cache
def _functions() -> dict[str, str]:
    pairs = (entry.split() for line in _FUNCTIONS.splitlines() for entry in line.split(";") if entry.strip())
    return {name if "." in name else f"builtins.{name}": returned for name, returned in pairs}


@cache
def _methods() -> dict[tuple[str, str], str]:
    found: dict[tuple[str, str], str] = {}
    names: list[str] = []
    for line in _METHODS.strip().splitlines():
        text, _, returned = line.partition(" -> ")
        owner, *more = text.split()
        names += more
        if returned:
            found |= {(owner, name): returned for name in names}
            names = []
    return found


def returned_by(name: str) -> Type:
    """Return what a function of a library returns, unknown when it isn't in the table."""
    text = _functions().get(name)
    return type_named(text) if text is not None else UNKNOWN


def method_returns(cls: type | External, name: str) -> Type:
    """Return what a method of a class returns, unknown when it isn't in the table."""
    table = _methods()
    for base in cls.__mro__ if isinstance(cls, type) else ():
        module = {"_socket": "socket"}.get(base.__module__, base.__module__.removesuffix("._local"))
        owner = base.__qualname__ if module == "builtins" else f"{module}.{base.__qualname__}"
        if (owner, name) in table:
            return type_named(table[owner, name])
    return UNKNOWN
