"""What is wrong between the fields of a recipe, and how that is said."""

import difflib
from collections.abc import Iterator, Mapping
from typing import Any

from draftmill.recipe.count import parse_count
from draftmill.recipe.server import server_of

EMBEDDED = "embedded"
_HUB = "hf:"
_PENALTIES = ("presence_penalty", "frequency_penalty")

Fault = tuple[tuple[int | str, ...], str]  # the place in the file, and what is wrong there


class CrossFaults(ValueError):
    """Faults between fields."""

    def __init__(self, faults: list[Fault]) -> None:
        super().__init__("faults between fields")
        self.faults = faults


def cross_faults(data: Mapping[str, Any]) -> list[Fault]:
    """What is wrong between the fields of a raw recipe; whatever is malformed in itself is passed over."""
    faults: list[Fault] = []
    lanes = data.get("lanes") or {"short": {}}
    names: set[str] = set()
    for i, dataset in enumerate(as_list(data.get("datasets"))):
        if not isinstance(dataset, Mapping):
            continue
        name, lane = dataset.get("name"), dataset.get("lane") or "short"
        if isinstance(name, str):
            if name.lower() in names:  # folders of some systems do not tell a from A
                faults.append((("datasets", i, "name"), f"{name!r} is already taken by an earlier dataset"))
            names.add(name.lower())
        if isinstance(lanes, Mapping) and isinstance(lane, str) and lane not in lanes:
            faults.append((("datasets", i, "lane"), f"no lane {one_of(lane, list(lanes))}"))
        long = dataset.get("long_prompts")
        other = long.get("lane") if isinstance(long, Mapping) else None
        if isinstance(lanes, Mapping) and isinstance(other, str) and other not in lanes:
            faults.append((("datasets", i, "long_prompts", "lane"), f"no lane {one_of(other, list(lanes))}"))
        if dataset.get("subset") and not str(dataset.get("source") or _HUB).startswith(_HUB):
            faults.append((("datasets", i, "subset"), "is for hub datasets (hf:owner/name); this source is a file"))
        low, high = (_count(dataset.get(key) or data.get(key)) for key in ("min_prompt_tokens", "max_prompt_tokens"))
        if low and high and low > high:
            faults.append((("datasets", i), f"min_prompt_tokens ({low}) is above max_prompt_tokens ({high})"))
        if dataset.get("share") is not None and data.get("samples") is None:
            faults.append(
                (("datasets", i, "share"), "is of nothing: the recipe has no `samples` that it could be a part of")
            )
    if data.get("samples") is not None and not any(
        isinstance(d, Mapping) and d.get("share") is not None for d in as_list(data.get("datasets"))
    ):
        faults.append((("samples",), "is divided by `share`, and no dataset has one"))
    plan = data.get("plan")
    for field in ("prompts", "answers"):
        given = plan.get(field) if isinstance(plan, Mapping) else None
        for name in given if isinstance(given, Mapping) else ():
            if isinstance(name, str) and name.lower() not in names:
                faults.append((("plan", field, name), f"no dataset {one_of(name, sorted(names))}"))
    urls: set[str] = set()
    for i, engine in enumerate(as_list(data.get("engines"))):
        spec = as_engine(engine)
        if not isinstance(spec, Mapping):
            continue
        url = spec.get("url")
        if spec.get("kind") in (EMBEDDED, "llamacpp"):
            faults += _unsampled(data, spec["kind"])
        if isinstance(url, str):
            if server_of(url) in urls:
                faults.append((("engines", i, "url"), "is the same server as an earlier engine"))
            urls.add(server_of(url))
    return faults


def _unsampled(data: Mapping[str, Any], kind: str) -> Iterator[Fault]:
    """Penalties that llama.cpp counts over the prompt too, where vLLM and SGLang count what was generated."""
    places: list[tuple[tuple[int | str, ...], object]] = [((), data)]
    places += [(("datasets", i), dataset) for i, dataset in enumerate(as_list(data.get("datasets")))]
    for place, holder in places:
        sampling = holder.get("sampling") if isinstance(holder, Mapping) else None
        for name in _PENALTIES:
            if isinstance(sampling, Mapping) and sampling.get(name):
                why = f"llama.cpp ({kind}) counts the prompt in it, so it would sample another distribution"
                yield (*place, "sampling", name), f"{why}; leave it out, or use another engine"


def as_engine(value: object) -> object:
    """A bare word is a URL or the embedded engine, which may have options: ``embedded:kv=q8_0,slots=4``."""
    if not isinstance(value, str):
        return value
    word, _, options = value.partition(":")
    if word != EMBEDDED:
        return {"url": value}
    pairs = (option.partition("=") for option in options.split(",") if option.strip())
    return {"kind": EMBEDDED} | {key.strip(): typed.strip() for key, _, typed in pairs}


def one_of(name: str, known: list[Any]) -> str:
    """``'logn'; did you mean long?`` or what there is."""
    close = difflib.get_close_matches(name, [k for k in known if isinstance(k, str)], n=1)
    return f"{name!r}; " + (f"did you mean {close[0]}?" if close else f"there are {', '.join(map(str, known))}")


def as_list(value: object) -> list[Any]:
    return value if isinstance(value, list) else []


def _count(value: object) -> int | None:
    """A count, or None for one that is malformed, which is told elsewhere."""
    try:
        return parse_count(value)
    except ValueError:
        return None
