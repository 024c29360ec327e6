"""One command for a machine with a GPU: is every kernel right to the bit, and how fast is it?

    python -m bench.gpu_check [--json FILE] [--small]

Every kernel is compared with numpy on real and fuzzed rows; a kernel whose bits differ gets no time. The chain is captured in a
CUDA graph and replayed on other inputs. Times are by CUDA events, for one and four requests, sparse and dense, beside the floor
(bytes over the measured copy bandwidth) and torch's softmax + multinomial of the same rows. Exit status 1 if any bits differ.
Without a GPU it runs the same checks at small sizes, if Triton's interpreter was switched on before Python started.
"""

from __future__ import annotations

import argparse
import json
import platform
import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

from pp1wire.errors import PP1Error
from pp1wire.sampling.cuda import Inbox, Outbox
from pp1wire.sampling.cuda.backend import DeviceBackend, make_backend

from . import gpu_cases as cases

_REQUESTS = (1, 4)


class Watch:
    """Which kernels a backend launches, and on request how long each takes, by events around each launch."""

    def __init__(self, backend: Any, timed: bool = False) -> None:
        self._backend, self._launch, self._timed = backend, backend._launch, timed
        self._seen: set[str] = set()
        self._events: dict[str, list[tuple[Any, Any]]] = {}
        backend._launch = self

    def __call__(self, kernel: Any, grid: tuple[int, ...], *args: Any, **constants: Any) -> None:
        name = kernel.fn.__name__
        self._seen.add(name)
        if not self._timed:
            self._launch(kernel, grid, *args, **constants)
            return
        start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        start.record()
        self._launch(kernel, grid, *args, **constants)
        end.record()
        self._events.setdefault(name, []).append((start, end))

    def take(self) -> set[str]:
        """The kernels seen since the last call."""
        seen, self._seen = self._seen, set()
        return seen

    def stop(self) -> dict[str, float]:
        """Let the backend go; the median microseconds of a launch, by kernel."""
        self._backend._launch = self._launch
        if self._events:
            torch.cuda.synchronize()
        return {n: statistics.median(a.elapsed_time(b) for a, b in pairs) * 1e3 for n, pairs in self._events.items()}


