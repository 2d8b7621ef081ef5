"""The reference pages name exactly what the programs have: paths, parameters, options, metrics, conditions."""

import contextlib
import json
import os
import pathlib
import re
import subprocess
import sys
import urllib.request

import pytest
import tokenizers

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests/e2e"))

import programs  # noqa: E402

BUILD = ROOT / os.environ.get("KP_BUILD", "build/release")


def section(page, heading):
    """The text under a heading, up to the next one of its level or above."""
    text = (ROOT / page).read_text(encoding="utf-8")
    level = len(heading) - len(heading.lstrip("#"))
    found = re.search(rf"^{re.escape(heading)}$(.*?)(?=^#{{1,{level}}} |\Z)", text, flags=re.M | re.S)
    assert found, f"{page}: no heading {heading!r}"
    return found[1]


def rows(text):
    """The cells of a table's rows, without its head."""
    lines = [line for line in text.splitlines() if line.startswith("|")]
    return [[cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]] for line in lines[2:]]


def names(text):
    return re.findall(r"`([^`]+)`", text)


def test_every_path_of_the_public_listener():
    code = (ROOT / "sidecar/api/http.c").read_text()
    there = set(re.findall(r'\{ KP_S_INIT\("([A-Z]+)"\), KP_S_INIT\("([^"]*)"\)', code))
    prefixes = dict(re.findall(r'(\w+)_prefix = KP_S_INIT\("([^"]+)"\)', code))
    there |= {("GET", prefixes["models"] + "NAME")}
    # Paths of one response are what follows its id.
    ways = {way for way in there if not way[1] or way[1] == "/input_items"}
    there = there - ways | {(method, prefixes["responses"] + "ID" + rest) for method, rest in ways}
    written = set()
    for page, title in (
        ("api-openai", "# The OpenAI API of the gateway"),
        ("api-anthropic", "# Anthropic's Messages API of the gateway"),
        ("responses", "# OpenAI's Responses API of the gateway"),
    ):
        for cells in rows(section(f"docs/{page}.md", title).split("\n## ")[0]):
            method = None
            for name in names(cells[0]):
                method, path = name.split(" ") if " " in name else (method, name)
                written.add((method, path.partition("[")[0]))
    assert written == there


SETS = {"BOTH": {"CHAT", "COMPLETION"}, "ANTHROPIC": {"MESSAGES", "COUNT"}}
SETS["MOST"] = SETS["BOTH"] | {"RESPONSES"}
SETS["ALL"] = SETS["MOST"] | SETS["ANTHROPIC"]


def table_of_parameters():
    """[(name, APIs, refused)], from the table that the gateway reads requests by."""
    code = (ROOT / "sidecar/api/params.c").read_text()
    table = re.search(r"^static const struct param table\[\] = \{(.*?)^\};", code, flags=re.M | re.S)[1]
    found = re.findall(r'\{ "(\w+)", ([A-Z][A-Z |]*), (\w+),\s*(NULL|"[^"]*") \}', table)
    assert len(found) == table.count("{ \""), "an entry of the table was not understood"
    return [(name, set().union(*(SETS.get(w, {w}) for w in apis.split(" | "))), read == "NULL") for name, apis, read, _ in found]


def test_every_parameter():
    table = table_of_parameters()
    openai = {"CHAT", "COMPLETION"}
    for heading, apis in (("Both generating endpoints", openai), ("Only chat completions", {"CHAT"}),
                          ("Only completions", {"COMPLETION"})):
        cells = rows(section("docs/api-openai.md", "### " + heading))
        written = [name.partition(".")[0] for row in cells for name in names(row[0])]
        there = [name for name, where, refused in table if where & openai == apis and not refused]
        assert sorted(written) == sorted(there), heading
    # What is in parentheses says what to do instead.
    text = re.sub(r"\([^)]*\)", "", section("docs/api-openai.md", "### Known, refused"))
    assert sorted(names(text)) == sorted(name for name, where, refused in table if refused and where & openai)


def test_every_parameter_of_generate():
    code = (ROOT / "sidecar/api/sglang.c").read_text()
    members = re.search(r"\} members\[\] = \{(.*?)\};", code, flags=re.S)[1]
    page = section("docs/api-openai.md", "## SGLang's /generate")
    own, _, nested = page.partition("\n### ")
    table, _, refused = own.partition("`input_embeds`")
    written = [name for row in rows("||\n" + table) for name in names(row[0])]
    written += ["input_embeds", *names(refused)]
    assert sorted(written) == sorted(re.findall(r'\{ "(\w+)", ', members))
    written = [name for row in rows("||\n" + nested.partition("\n\n`meta_info`")[0]) for name in names(row[0])]
    assert sorted(written) == sorted(name for name, where, _ in table_of_parameters() if "SGLANG" in where)


