"""Parquet files as a stream of rows, a batch at a time."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from draftmill.errors import SourceError
from draftmill.records import Where
from draftmill.sources.lines import Reading

_BATCH_ROWS = 256  # small: a row of an agent trajectory can hold a megabyte


def read(path: Path) -> Iterator[Reading]:
    """The rows of a Parquet file, counted from 1. A damaged row group costs its own rows, each with the reason."""
    import pyarrow
    from pyarrow.parquet import ParquetFile

    name, done = str(path), 0
    try:
        file = ParquetFile(path)
    except pyarrow.ArrowInvalid as error:
        message = f"{path}: not a whole Parquet file: {_first_line(error)}"
        raise SourceError(message, "it may have been cut short: copy it again") from None
    with file:
        for group in range(file.num_row_groups):
            end = done + file.metadata.row_group(group).num_rows
            try:
                for batch in file.iter_batches(_BATCH_ROWS, row_groups=[group]):
                    for row in batch.to_pylist(maps_as_pydicts="lossy"):
                        done += 1
                        yield Where(name, done), without_nulls(row)
            except (pyarrow.ArrowException, OSError, UnicodeDecodeError) as error:
                reason = f"row group {group + 1} of the Parquet file is damaged: {_first_line(error)}"
                for number in range(done + 1, end + 1):
                    yield Where(name, number), reason
            done = end


def without_nulls(item: Any) -> Any:
    """A value from Arrow without the null fields of its structs.

    Arrow gives every struct of a column the same fields and fills those that a row lacked with null, so that null
    says "absent" here: a message that came without ``tool_calls`` must not get them by being stored as Parquet.
    """
    if isinstance(item, dict):
        return {key: without_nulls(value) for key, value in item.items() if value is not None}
    if isinstance(item, list):
        return [without_nulls(value) for value in item]
    return item


def _first_line(error: BaseException) -> str:
    return (str(error).splitlines() or [type(error).__name__])[0]
