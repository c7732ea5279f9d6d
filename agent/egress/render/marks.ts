/**
 * The bits of a packet's mark and of its connection's mark that egress gateways use. On a source
 * node they hold a slot's number, on a gateway GATEWAY and a take's number. Chosen beside the marks
 * of kube-proxy, Calico, Cilium and others (ADR 19).
 */
export const MARK_MASK = 0x7f000000;
/** All other bits. */
export const OTHER_BITS = 0x80ffffff;
/** The connection is translated by this node. */
export const GATEWAY = 0x40000000;
/** A slot's or a take's number. */
export const NUMBER_MASK = 0x3f000000;

/**
 * The connection was ended (`nodewall egress reset`): no take has the number 0, so that its next
 * packet is that of a connection whose way is gone.
 */
export const ENDED = GATEWAY;

/**
 * Packets alone have it: a process may send them into the tunnel. The outer packet inherits it,
 * which shows that the tunnel made it. No slot or take has the number, so no way is chosen by it;
 * without CAP_NET_ADMIN or CAP_NET_RAW nobody can give a packet a mark.
 */
export const SENT = GATEWAY;

const SHIFT = 24;

export function slotMark(slot: number): number {
  return slot << SHIFT;
}

export function takeMark(take: number): number {
  return GATEWAY | (take << SHIFT);
}
