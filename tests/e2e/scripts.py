"""An engine that answers with a text of our own, in Qwen3's tokens, one per message, and the gateway before it."""

from programs import QWEN3_TOKENS, Gateway, Sim, engine, manifest

EOS = 151645

# A thought, a text and two calls, as Qwen3 writes them.
QUESTION = [{"role": "user", "content": "Weather in Zürich?"}]
WEATHER = '{"city": "Zü\\"rich </tool_call>", "n": 12345678901234567890}'
CALLS = (
    f'<tool_call>\n{{"name": "get_weather", "arguments": {WEATHER}}}\n</tool_call>\n'
    '<tool_call>\n{"name": "ping", "arguments": {}}\n</tool_call>'
)
TEXT = f"<think>\nTwo calls: stop here?\n</think>\n\nI look.\n{CALLS}"


class Scripted:
    def __init__(self, start, qwen3, qwen3_path, token_file, text, *options, gateway_options=()):
        self.ids, self.path, self.oracle = qwen3.encode(text), qwen3_path, qwen3
        script = ("--tokens", token_file(self.ids), "--stop-after", len(self.ids) + 1)
        self.sim = start(Sim, "--vocab", QWEN3_TOKENS, "--eos", EOS, "--log-ids", *script, *options)
        self.gateway = start(Gateway, manifest(engine("sim", self.sim.port, path=qwen3_path)), *gateway_options)
