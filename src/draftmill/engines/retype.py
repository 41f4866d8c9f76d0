"""A GGUF file with its matrices in another type: the target at a coarser precision, to see what that would cost.

The types are those that the ``gguf`` package can make: floats, and blocks of 32 with one scale. A file that is
quantised already is made of what it says, so nothing gets better than it is.
"""

import fcntl
import hashlib
from pathlib import Path

from draftmill.engines.small_model import cache_folder
from draftmill.errors import SetupFault

# the numbers that llama.cpp has for whole files of a type
FILE_TYPES = {"F32": 0, "F16": 1, "Q4_0": 2, "Q4_1": 3, "Q8_0": 7, "Q5_0": 8, "Q5_1": 9, "BF16": 32}


def retyped(source: Path, name: str) -> Path:
    """The path of ``source`` in this type, made once and kept in the cache. Blocks; raises SetupFault."""
    about = source.stat()
    key = f"{source.resolve()} {about.st_size} {about.st_mtime_ns}"
    folder = cache_folder()
    path = folder / f"{source.stem}.{name.upper()}-{hashlib.blake2b(key.encode(), digest_size=6).hexdigest()}.gguf"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with (folder / f"{path.name}.lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)  # a second process waits here, then finds the file
            if not path.is_file():
                retype(source, path, name.upper())
    except OSError as error:
        raise SetupFault(f"{path}: cannot be made: {error.strerror or error}") from None
    except (ValueError, NotImplementedError) as error:  # no GGUF file, or a type that cannot be taken apart
        raise SetupFault(f"{source}: cannot be made {name}: {error}", "give a file in F16, F32 or Q8_0") from None
    return path


def retype(source: Path, out: Path, name: str = "F32", moved: float = 0.0) -> None:
    """Write ``out``, which is whole once it is there. One-dimensional tensors (norms) stay as they are, as in every
    conversion. ``moved`` gives a neighbour of the model: every weight is multiplied by 1 plus noise of this standard
    deviation."""
    import gguf
    import numpy as np
    from gguf import GGMLQuantizationType, GGUFReader, GGUFValueType, GGUFWriter, Keys

    kind = GGMLQuantizationType[name]
    reader = GGUFReader(source)
    noise = np.random.default_rng(0)
    part = out.with_suffix(".part")
    writer = GGUFWriter(part, str(reader.fields[Keys.General.ARCHITECTURE].contents()))
    for field in reader.fields.values():
        if field.name.startswith("GGUF.") or field.name == Keys.General.ARCHITECTURE:
            continue  # the writer adds these itself
        value = FILE_TYPES[name] if field.name == Keys.General.FILE_TYPE else field.contents()
        sub_type = field.types[-1] if field.types[0] is GGUFValueType.ARRAY else None
        writer.add_key_value(field.name, value, field.types[0], sub_type=sub_type)
    for tensor in reader.tensors:
        if len(tensor.shape) == 1:
            writer.add_tensor(tensor.name, tensor.data)
            continue
        exact = gguf.dequantize(tensor.data, tensor.tensor_type).astype(np.float32)
        if moved:
            exact *= 1 + moved * noise.standard_normal(exact.shape, dtype=np.float32)
        writer.add_tensor(tensor.name, gguf.quantize(exact, kind), raw_dtype=kind)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    part.replace(out)
