"""The reference: transformers' own Jinja environment, and the program under test beside it."""

import contextlib
import datetime
import functools
import json
import pathlib
import resource
import signal
import subprocess
import sys
import threading
import warnings

import jinja2
from transformers.utils import chat_template_utils

ROOT = pathlib.Path(__file__).resolve().parents[3]
sys.path.insert(0, str(ROOT / "tests/oracle"))
import golang  # noqa: E402

NOW = datetime.datetime(2026, 2, 28, 15, 4, 5, 678901)
NOW_NS = int(NOW.replace(tzinfo=datetime.timezone.utc).timestamp()) * 1_000_000_000 + 678_901_000

warnings.filterwarnings("ignore", category=SyntaxWarning)
warnings.filterwarnings("ignore", category=DeprecationWarning)


class Clock(datetime.datetime):
    @classmethod
    def now(cls, tz=None):
        return NOW


chat_template_utils.datetime = Clock  # what strftime_now asks


class Refused(Exception):
    """The template called raise_exception."""


class Failed(Exception):
    """Anything else: does not compile, or fails while rendering."""


class Lazy:
    """An iterator that prints without its address, as ours do."""

    def __init__(self, inner):
        self.inner = inner

    def __iter__(self):
        return self

    def __next__(self):
        return next(self.inner)

    def __repr__(self):
        return f"<{type(self.inner).__name__} object>"


def _lazily(function):
    @functools.wraps(function)
    def call(*args, **kwargs):
        value = function(*args, **kwargs)
        return Lazy(value) if hasattr(value, "__next__") else value

    return call


_compiled = {}


def _compile(source):
    if source not in _compiled:
        if len(_compiled) > 500:
            _compiled.clear()
        try:
            _compiled[source] = chat_template_utils._cached_compile_jinja_template(source)
        except Exception as e:
            _compiled[source] = e
    return _compiled[source]


@functools.cache
def _environment():
    return chat_template_utils._cached_compile_jinja_template("").environment


@functools.cache
def _lazy_environment():
    env = _environment().overlay()
    env.filters = {name: _lazily(function) for name, function in env.filters.items()}
    return env


def reference_without_addresses(source, variables):
    """As reference(), with iterators that print no address: what is computed from such a text is the same each time."""
    return _render(_lazy_environment().from_string(source), variables)


def folds_bad_slices(source):
    """A slice of a constant by what is no integer, or of one that has none: where others fail, jinja2's constant folder prints nothing."""
    for node in _environment().parse(source).find_all(jinja2.nodes.Getitem):
        if isinstance(node.arg, jinja2.nodes.Slice):
            try:
                node.node.as_const()[node.arg.as_const()]
            except jinja2.nodes.Impossible:
                pass
            except TypeError:
                return True
    return False


def reference(source, variables):
    """Text, or Refused, or Failed."""
    return _render(_compile(source), variables)


class TooLong(Exception):
    pass


def _too_long(*_):
    raise TooLong


@contextlib.contextmanager
def bounded(seconds, n_bytes):
    """What takes longer (jinja2 has no budget: `l|slice(10**18)`) or more memory fails."""
    soft, hard = resource.getrlimit(resource.RLIMIT_AS)
    before = signal.signal(signal.SIGALRM, _too_long)
    resource.setrlimit(resource.RLIMIT_AS, (n_bytes, hard))
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        resource.setrlimit(resource.RLIMIT_AS, (soft, hard))
        signal.signal(signal.SIGALRM, before)


def reference_once(source, variables):
    """As reference() for a source that is not asked for again: in one environment, where transformers makes one for each template, and bounded."""
    with bounded(10, 4 << 30):
        try:
            template = _environment().from_string(source)
        except Exception as e:
            template = e
        return _render(template, variables)


_json = {}