class Check:
    """One run: its rows, and whether everything agreed."""

    def __init__(self, small: bool) -> None:
        self.cuda = torch.cuda.is_available()
        self.device = "cuda" if self.cuda else "cpu"
        self.sizes = cases.SMALL if small or not self.cuda else cases.LARGE
        self.rows: list[dict[str, Any]] = []
        self.kernels: dict[str, dict[str, Any]] = {}

    def row(self, name: str, bits: bool | None, microseconds: float | None = None, **notes: Any) -> None:
        """A row of the table: its time is dropped if its bits differ."""
        shown = microseconds if bits is not False else None
        self.rows.append({"name": name, "bits": bits, "microseconds": shown, **(notes if bits is not False else {})})
        text = {True: "equal", False: "DIFFER", None: "-"}[bits]
        extra = "  ".join(f"{key} {value:.4g}" for key, value in notes.items()) if bits is not False else ""
        print(f"{name:44} {text:7} {'' if shown is None else f'{shown:10.1f} us'}  {extra}", flush=True)

    def time(self, call: Callable[[], object]) -> float:
        """Median microseconds of a call: by events on a GPU, by the clock otherwise (that is no speed of a kernel)."""
        samples = []
        for _ in range(self.sizes.repeats + 1):
            if self.cuda:
                start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
                torch.cuda.synchronize()
                start.record()
                call()
                end.record()
                torch.cuda.synchronize()
                samples.append(start.elapsed_time(end) * 1e3)
            else:
                begin = time.perf_counter()
                call()
                samples.append((time.perf_counter() - begin) * 1e6)
        return statistics.median(samples[1:] or samples)

    def operations(self) -> list[tuple[str, Callable[[DeviceBackend], bool]]]:
        """What is compared, on either backend."""
        sizes = self.sizes
        return [
            ("counts and token, dense", lambda b: cases.rows_agree(b, sizes, sparse=False)),
            ("counts and token, sparse", lambda b: cases.rows_agree(b, sizes, sparse=True)),
            ("token of a given ticket", lambda b: cases.tickets_agree(b, sizes)),
            ("target from logits", lambda b: cases.grids_agree(b, sizes, probabilities=False)),
            ("target from probabilities", lambda b: cases.grids_agree(b, sizes, probabilities=True)),
            ("verification, sparse", lambda b: cases.verdicts_agree(b, sizes, sparse=True)),
            ("verification, dense", lambda b: cases.verdicts_agree(b, sizes, sparse=False)),
        ]

    def compare(self) -> None:
        """Every operation of both backends; for Triton, each kernel's bits are those of all operations that launch it."""
        for name in ("torch", "triton"):
            backend = make_backend(name, torch.empty(0, device=self.device).device)
            watch = Watch(backend) if name == "triton" else None
            for title, agrees in self.operations():
                bits = agrees(backend)
                self.row(f"{name}: {title}", bits)
                for kernel in watch.take() if watch else ():
                    self.kernels.setdefault(kernel, {"bits": True})["bits"] &= bits
            for sparse in (True, False):
                title = f"{name}: row checks, {'sparse' if sparse else 'dense'}"
                bits = cases.checks_agree(name, self.device, self.sizes, sparse)
                self.row(title, bits)
                if watch:
                    for kernel in ("check_sparse",) if sparse else ("check_dense", "close_dense"):
                        self.kernels.setdefault(kernel, {"bits": True})["bits"] &= bits
            if watch:
                watch.stop()
        self.row("torch: bounded draws", cases.draws_agree(torch.device(self.device)))

    def time_kernels(self, backend: Any, requests: int, call: Callable[[], object]) -> None:
        """Microseconds a launch of each Triton kernel that `call` launches, at full size, of four requests."""
        if not self.cuda or backend.name != "triton" or requests != _REQUESTS[-1]:
            return
        call()
        watch = Watch(backend, timed=True)
        for _ in range(10):
            call()
        for kernel, microseconds in watch.stop().items():
            if self.kernels[kernel]["bits"]:
                self.kernels[kernel]["microseconds"] = microseconds

    def bandwidth(self) -> float:
        """Bytes a second of a device copy, reads and writes counted."""
        size = (1 << 28) if self.cuda else (1 << 22)
        a, b = (torch.zeros(size, dtype=torch.uint8, device=self.device) for _ in range(2))
        rate = 2 * size / (self.time(lambda: b.copy_(a)) * 1e-6)
        self.row("copy bandwidth", None, None, GB_per_s=rate / 1e9)
        return rate

    def chains(self) -> None:
        """Whole chains: bits, eager and from a graph, times, staging and validation."""
        rate = self.bandwidth()
        for name in ("torch", "triton"):
            for sparse in (True, False):
                for requests in _REQUESTS if self.cuda else _REQUESTS[:1]:
                    self.chain(name, sparse, requests, rate)

    def chain(self, name: str, sparse: bool, requests: int, rate: float) -> None:
        """One shape of chain on one backend."""
        title = f"{name}: chain, {'k=32' if sparse else 'dense'}, {requests} request{'s' * (requests > 1)}"
        sampler, factors = cases.chain_sampler(name, self.device, self.sizes, requests, sparse)
        logits, keys = cases.load_chain(sampler, 20)
        sampler.run()
        bits = cases.chain_agrees(sampler, factors, logits, keys)
        rows, columns = requests * self.sizes.depth, sampler.plan.columns
        # Logits and bias must be read, and the payload written, whatever the algorithm.
        floor = (8 * self.sizes.vocabulary + (8 if sparse else 4) * columns) * rows / rate * 1e6
        flat = sampler.logits.view(rows, -1)
        softmax = self.time(lambda: torch.multinomial(torch.softmax(flat, 1), 1))
        self.row(title, bits, self.time(sampler.run), floor_us=floor, softmax_multinomial_us=softmax)
        self.time_kernels(sampler.backend, requests, sampler.run)
        if self.cuda:
            sampler.capture()
            logits, keys = cases.load_chain(sampler, 21)
            sampler.replay()
            torch.cuda.synchronize()
            bits = cases.chain_agrees(sampler, factors, logits, keys)
            self.row(f"{title}, graph", bits, self.time(sampler.replay), floor_us=floor, softmax_multinomial_us=softmax)
        self.staging(title, sampler, keys, bits)
        if requests == 1 or self.cuda:
            self.verification(name, sparse, requests)

    def staging(self, title: str, sampler: Any, keys: list[Any], bits: bool) -> None:
        """Device to host, host to device, and the strict checks."""
        box = Outbox(sampler)
        self.row(f"{title}, to the host", bits, self.time(box.send), MB=sampler.frames.numel() / 1e6)
        frames = box.wait().copy().reshape(-1)
        plan = sampler.plan
        inbox = Inbox(plan.layout, plan.requests, plan.depth, plan.vocabulary, sampler.backend.name, self.device)

        def receive() -> None:
            inbox.receive(frames, keys)
            inbox.release()

        copy = self.time(lambda: inbox._frames.copy_(inbox._host, non_blocking=True))
        self.row(f"{title}, to the device", bits, copy)
        whole = self.time(receive)
        inbox.receive(frames, keys)
        inbox.wait()
        inbox.release()
        self.row(f"{title}, receive and validate", bits, whole)
        self.time_kernels(inbox._backend, plan.requests, receive)

    def verification(self, name: str, sparse: bool, requests: int) -> None:
        """Verdicts of whole chains, from probabilities already on the grid."""
        backend = make_backend(name, torch.empty(0, device=self.device).device)
        chains = [cases.proposal(self.sizes, sparse, seed) for seed in range(requests)]
        grid, totals, faults, ids, counts, tokens, keys = cases.verify_inputs(backend, chains, sparse)
        known = next(
            row["bits"]
            for row in self.rows
            if row["name"] == f"{name}: verification, {'sparse' if sparse else 'dense'}"
        )

        def verify() -> object:
            return backend.verify(grid, totals, faults, ids if sparse else None, counts, tokens, keys)

        took = self.time(verify)
        self.time_kernels(backend, requests, verify)
        self.row(
            f"{name}: verify, {'k=32' if sparse else 'dense'}, {requests} request{'s' * (requests > 1)}", known, took
        )

    def report(self) -> dict[str, Any]:
        """Everything, for a file."""
        import triton

        device = torch.cuda.get_device_name() if self.cuda else platform.machine()
        return {
            "device": device,
            "capability": list(torch.cuda.get_device_capability()) if self.cuda else None,
            "interpreted": not self.cuda,
            "torch": torch.__version__,
            "triton": triton.__version__,
            "python": platform.python_version(),
            "vocabulary": self.sizes.vocabulary,
            "depth": self.sizes.depth,
            "rows": self.rows,
            "kernels": self.kernels,
        }

    @property
    def good(self) -> bool:
        """Whether no bits differ anywhere."""
        return all(row["bits"] is not False for row in self.rows) and all(k["bits"] for k in self.kernels.values())


