"""server.py ADDRESS SAVED [TLS_DIR]: what a user would write instead of kelpie-operator's sending half, with grpcio's asyncio.

Every stream gets the saved welcome and whole program after its first message; `next` on standard input sends the next saved change
to all. `acks` is answered by {"n": programs acknowledged by all, "time": when the last of them was}. Bytes are sent and taken as
they are: nothing is parsed.
"""

import asyncio
import json
import pathlib
import sys
import time

import grpc

ACK = 0x12  # key of GatewayMessage.ack
PINGS = [("grpc.keepalive_time_ms", 2500), ("grpc.keepalive_timeout_ms", 2500), ("grpc.keepalive_permit_without_calls", 1),
         ("grpc.http2.max_pings_without_data", 0), ("grpc.http2.max_ping_strikes", 0),
         ("grpc.http2.min_ping_interval_without_data_ms", 500), ("grpc.max_receive_message_length", 8 << 20)]


class Server:
    def __init__(self, saved):
        self.welcome = (saved / "welcome").read_bytes()
        self.full = (saved / "full").read_bytes()
        count = len(list(saved.glob("delta-*")))
        self.deltas = [(saved / f"delta-{i}").read_bytes() for i in range(count)]
        self.streams, self.sent, self.acks = set(), 0, {}
        self.everywhere = (0, 0)

    async def connect(self, requests, context):
        acked = 0
        try:
            async for message in requests:
                if not acked and context not in self.streams:
                    self.streams.add(context)
                    await context.write(self.welcome)
                    await context.write(self.full)
                elif message[0] == ACK:
                    acked += 1
                    self.acks[acked] = self.acks.get(acked, 0) + 1
                    if self.acks[acked] == len(self.streams):
                        self.everywhere = (acked, time.time())
        finally:
            self.streams.discard(context)

    async def next(self):
        delta = self.deltas[self.sent]
        self.sent += 1
        await asyncio.gather(*(context.write(delta) for context in self.streams))


async def main():
    address, saved, *tls = sys.argv[1:]
    loop = asyncio.get_running_loop()
    service, server = Server(pathlib.Path(saved)), grpc.aio.server(options=PINGS)
    server.add_generic_rpc_handlers([grpc.method_handlers_generic_handler("kelpie.control.v1.Control", {
        "Connect": grpc.stream_stream_rpc_method_handler(service.connect)})])
    if tls:
        key, certificate, ca = ((pathlib.Path(tls[0]) / name).read_bytes() for name in ("tls.key", "tls.crt", "ca.crt"))
        server.add_secure_port(address, grpc.ssl_server_credentials([(key, certificate)], ca, True))
    else:
        server.add_insecure_port(address)
    await server.start()
    print("{}", flush=True)
    reader = asyncio.StreamReader()
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)
    while line := await reader.readline():
        if line == b"next\n":
            await service.next()
        else:
            print(json.dumps({"n": service.everywhere[0], "time": service.everywhere[1]}), flush=True)


asyncio.run(main())
