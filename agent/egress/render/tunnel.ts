import { OWN_NETWORK } from '../../../apis/egress/netstate.ts';
import type { TunnelEnd } from '../../../apis/egress/node-egress.ts';
import { EGRESS_TUNNEL_PORT } from '../../../apis/exemptions.ts';
import type { Family } from '../../../lib/net/address.ts';
import { familyOf } from '../../../lib/net/address.ts';

/** The tunnel's device: VXLAN between the Nodes' addresses. */
export const TUNNEL = { link: 'nodewall-egress', id: 7412, port: EGRESS_TUNNEL_PORT } as const;

/**
 * UDP inside the tunnel, between agents: which addresses pods have that start (agent/egress/pods).
 */
export const CLAIM_PORT = 7791;

/**
 * An IPv4 address that the device has on every node. It is never sent anywhere, but the kernel
 * drops IPv4 packets that come by a device without any address where rp_filter is on
 * (fib_validate_source).
 */
export const TUNNEL_ADDRESS = '169.254.74.12';

/** The MTU of the interface that carries the tunnel, where it is not known. */
export const USUAL_MTU = 1500;

/** The WireGuard device that carries it, where it is encrypted. */
export const WIREGUARD_TUNNEL = { link: 'nodewall-wg', ...OWN_NETWORK.wireguard } as const;

/** Outer headers in bytes: Ethernet, IP, UDP, VXLAN, without the outer Ethernet header. */
const OVERHEAD: Readonly<Record<Family, number>> = { 4: 50, 6: 70 };
/** IP, UDP, and WireGuard's own header and authentication. */
const WIREGUARD_OVERHEAD: Readonly<Record<Family, number>> = { 4: 60, 6: 80 };

type Carried = Pick<TunnelEnd, 'address' | 'mac' | 'key'>;

export function isEncrypted({ key }: Pick<TunnelEnd, 'key'>): boolean {
  return key !== undefined;
}

/** The address of the tunnel's outer packets: the Node's, or that of its WireGuard device. */
export function outerAddress(end: Carried): string {
  return isEncrypted(end) ? wireguardAddress(end.mac) : end.address;
}

/** The device's MTU, by the MTU of the interface with the Node's address. */
export function tunnelMtu(end: Carried, underlay: number): number {
  const carrier = isEncrypted(end) ? wireguardMtu(end, underlay) : underlay;
  return carrier - OVERHEAD[familyOf(outerAddress(end))];
}

export function wireguardMtu({ address }: Pick<TunnelEnd, 'address'>, underlay: number): number {
  return underlay - WIREGUARD_OVERHEAD[familyOf(address)];
}

/** A device with a smaller MTU has no IPv6 (RFC 8200), by which the tunnel addresses nodes. */
const LEAST_MTU = 1280;

/** The least MTU of the interface with the Node's address that lets the tunnel be. */
export function leastUnderlayMtu(end: Carried): number {
  return LEAST_MTU - tunnelMtu(end, 0);
}

/** The address of a node's WireGuard device, which its MAC in the tunnel gives. */
function wireguardAddress(mac: string): string {
  return linkLocal(mac).replace('fe80::', `${WIREGUARD_TUNNEL.network}:`);
}

/** The IPv6 link-local address of an interface with this MAC (RFC 4291 appendix A). */
export function linkLocal(mac: string): string {
  const [a = 0, b = 0, c = 0, d = 0, e = 0, f = 0] = mac.split(':').map((byte) => Number.parseInt(byte, 16));
  const groups = [((a ^ 2) << 8) | b, (c << 8) | 0xff, 0xfe00 | d, (e << 8) | f];
  return `fe80::${groups.map((group) => group.toString(16)).join(':')}`;
}
