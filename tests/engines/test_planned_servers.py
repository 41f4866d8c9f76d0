"""The KV tokens of real vLLM and SGLang servers on the CPU against what a plan says of them before they start.

``scripts/engines/test_engines.sh`` runs this; each server is started three times and ended once its log tells.
"""

import os
import re
import signal
import socket
import subprocess
import time
from pathlib import Path

import pytest

from draftmill import recipe as recipes
from draftmill.capacity.kv import cell
from draftmill.capacity.pool import Memory, Start, calibrate
from draftmill.cli.plan import gather
from draftmill.plan.sheet import draw
from tests.capacity import models
from tests.cli.command import write_recipe

pytestmark = pytest.mark.engine

ROOT = Path(__file__).parents[2]
ENGINES = Path(os.environ.get("DRAFTMILL_ENGINES", ROOT / ".engines"))
SCRIPTS = ROOT / "scripts" / "engines"
MODEL = ENGINES / "smollm2" / "bf16"
START_SECONDS = 300.0
GIB = 2**30


def told(log: Path, script: str, *arguments: str, says: str, **environment: str) -> str:
    """What a server writes to its log once it has its KV cache. Its whole process group is ended then."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    engine = script.removeprefix("start_").removesuffix(".sh")
    own = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"} | environment
    with log.open("wb") as out:
        server = subprocess.Popen(
            [SCRIPTS / script, ENGINES / engine, MODEL, str(port), *arguments],
            stdout=out,
            stderr=out,
            start_new_session=True,
            env=own,
        )
    try:
        until = time.monotonic() + START_SECONDS
        while not re.search(says, text := log.read_text(errors="replace")):
            assert server.poll() is None, text[-3000:]
            assert time.monotonic() < until, f"{engine} does not tell: {text[-1000:]}"
            time.sleep(0.3)
        return text
    finally:
        os.killpg(server.pid, signal.SIGKILL)
        server.wait()


@pytest.mark.parametrize("space", [1, 2, 3])
def test_vllm(tmp_path: Path, space: int) -> None:
    plan = {"engine": "vllm", "kv_space": f"{space}GiB", "context": 2048}
    path = write_recipe(
        tmp_path / "r.yaml",
        model=str(MODEL),
        engines=["http://127.0.0.1:9"],
        datasets=[{"name": "a", "source": "x", "samples": 10}],
        plan=plan,
    )
    loaded = recipes.load(path)
    facts, wanted = gather(loaded, tmp_path, tmp_path / "run")
    sheet = draw(loaded.plan, facts, wanted)
    assert f"VLLM_CPU_KVCACHE_SPACE={space}" in sheet.launch[0]
    says = r"KV cache size: ([0-9,]+) tokens"
    text = told(tmp_path / "log", "start_vllm.sh", says=says, VLLM_CPU_KVCACHE_SPACE=str(space))
    match = re.search(says, text)
    assert match and sheet.tokens == pytest.approx(int(match[1].replace(",", "")), rel=0.01)


def test_sglang_calibrated_on_one_start(tmp_path: Path) -> None:
    """On a CPU the free memory is the host's, which others use too: each start's own look at it is taken."""
    each = cell(models.shape("smollm2-135m"), "bf16")
    loaded: float | None = None
    for fraction in (0.25, 0.3, 0.4):
        text = told(
            tmp_path / "log",
            "start_sglang.sh",
            "--mem-fraction-static",
            str(fraction),
            says=r"max_total_num_tokens=\d+",
            SGLANG_LIMIT="",
        )
        tokens = int(re.findall(r"max_total_num_tokens=(\d+)", text)[0])
        free = float(re.findall(r"Load weight begin. avail mem=([0-9.]+)", text)[0]) * GIB
        if loaded is None:
            loaded = calibrate([Start(fraction, tokens, float(each))], free=free).loaded
        else:
            assert Memory(free, loaded).tokens(fraction, each) == pytest.approx(tokens, rel=0.03)
