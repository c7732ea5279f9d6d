import type { TunnelEnd } from '../../../apis/egress/node-egress.ts';
import { EGRESS_TUNNEL_PORT } from '../../../apis/exemptions.ts';
import type { Family } from '../../../lib/net/address.ts';

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

/** Outer headers in bytes: Ethernet, IP, UDP, VXLAN, without the outer Ethernet header. */
const OVERHEAD: Readonly<Record<Family, number>> = { 4: 50, 6: 70 };

/** The device's MTU, by the MTU of the interface that carries the tunnel. */
export function tunnelMtu({ address }: Pick<TunnelEnd, 'address'>, underlay: number): number {
  return underlay - OVERHEAD[address.includes(':') ? 6 : 4];
}

/** The IPv6 link-local address of an interface with this MAC (RFC 4291 appendix A). */
export function linkLocal(mac: string): string {
  const [a = 0, b = 0, c = 0, d = 0, e = 0, f = 0] = mac.split(':').map((byte) => Number.parseInt(byte, 16));
  const groups = [((a ^ 2) << 8) | b, (c << 8) | 0xff, 0xfe00 | d, (e << 8) | f];
  return `fe80::${groups.map((group) => group.toString(16)).join(':')}`;
}
