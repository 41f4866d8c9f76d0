"""A simulated SGLang server on a port of this machine: ``python -m draftmill.engines.simulated --port 30000``."""

import argparse
import asyncio

from draftmill.engines.simulated import Answers, Draw, Host, Lengths, ServerSpec, Speed, storm
from draftmill.engines.simulated.http import HttpServer

_A_DAY = 86_400.0


def main() -> None:
    options = _options()
    try:
        asyncio.run(_serve(options))
    except KeyboardInterrupt:
        pass


async def _serve(options: argparse.Namespace) -> None:
    spec = ServerSpec(
        kv_tokens=options.kv_tokens,
        speed=Speed(options.base, options.per_sequence),
        prefill_rate=options.prefill_rate,
        context=options.context,
        max_running=options.max_running,
        max_queued=options.max_queued,
        restart=options.restart,
        prefix_cache=True,
    )
    answers = Answers(
        Lengths(options.mean, options.sigma), draw=Draw[options.draw.upper()], vocab_size=options.vocab_size
    )
    troubles = storm(options.seed, until=_A_DAY, every=options.trouble_every) if options.trouble_every else []
    server = HttpServer(Host(spec, answers, troubles))
    print(f"serving on {await server.start(options.port)}", flush=True)
    try:
        await asyncio.Event().wait()
    finally:
        await server.close()


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="draftmill.engines.simulated", description=__doc__)
    add = parser.add_argument
    add("--port", type=int, default=30_000, help="0: a free one, which is printed")
    add("--kv-tokens", type=int, default=159_277, help="size of the KV pool")
    add("--base", type=float, default=0.0415, help="seconds of a decode step, without")
    add("--per-sequence", type=float, default=0.00044, help="seconds that each running sequence adds to it")
    add("--prefill-rate", type=float, default=12_000.0, help="prompt tokens a second")
    add("--context", type=int, default=262_144)
    add("--max-running", type=int, default=2048)
    add("--max-queued", type=int, default=None)
    add("--restart", type=float, default=None, help="seconds until it is back after it died of a prefill peak")
    add("--mean", type=float, default=200.0, help="mean length of an answer, before the limit cuts it")
    add("--sigma", type=float, default=0.9)
    add("--vocab-size", type=int, default=1000)
    add("--draw", choices=[d.name.lower() for d in Draw], default="never", help="what gives a prompt another answer")
    add("--trouble-every", type=float, default=0.0, help="seconds between random troubles; 0: none")
    add("--seed", type=int, default=0, help="of the random troubles")
    return parser.parse_args()


if __name__ == "__main__":
    main()
