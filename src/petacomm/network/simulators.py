"""The packet simulator of a machine on any network that has one."""

from __future__ import annotations

from petacomm.base.errors import ConfigError, require_known
from petacomm.network.hardware import make_hardware
from petacomm.network.packets import PacketSimulator, RouterPolicy
from petacomm.network.routing import SWITCH_ROUTINGS, network_routing
from petacomm.network.switch_hardware import make_switch_hardware
from petacomm.network.switch_packets import SwitchSimulator
from petacomm.topology import Machine, Network, Torus, full_network


def make_simulator(
    network: Network,
    machine: Machine,
    policy: RouterPolicy | str | None = None,
    routing: str | None = None,
    seed: int = 1,
) -> PacketSimulator | SwitchSimulator:
    """Return the packet simulator of a network with the hardware in a machine's file.

    Parameters
    ----------
    network : Network
        A whole torus or mesh; or a network of switches, or an allocation of its nodes.
    machine : Machine
        Its table `network` has the parameters.
    policy : RouterPolicy or str, optional
        Policy of the routers of a torus, by default ``transit-first``.
    routing : str, optional
        Routing on a network of switches, one of those of `SwitchSimulator`; by default that of the
        machine's file, or ``minimal`` where it names none or there is no third group.
    seed : int

    Returns
    -------
    PacketSimulator or SwitchSimulator

    Raises
    ------
    ConfigError
        If there is no simulator of the network, its file lacks a number, or a policy or routing is given
        that does not concern it.

    Examples
    --------
    >>> import petacomm
    >>> from petacomm.network import make_simulator
    >>> make_simulator(petacomm.Torus((4, 4, 2)), petacomm.load_machine("bluegene-l")).seed
    1
    """
    if isinstance(network, Torus):
        if routing is not None:
            raise ConfigError(f"routing '{routing}' of packets on a torus", mend="choose a policy instead")
        return PacketSimulator(network, make_hardware(machine), policy or "transit-first", seed)
    if isinstance(full_network(network)[1], Torus):
        raise ConfigError("packets need a whole torus or mesh", mend="leave the simulation out")
    if policy is not None:
        raise ConfigError("a policy of routers without a torus or mesh", mend="choose a routing instead")
    if routing is not None:
        require_known("unknown routing", routing, SWITCH_ROUTINGS)
    hardware = make_switch_hardware(machine)
    return SwitchSimulator(network, hardware, routing or network_routing(machine, network), seed)
