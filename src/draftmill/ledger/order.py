"""The identity and the order of a dataset's conversations.

Both are hashes of content, so they survive a reordered or filtered file, and the first N of the order are the same N
however many are asked for.
"""

import hashlib

import msgspec

from draftmill.records import Conversation

ID_BYTES = 16

_encode = msgspec.json.Encoder(order="sorted").encode


def canonical(content: Conversation | tuple[list[int], list[int]]) -> bytes:
    """One spelling for equal conversations, or for equal (ids, mask): sorted keys, no white space."""
    if not isinstance(content, Conversation):
        return _encode(content)
    later = {"later": content.later} if content.later else {}
    return _encode({"messages": content.messages, "tools": content.tools, **later})


def conversation_id(dataset: str, conversation: bytes, occurrence: int) -> str:
    """The id of the ``occurrence``-th time (from 0) that a dataset holds a canonical conversation: 32 hex digits."""
    key = b"%s\0%d\0%s" % (dataset.encode(), occurrence, conversation)
    return hashlib.blake2b(key, digest_size=ID_BYTES).hexdigest()


def rank(seed: int, id: str) -> int:
    """Where an id stands in its dataset's order: the lower, the earlier. Below 2**64."""
    return int.from_bytes(hashlib.blake2b(b"%d\0%s" % (seed, id.encode()), digest_size=8).digest())