def test_every_parameter_of_messages():
    cells = rows(section("docs/api-anthropic.md", "## Parameters").partition("\n### ")[0])
    written = [name for row in cells for name in names(row[0])]
    assert sorted(written) == sorted(name for name, where, _ in table_of_parameters() if "MESSAGES" in where)


def test_every_parameter_of_responses():
    cells = rows(section("docs/responses.md", "## Parameters").partition("\n### ")[0])
    written = [name for row in cells for name in names(row[0])]
    # Values stand in the same cell.
    assert sorted(set(written) - {"auto", "default"}) == sorted(name for name, where, _ in table_of_parameters() if "RESPONSES" in where)


def test_every_parameter_of_tokenize_and_detokenize():
    code = (ROOT / "sidecar/api/tokenize.c").read_text()
    text = section("docs/api-openai.md", "## Tokenize and detokenize")
    for path, readers in (("tokenize", "tokenize|chat"), ("detokenize", "detokenize")):
        function = "".join(re.findall(rf"^static int read_(?:{readers})_member\(.*?^\}}", code, flags=re.M | re.S))
        taken = re.findall(r'kp_str_eq\(name, KP_S\("(\w+)"\)\)', function)
        if "kp_chat_member(" in function:
            members = re.search(r"\} members\[\] = \{(.*?)\};", (ROOT / "lib/prompt/chat.c").read_text(), flags=re.S)[1]
            taken += re.findall(r'\{ "(\w+)", ', members)
        table = text.partition(f"| `/v1/{path}` |")[2].partition("\n\n")[0]
        written = [name for row in rows("||\n" + table) for name in names(row[0])]
        assert sorted(written) == sorted(taken)


def test_the_stages_of_a_request():
    code = (ROOT / "sidecar/flow/flow.c").read_text()
    stages = re.search(r"kp_generate_stages\[\] = \{(.*?)^\};", code, flags=re.M | re.S)[1]
    written = [names(row[0])[0] for row in rows(section("docs/ARCHITECTURE.md", "## Life of a request"))]
    assert written == re.findall(r'\{ "(\w+)"', stages)


def test_the_states_of_an_endpoint():
    code = (ROOT / "sidecar/control/endpoint.c").read_text()
    function = re.search(r"^const char \*kp_endpoint_state_name.*?^\}", code, flags=re.M | re.S)[0]
    states = re.findall(r':\n\t\treturn "(\w+)";', function)
    written = [row[0] for row in rows(section("docs/ARCHITECTURE.md", "## Life of a configuration"))]
    assert states and written == states


def test_every_folder_and_file_named_exists():
    for page in ("README.md", *sorted((ROOT / "docs").glob("*.md"))):
        text = re.sub(r"```.*?```", "", (ROOT / page).read_text(encoding="utf-8"), flags=re.S)
        for name in names(text):
            if re.fullmatch(r"(lib|operator|sidecar|cli|hack|tests|docs|mk|bench|crds|proto)/[\w./-]*", name):
                assert (ROOT / name).exists(), f"{page}: {name}"


def options_of(program):
    help_text = subprocess.run([BUILD / "bin" / program, "--help"], capture_output=True, text=True, check=True).stdout
    return set(re.findall(r"^  (--[a-z-]+)", help_text, flags=re.M))


def test_every_option_named_exists():
    options = options_of("kelpie-sidecar") | options_of("kelpie-operator")
    assert "--manifests" in options
    for page in ("docs/api-openai.md", "docs/metrics.md", "docs/THREATS.md", "docs/ARCHITECTURE.md"):
        text = (ROOT / page).read_text(encoding="utf-8")
        assert set(re.findall(r"`(--[a-z-]+)", text)) <= options, page


def test_every_option_of_the_operator():
    options = options_of("kelpie-operator") - {"--help", "--version"}
    written = [name for row in rows(section("docs/operator.md", "## Options")) for name in names(row[0])]
    assert sorted(written) == sorted(options)
    text = (ROOT / "docs/operator.md").read_text(encoding="utf-8")
    assert set(re.findall(r"`(--[a-z-]+)", text)) <= options | options_of("kelpie-sidecar")


