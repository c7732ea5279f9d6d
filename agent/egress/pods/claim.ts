import type { NodeEgress } from '../../../apis/egress/node-egress.ts';
import { asFields, asList } from '../../../apis/schema/json-schema.ts';
import { parseAddress } from '../../../lib/net/address.ts';
import { linkLocal } from '../render/tunnel.ts';

/** A pod's node tells a gateway which class an address has now. */
export interface Claim {
  readonly address: string;
  /** podKey. */
  readonly pod: string;
  /** Null: no pod of the node has the address any more. */
  readonly class: string | null;
}

/** Datagrams through the tunnel: claims, and which of them are in force. */
export type ClaimMessage =
  | { readonly kind: 'claims'; readonly claims: readonly Claim[] }
  | { readonly kind: 'inForce'; readonly claims: readonly Claim[] };

/** In one datagram, so that it fits into the tunnel. */
export const MOST_CLAIMS = 6;
const LONGEST = 1024;

/** Null: it is none. */
export function readClaimMessage(text: string): ClaimMessage | null {
  let raw: unknown;
  try {
    raw = JSON.parse(text);
  } catch {
    return null;
  }
  const { kind, claims } = asFields(raw) ?? {};
  const list = asList(claims);
  if ((kind !== 'claims' && kind !== 'inForce') || !list || list.length > MOST_CLAIMS) return null;
  const found = list.map(readClaim);
  return found.every((claim) => claim !== null) ? { kind, claims: found } : null;
}

function readClaim(raw: unknown): Claim | null {
  const { address, pod, class: id } = asFields(raw) ?? {};
  if (typeof address !== 'string' || parseAddress(address) === null) return null;
  if (typeof pod !== 'string' || pod.length > LONGEST) return null;
  if (id !== null && (typeof id !== 'string' || id.length > LONGEST)) return null;
  return { address, pod, class: id };
}

/** The node at the other end of the tunnel with this link-local address; null: none is known. */
export function peerAt({ peers }: Pick<NodeEgress, 'peers'>, address: string): string | null {
  for (const { node, mac } of peers.values()) if (linkLocal(mac) === address) return node;
  return null;
}
