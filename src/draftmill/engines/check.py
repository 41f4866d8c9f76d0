"""Whether a request can be sent and whether a reply fits its request (rule 6): pure, each a reason or None."""

from collections.abc import Sequence

from draftmill import ids as numbers
from draftmill.engines.protocol import Reply, Request
from draftmill.records import Finish


def check_request(request: Request, vocab_size: int | None = None) -> str | None:
    """Why no engine must see this request. SGLang looks up any id unchecked, and a wrong one can end the server."""
    ids = request.prompt_ids
    if not ids:
        return "the prompt is empty"
    if not numbers.are_ids(ids):
        return f"the prompt holds the id {min(ids) if min(ids) < 0 else max(ids)}"
    if vocab_size is not None and max(ids) >= vocab_size:
        return f"the prompt holds the id {max(ids)}, beyond the vocabulary of {vocab_size}"
    if request.limit < 1:
        return f"the token limit is {request.limit}"
    return None


def check_beginning(request: Request, ids: Sequence[int], known: int, vocab_size: int) -> str | None:
    """Why the ids of a growing answer cannot be believed, or None. The first ``known`` of them were checked before."""
    new = ids[known:]
    if len(ids) > request.limit:
        return f"{len(ids)} ids were generated, {request.limit} are the limit"
    return _check_ids(new, len(new), set(request.stop_ids), vocab_size)


def check_reply(request: Request, reply: Reply, vocab_size: int) -> str | None:
    """Why a reply cannot be believed, or None.

    A stop id as the very last of exactly ``limit`` ids fits both ways of ending. SGLang, vLLM and llama.cpp all call it
    a stop, as seen on real servers; one that calls it the limit has returned the same ids.
    """
    out, limit, stops = reply.output_ids, request.limit, set(request.stop_ids)
    if reply.prompt_tokens != len(request.prompt_ids):
        return f"the server counts {reply.prompt_tokens} prompt tokens, {len(request.prompt_ids)} were sent"
    if reply.completion_tokens != len(out):
        return f"the server counts {reply.completion_tokens} completion tokens and returned {len(out)} ids"
    if reply.finish is Finish.ABORT and not out:
        return None  # ended before its first id
    if not out:
        return "no id was generated"
    if len(out) > limit:
        return f"{len(out)} ids were generated, {limit} are the limit"
    if reason := _check_ids(out, len(out) if reply.finish is Finish.ABORT else len(out) - 1, stops, vocab_size):
        return reason
    if reply.finish is Finish.STOP:
        if out[-1] not in stops:
            return f"the answer stopped at the id {out[-1]}, which is none of the stop ids {sorted(stops)}"
        if reply.matched_stop is not None and reply.matched_stop != out[-1]:
            return f"the server stopped at the id {reply.matched_stop}, the last id is {out[-1]}"
        return None
    if reply.finish is Finish.LENGTH and len(out) < limit:
        return f"the server says the limit of {limit} was met after {len(out)} ids"
    return None


def _check_ids(ids: Sequence[int], end: int, stops: set[int], vocab_size: int) -> str | None:
    """Ids of the vocabulary, and none of ``stops`` before ``end``."""
    packed = numbers.packed(ids)
    if packed is None or (packed and numbers.largest(ids, packed) >= vocab_size):
        return f"the id {min(ids) if min(ids) < 0 else max(ids)} lies outside the vocabulary of {vocab_size}"
    inside = min((numbers.first(packed, stop) for stop in stops), default=len(ids))
    if inside < end:
        return f"the stop id {ids[inside]} stands at {inside}, before the end at {len(ids) - 1}"
    return None
