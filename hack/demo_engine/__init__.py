"""The demo engine: llama.cpp behind vLLM's gRPC protocol. Token ids in, token ids out.

Reading order: service.py (the protocol: what is asked, what is answered) on engine.py (one thread
that owns the model: which sequences run, what is in the next batch) on sampling.py (logits to a
token), constraint.py (grammars) and llama.py (llama.cpp by ctypes); gguf.py cuts the tokenizer out
of a model file.
"""
