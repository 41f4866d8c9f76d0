"""Every dataset format, local or on the hub, as conversations in one canonical form."""

from draftmill.sources.source import Source, changed_since, open_source

__all__ = ["Source", "changed_since", "open_source"]
