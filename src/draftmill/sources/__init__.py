"""Every dataset format, local or on the hub, as conversations in one canonical form."""

from draftmill.sources.source import Source, open_source

__all__ = ["Source", "open_source"]
