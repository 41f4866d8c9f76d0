"""Start SGLang's server beside a CPU torch.

Defines the torchvision schemas whose C operators a CPU build lacks, then runs the server as usual.
"""

import os

import torch

_lib = torch.library.Library("torchvision", "DEF")  # at module level: spawned children import this file too
for _name in ("nms", "qnms"):
    _lib.define(_name + "(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")

if __name__ == "__main__":
    import sys

    from sglang.launch_server import run_server
    from sglang.srt.server_args import prepare_server_args
    from sglang.srt.utils import kill_process_tree

    try:
        run_server(prepare_server_args(sys.argv[1:]))
    finally:
        kill_process_tree(os.getpid(), include_parent=False)
