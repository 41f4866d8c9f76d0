"""Write a copy of a GGUF file with its matrices in another type: F32 (exact), F16, BF16, Q8_0, Q4_0 …

Usage: retype_gguf.py SOURCE.gguf OUT.gguf [TYPE [MOVED]]     (F32 0)

MOVED gives a neighbour of the model: every weight is multiplied by 1 plus noise of this standard deviation.
"""

import pathlib
import sys

from draftmill.engines.retype import retype

if __name__ == "__main__":
    source, out, *rest = sys.argv[1:]
    retype(pathlib.Path(source), pathlib.Path(out), *rest[:1], *map(float, rest[1:]))
