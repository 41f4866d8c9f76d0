"""Write a copy of a GGUF file with its matrices in another type: F32 (exact), F16, BF16, Q8_0, Q4_0 …

Usage: retype_gguf.py SOURCE.gguf OUT.gguf [TYPE [MOVED]]     (F32 0)

MOVED gives a neighbour of the model: every weight is multiplied by 1 plus noise of this standard deviation.
"""

import pathlib
import sys

import gguf
import numpy
from gguf import GGMLQuantizationType, GGUFReader, GGUFValueType, GGUFWriter, Keys

FILE_TYPES = {"F32": 0, "F16": 1, "Q4_0": 2, "Q4_1": 3, "Q8_0": 7, "Q5_0": 8, "Q5_1": 9, "BF16": 32}


def retype(source: pathlib.Path, out: pathlib.Path, name: str = "F32", moved: float = 0.0) -> None:
    """One-dimensional tensors (norms) stay as they are, as in every conversion. ``out`` is whole once it is there."""
    kind = GGMLQuantizationType[name]
    reader = GGUFReader(source)
    noise = numpy.random.default_rng(0)
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
        exact = gguf.dequantize(tensor.data, tensor.tensor_type).astype(numpy.float32)
        if moved:
            exact *= 1 + moved * noise.standard_normal(exact.shape, dtype=numpy.float32)
        writer.add_tensor(tensor.name, gguf.quantize(exact, kind), raw_dtype=kind)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    part.replace(out)


if __name__ == "__main__":
    source, out, *rest = sys.argv[1:]
    retype(pathlib.Path(source), pathlib.Path(out), *rest[:1], *map(float, rest[1:]))
