"""What it costs to hear of answers while they grow, which every run does unless its recipe says otherwise.

A server on the loopback interface streams answers of 1,000 ids as SGLang does (all ids so far in each event) and as
vLLM does (new ids). draftmill asks for few events and journals beginnings every second; the bare loop asks SGLang for
an event every 16 tokens and writes the last one. The first wave of answers, before which no speed is known, is not
measured. CPU is user + system time of the client's process; what an idle client takes (it syncs and samples) is in it,
which shows where few answers share it.

In the rows of 10,000 ids time runs ten times as fast, so that they end: 1,000 tokens a second, a checkpoint every
0.1 s.

Usage: bench_streaming.py [TOKENS_A_SECOND]
"""

import sys

import clients
import loopback

AT_ONCE = (64, 512, 2000)
WHOLE, NAMES = "draftmill", ("draftmill, streamed", "vLLM, streamed", "bare, streamed")
MANY = 4000  # requests that are answered at once, for comparison


def row(url: str, name: str, at_once: int, length: int, checkpoint: float = 1.0) -> None:
    warm = 0 if name == WHOLE or name.startswith("bare") else at_once
    count = MANY if name == WHOLE else at_once + warm
    cost = clients.measured(name, url, count, at_once, warm, checkpoint)
    each = 1e6 * cost.cpu / (count - warm)
    rate = (count - warm) * length / cost.wall
    print(
        f"{length:>8,}{at_once:>9}  {name:<20}{each / 1000:>18.2f}{each / length:>12.2f}{cost.cpu / cost.wall:>7.2f}"
        f"{rate:>12,.0f}{cost.mib:>6.0f}",
        flush=True,
    )


def main(speed: float) -> None:
    head = f"{'CPU ms a request':>18}{'µs a token':>12}{'cores':>7}{'tokens/s':>12}{'MiB':>6}"
    print(f"{'ids':>8}{'at once':>9}  {'client':<20}{head}")
    with loopback.running(1000, speed) as url:
        for at_once in AT_ONCE:
            for name in (WHOLE, *NAMES):
                row(url, name, at_once, 1000)
    with loopback.running(10_000, 1000.0) as url:
        for name in (WHOLE, *NAMES):
            row(url, name, AT_ONCE[0], 10_000, 0.1)


if __name__ == "__main__":
    main(float(sys.argv[1]) if sys.argv[1:] else 100.0)
