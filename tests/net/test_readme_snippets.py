"""The lines that a README shows: ten that serve a model, ten that decode from it."""

from __future__ import annotations

import asyncio
import contextlib
import io

SERVE = """
import asyncio
import numpy as np
from pp1wire.net import Terms, WorkerServer

TERMS = Terms(vocab_size=100, id_map_sha256=bytes(32), draft_checkpoint_sha256=bytes(32),
              draft_revision="demo", target_sha256=bytes(32))

class Draft:                                      # a real model would keep its key/value cache in what `open` returns
    def open(self, capacity):
        return self
    def logits(self, prefix, drafted):            # float32 [V]: the token after prefix + drafted
        return np.cos(np.arange(100, dtype=np.float32) + len(prefix) + len(drafted))

async def main():
    async with WorkerServer("127.0.0.1:7411", Draft(), TERMS) as server:
        await server.wait_closed()

asyncio.run(main())
"""

DECODE = """
import asyncio
import numpy as np
from pp1wire.net import Terms, connect, decode

TERMS = Terms(vocab_size=100, id_map_sha256=bytes(32), draft_checkpoint_sha256=bytes(32),
              draft_revision="demo", target_sha256=bytes(32))

class Target:
    def open(self, capacity):
        return self
    def logits(self, prefix, drafted):            # float32 [len(drafted) + 1, V]
        rows = np.arange(len(drafted) + 1, dtype=np.float32)[:, None] + len(prefix)
        return np.cos(1.1 * np.arange(100, dtype=np.float32) + rows)

async def main():
    async with connect("127.0.0.1:7411", TERMS) as client:
        async for decided in decode(client, Target(), [1, 2, 3], max_tokens=20):
            print(decided.accepted, decided.kind.name.lower(), decided.tokens)

asyncio.run(main())
"""


def without_run(code, port):
    head, _, tail = code.replace("7411", str(port)).rpartition("asyncio.run(main())")
    assert tail.strip() == ""
    names = {}
    exec(compile(head, "README", "exec"), names)  # noqa: S102 - our own text, above
    return names["main"]


async def listening(port):
    async with asyncio.timeout(5):
        while True:
            try:
                _, writer = await asyncio.open_connection("127.0.0.1", port)
            except ConnectionRefusedError:
                await asyncio.sleep(0.01)
            else:
                writer.close()
                return


def test_readme_snippets_serve_and_decode(unused_tcp_port):
    async def both():
        serving = asyncio.create_task(without_run(SERVE, unused_tcp_port)())
        await listening(unused_tcp_port)
        try:
            await without_run(DECODE, unused_tcp_port)()
        finally:
            serving.cancel()
            await asyncio.gather(serving, return_exceptions=True)

    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        asyncio.run(both())
    lines = out.getvalue().splitlines()
    assert sum(line.split("(")[1].count(",") + (not line.endswith(",)")) for line in lines) == 20
    assert any(int(line.split()[0]) for line in lines)