def test_every_condition():
    code = (ROOT / "operator/plan/conditions.c").read_text()
    there = re.findall(r'set\(ret, (READY|RECONCILING|STALLED), "(\w+)"', code)
    tables = section("docs/operator.md", "## Conditions").split("| pool |")
    every = [row for table in tables for row in rows("| pool |" + table if table is tables[1] else table)]
    written = [(name, row[1]) for row in every for name in names(row[0])]  # a link's reason has no name of its own
    assert there and sorted(written) == sorted((reason, phase.capitalize()) for phase, reason in there)


@pytest.fixture
def gateways(tmp_path):
    """One with manifests, and one of an operator, with a peer port."""
    letters = sorted(tokenizers.pre_tokenizers.ByteLevel.alphabet())
    tokenizer = tokenizers.Tokenizer(tokenizers.models.BPE({c: i for i, c in enumerate(letters)}, []))
    tokenizer.pre_tokenizer = tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = tokenizers.decoders.ByteLevel()
    tokenizer.add_special_tokens(["<s>", "</s>", "[INST]", "[/INST]", "[SYSTEM_PROMPT]", "[/SYSTEM_PROMPT]"])
    tokenizer.save(str(tmp_path / "tokenizer.json"))
    with contextlib.ExitStack() as stack:

        def start(program):
            stack.callback(program.stop)
            return program

        sim = start(programs.Sim("--tokenizer-file", tmp_path / "tokenizer.json", "--vocab", tokenizer.get_vocab_size()))
        engine = programs.engine("engine", sim.port)
        engine["spec"]["tokenizer"]["chatTemplate"] = "mistral_v7"  # the tokenizer brings none
        manifest = programs.manifest(engine)
        operator = start(programs.Operator(manifest))
        options = ("--control", f"127.0.0.1:{operator.port}", "--own", "default/engine", "--peer-listen", "127.0.0.1:0")
        yield start(programs.Gateway(manifest)), start(programs.Gateway(None, *options))


def metrics_of(program):
    """({name: kind}, {name: its labels}) of GET /metrics."""
    types, labels = {}, {}
    for line in program.ask("/metrics")[1].splitlines():
        if line.startswith("# TYPE "):
            _, _, name, kind = line.split()
            types[name] = kind
        elif not line.startswith("#"):
            series, found = re.match(r"([a-z0-9_]+)(?:\{(.*)\})? ", line).groups()
            name = series if series in types else re.sub(r"_(bucket|sum|count)$", "", series)
            labels.setdefault(name, set()).update(set(re.findall(r'(\w+)="', found or "")) - {"le"})
    return types, labels


def metrics_written(heading):
    """{name: (kind, its labels)} of docs/metrics.md."""
    written = {}
    for what, kind, _ in rows(section("docs/metrics.md", heading)):
        kind, _, label_names = kind.partition(":")
        for name in names(what):
            written[name] = (kind, {label.strip() for label in label_names.split(",") if label.strip()})
    return written


def test_every_metric(gateways):
    chat = {"messages": [{"role": "user", "content": "Hello"}], "response_format": {"type": "json_object"}}
    bodies = {"completions": {"prompt": "Hello"}, "chat/completions": chat}
    types, labels = {}, {}
    for gateway in gateways:
        for path, body in bodies.items():
            body = json.dumps({"model": "m", "max_tokens": 4, **body}).encode()
            request = urllib.request.Request(f"{gateway.url}/v1/{path}", body, {"Content-Type": "application/json"})
            with urllib.request.urlopen(request) as answer:
                assert json.load(answer)["choices"]
        # A request is counted when it has ended, which its client may know before.
        programs.wait_until(lambda: "kelpie_render_seconds" in metrics_of(gateway)[0], "a chat in /metrics")  # noqa: B023
        for known, found in zip((types, labels), metrics_of(gateway)):
            known.update(found)
    assert metrics_written("## The gateway") == {name: (kind, labels.get(name, set())) for name, kind in types.items()}


def test_every_metric_of_the_operator():
    operator = programs.Operator(programs.manifest(programs.engine("engine", 1)))
    try:
        types, labels = metrics_of(operator)
    finally:
        operator.stop()
    assert metrics_written("## The operator") == {name: (kind, labels.get(name, set())) for name, kind in types.items()}