def main(arguments: list[str] | None = None) -> int:
    """Run the check; exit status 0 if all bits are equal, 1 if not, 2 if nothing could be run."""
    parser = argparse.ArgumentParser(prog="python -m bench.gpu_check", description=__doc__.split("\n")[0])
    parser.add_argument("--json", type=Path, help="where to write the results (bench/results/ keeps those of GPUs)")
    parser.add_argument("--small", action="store_true", help="small sizes, as without a GPU")
    options = parser.parse_args(arguments)
    check = Check(options.small)
    if not check.cuda:
        print("no GPU: kernels are interpreted, and times say nothing of a GPU")
    begin = time.perf_counter()
    try:
        check.compare()
        check.chains()
    except PP1Error as error:
        print(f"gpu_check: {error}", file=sys.stderr)
        return 2
    for name, kernel in sorted(check.kernels.items()):
        took = f"{kernel['microseconds']:10.1f} us" if "microseconds" in kernel else ""
        print(f"kernel {name:37} {'equal' if kernel['bits'] else 'DIFFER':7} {took}")
    verdict = "all bits are equal" if check.good else "BITS DIFFER"
    print(f"{verdict}, {time.perf_counter() - begin:.0f} s on {check.report()['device']}")
    if options.json:
        options.json.write_text(json.dumps(check.report(), indent=1) + "\n", encoding="utf-8")
    return 0 if check.good else 1


if __name__ == "__main__":
    sys.exit(main())
