"""Which package brings which modules, and which others it brings along; as far as that is generally known."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

# package: its modules < packages it always needs
_TABLE = """
aiohappyeyeballs: aiohappyeyeballs
aiohttp: aiohttp < aiohappyeyeballs aiosignal async-timeout attrs frozenlist multidict propcache yarl
aiosignal: aiosignal < frozenlist typing-extensions
anyio: anyio < exceptiongroup idna sniffio typing-extensions
async-timeout: async_timeout
attrs: attr attrs
beautifulsoup4: bs4 < soupsieve typing-extensions
certifi: certifi
charset-normalizer: charset_normalizer
emoji: emoji < typing-extensions
et-xmlfile: et_xmlfile
exceptiongroup: exceptiongroup < typing-extensions
feedparser: feedparser < sgmllib3k
frozenlist: frozenlist
gitdb: gitdb < smmap
GitPython: git < gitdb typing-extensions
h11: h11
httpcore: httpcore < certifi h11
httpx: httpx < anyio certifi httpcore idna sniffio
idna: idna
jieba: jieba
Jinja2: jinja2 < MarkupSafe
lxml: lxml
Markdown: markdown
markdown-it-py: markdown_it < mdurl
MarkupSafe: markupsafe
mdurl: mdurl
multidict: multidict < typing-extensions
numpy: numpy
opencv-python: cv2 < numpy
opencv-python-headless: cv2 < numpy
openpyxl: openpyxl < et-xmlfile
orjson: orjson
pandas: pandas < numpy python-dateutil pytz tzdata
Pillow: PIL
propcache: propcache
pydub: pydub
PyJWT: jwt < typing-extensions
PyMuPDF: fitz pymupdf
PyMySQL: pymysql
pypinyin: pypinyin
PySocks: socks sockshandler
python-dateutil: dateutil < six
python-docx: docx < lxml typing-extensions
python-dotenv: dotenv
python-magic: magic
python-slugify: slugify < text-unidecode
pytz: pytz
PyYAML: yaml
pyzmq: zmq
regex: regex
requests: requests < certifi charset-normalizer idna urllib3
scipy: scipy < numpy
sgmllib3k: sgmllib
six: six
smmap: smmap
sniffio: sniffio
soupsieve: soupsieve
text-unidecode: text_unidecode
typing-extensions: typing_extensions
tzdata: tzdata
ujson: ujson
urllib3: urllib3
websocket-client: websocket
yarl: yarl < idna multidict propcache
"""


@dataclass(frozen=True)
class _Package:
    name: str
    modules: tuple[str, ...]
    needs: tuple[str, ...]


@cache
def _packages() -> dict[str, _Package]:
    found = {}
    for line in _TABLE.strip().splitlines():
        name, _, rest = line.partition(":")
        modules, _, needs = rest.partition("<")
        found[str(canonicalize_name(name))] = _Package(name, tuple(modules.split()), tuple(needs.split()))
    return found


def bringing(module: str) -> str | None:
    """Return the name of the package that brings a module, None when that isn't known."""
    return next((one.name for one in _packages().values() if module in one.modules), None)


def brought_by(requirements: Iterable[str]) -> frozenset[str] | None:
    """Return the modules that packages bring, with those they need; None when it isn't known of one of them."""
    waiting = [Requirement(each) for each in requirements]
    if any(each.extras for each in waiting):
        return None
    names = [each.name for each in waiting]
    seen: set[str] = set()
    modules: set[str] = set()
    while names:
        name = canonicalize_name(names.pop())
        if name in seen:
            continue
        seen.add(name)
        known = _packages().get(name)
        if known is None:
            return None
        modules.update(known.modules)
        names += known.needs
    return frozenset(modules)