def as_json(variables):
    """Their JSON, which is kept: variables must not change."""
    if id(variables) not in _json:
        if len(_json) > 100:
            _json.clear()
        _json[id(variables)] = (json.dumps(variables), variables)  # holds them, so that the id stays theirs
    return _json[id(variables)][0]


def _render(template, variables):
    if isinstance(template, Exception):
        raise Failed(f"{type(template).__name__}: {template}")
    try:
        text = template.render(**json.loads(as_json(variables)))
        text.encode()
        return text
    except jinja2.exceptions.TemplateError as e:
        if type(e) is jinja2.exceptions.TemplateError:
            raise Refused(str(e)) from None
        raise Failed(f"{type(e).__name__}: {e}") from None
    except Exception as e:
        raise Failed(f"{type(e).__name__}: {e}") from None


def chat(source, messages, tools, variables, **options):
    """As apply_chat_template does it, with all that it does around the template. Text, or Refused, or Failed."""
    try:
        texts, _ = chat_template_utils.render_jinja_template([json.loads(json.dumps(messages))], tools=tools, chat_template=source, **variables, **options)
        texts[0].encode()
        return texts[0]
    except jinja2.exceptions.TemplateError as e:
        raise (Refused if type(e) is jinja2.exceptions.TemplateError else Failed)(str(e)) from None
    except Exception as e:
        raise Failed(f"{type(e).__name__}: {e}") from None


def one_line(text):
    """An error text as kp_err carries it."""
    text = "".join("?" if ord(c) < 0x20 or ord(c) == 0x7F else c for c in text)
    return text.encode()[:399].decode(errors="ignore")


class Renderer:
    """tests/oracle/template/render.c over pipes."""

    def __init__(self, program=None):
        program = program or golang.helper("template", "render")
        self.p = subprocess.Popen([program], stdin=subprocess.PIPE, stdout=subprocess.PIPE)

    def close(self):
        self.p.stdin.close()
        self.p.stdout.close()
        return self.p.wait(timeout=30)

    def ask(self, source, variables, **options):
        request = {"source": source, "vars": variables, "now": NOW_NS, **options}
        self.p.stdin.write(json.dumps(request, ensure_ascii=False).encode() + b"\n")
        self.p.stdin.flush()
        line = self.p.stdout.readline()
        if not line:
            raise AssertionError(f"render died ({self.p.wait(timeout=30)}) on {source!r} with {variables!r}")
        return json.loads(line)

    def ask_many(self, asked):
        """Answers to many (source, variables), which are written while answers are read."""

        def write():
            try:
                for source, variables in asked:
                    self.p.stdin.write(b'{"source": %s, "vars": %s, "now": %d}\n' % (json.dumps(source).encode(), as_json(variables).encode(), NOW_NS))
                self.p.stdin.flush()
            except BrokenPipeError:
                pass  # said below

        writer = threading.Thread(target=write)
        writer.start()
        try:
            for source, _ in asked:
                line = self.p.stdout.readline()
                if not line:
                    raise AssertionError(f"render died ({self.p.wait(timeout=30)}) on {source!r}")
                yield json.loads(line)
        finally:
            writer.join()

    def render(self, source, variables, **options):
        """As reference()."""
        return result(self.ask(source, variables, **options))


def result(answer):
    """The text of an answer; Refused, Failed."""
    if "text" in answer:
        return answer["text"]
    if answer["error"].startswith(("render template: ", "compile template: ")) or answer["code"] != "INVALID_ARGUMENT":
        raise Failed(answer["error"])
    raise Refused(answer["error"])


def outcome(render, *args, **kwargs):
    """(kind, text) where kind is text, refused or failed; the text of a failure is not compared."""
    try:
        return "text", render(*args, **kwargs)
    except Refused as e:
        return "refused", one_line(str(e))
    except Failed as e:
        return "failed", str(e)


def same(ours, theirs):
    return ours[0] == theirs[0] and (ours[0] == "failed" or ours[1] == theirs[1])
