"""llama.cpp's own HTTP server (inside PyPI xllamacpp) as a program: the oracle of the demo engine.
Prints its address, serves until its standard input ends. Arguments: FILE.gguf CONTEXT."""

import sys

import xllamacpp

params = xllamacpp.CommonParams()
params.model.path = sys.argv[1]
params.n_ctx = int(sys.argv[2])
params.n_parallel = 1
params.cpuparams.n_threads = params.cpuparams_batch.n_threads = 1
params.port = 0
params.warmup = False
params.verbosity = 0
server = xllamacpp.Server(params)
print(server.listening_address, flush=True)
sys.stdin.read()
