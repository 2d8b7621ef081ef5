"""Runs in vLLM's environment: a line {"parser", "text", "tools"} on stdin is answered by what its parser makes of the whole text, [[[name, arguments], ...], content], or ["error", why].
More members are the template's arguments: some parsers look there for how their model was asked to write."""

import logging
import os

import serve

os.environ["VLLM_CONFIGURE_LOGGING"] = "0"
logging.disable(logging.CRITICAL)
from vllm.entrypoints.openai.chat_completion.protocol import ChatCompletionRequest  # noqa: E402
from vllm.tool_parsers import ToolParserManager  # noqa: E402


class Vocabulary(dict):
    """Every marker is a token."""

    def __missing__(self, token):
        self[token] = len(self)
        return self[token]

    def get(self, token, default=None):
        return self[token]

    def __contains__(self, token):
        return True


class Tokenizer:
    all_special_tokens, all_special_ids, bos_token, eos_token, is_fast = [], [], "<s>", "</s>", True

    def __init__(self):
        self.vocab = Vocabulary()

    def get_vocab(self):
        return self.vocab

    def get_added_vocab(self):
        return {}

    def convert_tokens_to_ids(self, token):
        return self.vocab[token]

    def tokenize(self, text):
        return list(text)

    def encode(self, text, **_):
        return [ord(c) for c in text]

    def decode(self, ids, **_):
        return "".join(map(chr, ids))


def answer(parser, text, tools, **kwargs):
    request = ChatCompletionRequest(model="m", messages=[{"role": "user", "content": "x"}], tools=tools, chat_template_kwargs=kwargs)
    found = ToolParserManager.get_tool_parser(parser)(Tokenizer(), request.tools).extract_tool_calls(text, request)
    return [[[c.function.name, c.function.arguments] for c in found.tool_calls], found.content]


if __name__ == "__main__":
    serve.answer_all(answer)
