"""A made-up GPU fleet that behaves like a real one, and the truth about it.

The same seed gives the same bytes on any machine: every draw is a hash of what it is for, and all
arithmetic is on integers. Data flows one way: fleet and schedule, faults, physics, then rendering.
"""

from nexus.streamer.simulator.config import FAULT_KINDS, SimulatorConfig, SimulatorError
from nexus.streamer.simulator.simulation import Simulation, Span

__all__ = ["FAULT_KINDS", "Simulation", "SimulatorConfig", "SimulatorError", "Span"]
