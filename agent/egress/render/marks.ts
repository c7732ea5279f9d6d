import { packLabels } from '../../../lib/net/bytes.ts';

/**
 * The bits of a packet's mark and of its connection's mark that egress gateways use. On a source
 * node they hold a slot's number, on a gateway GATEWAY and a take's number. Chosen beside the marks
 * of kube-proxy, Calico, Cilium and others (ADR 19).
 */
export const MARK_MASK = 0x7f000000;
/** All other bits. */
export const OTHER_BITS = 0x80ffffff;
const SHIFT = 24;

/** The connection is translated by this node. */
export const GATEWAY = 0x40000000;
/** A slot's or a take's number. */
export const NUMBER_MASK = 0x3f000000;

/**
 * Labels of connections (bits 112 to 126 of 128), which others' rules do not write by accident as
 * they write marks. A connection that has a way has one label for each bit of its number and for
 * GATEWAY, which says whether the bit is set: by this the guards see that its mark was changed.
 */
const [SET, CLEAR] = [112, 119];
const LABELLED = 7;

/** One of them is there if the connection has a way. */
export const HAS_WAY: readonly number[] = [SET, CLEAR];

/**
 * Whether a connection with these labels, as the kernel keeps them, has a way: one label for each
 * bit. Others may write some of these for their own ends.
 */
export function hasWay(labels: Uint8Array): boolean {
  return WAY_PAIRS.every((pair) => pair.filter((packed) => holds(labels, packed)).length === 1);
}

const WAY_PAIRS: readonly (readonly Uint8Array[])[] = Array.from({ length: LABELLED }, (_, bit) =>
  [SET, CLEAR].map((first) => packLabels([first + bit])),
);

function holds(labels: Uint8Array, packed: Uint8Array): boolean {
  return packed.some((byte, i) => (byte & (labels[i] ?? 0)) !== 0);
}

/** The labels of a connection with this mark. */
export function labelsOf(mark: number): readonly number[] {
  return labels(mark, [CLEAR, SET]);
}

/** A connection with one of these had another mark. */
export function labelsOfOthers(mark: number): readonly number[] {
  return labels(mark, [SET, CLEAR]);
}

function labels(mark: number, first: readonly [ofClear: number, ofSet: number]): readonly number[] {
  const bits = Array.from(
    { length: LABELLED },
    (_, bit) => bit + first[(mark >>> (SHIFT + bit)) & 1 ? 1 : 0],
  );
  return bits.sort((a, b) => a - b);
}

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

export function slotMark(slot: number): number {
  return slot << SHIFT;
}

export function takeMark(take: number): number {
  return GATEWAY | (take << SHIFT);
}
