"""A simulated SGLang server: the scheduler as a model, in process or over HTTP, in real or in virtual time."""

from draftmill.capacity.speed import Speed
from draftmill.engines.simulated.answers import Answer, Answers, Draw, Lengths
from draftmill.engines.simulated.engine import SimulatedEngine
from draftmill.engines.simulated.host import Host
from draftmill.engines.simulated.passes import Counters
from draftmill.engines.simulated.spec import ServerSpec
from draftmill.engines.simulated.trouble import Kind, Trouble, storm

__all__ = [
    "Answer",
    "Answers",
    "Counters",
    "Draw",
    "Host",
    "Kind",
    "Lengths",
    "ServerSpec",
    "SimulatedEngine",
    "Speed",
    "Trouble",
    "storm",
]
