/**
 * Heartbeats of nodes that may have floating addresses (docs/egress.md): what an agent sends to the
 * controller with each one, and the leases that the leader answers. The agent sends one request at
 * a time, and ignores an answer that comes after it has given the request up.
 */
import {
  BOOLEAN,
  COUNT,
  checked,
  InvalidError,
  integer,
  list,
  number,
  type Of,
  object,
  text,
  where,
  word,
} from './schema/shape.ts';

/**
 * The protocol (ALPN, RFC 7301) that a client offers on a connection for heartbeats alone. It is
 * HTTP/1.1; a controller of an earlier version takes it for any other connection.
 */
export const HEARTBEAT_PROTOCOL = 'nodewall-heartbeat';
export const HEARTBEAT_PROTOCOLS = [HEARTBEAT_PROTOCOL, 'http/1.1'] as const;

/**
 * A reason that moves nothing: another host has an address of the node's slots, and would have it
 * beside every other node too.
 */
export const ADDRESS_CONFLICT = 'AddressConflict';

/** While a node that owns a slot waits for its grant, it asks so often (milliseconds). */
export const ASK_FOR_GRANT = 25;

/** Milliseconds after the end of a lease in which nobody else gets the address. */
export const LEASE_MARGIN = 500;

/** The size limit of a request as JSON (bytes). */
export const MOST_LEASE_REQUEST = 256 << 10;

/** The most items of each list of a request, but for addresses, which its size limits. */
const MOST_ITEMS = 4096;
const LONGEST_EXTENSION = 60;
/** The longest lease, an hour: more than any gateway's leaseSeconds. */
const LONGEST_LEASE = 3_600_000;

const WORD = word(320, 1);

const SLOT = { gateway: WORD, slot: WORD, addresses: list(WORD) };
export type HeldSlot = Of<typeof HELD_SLOT>;
const HELD_SLOT = object({
  ...SLOT,
  /** That of the grant; after a restart of the agent, that of OwnedSlot. */
  epoch: COUNT,
  /** The rest of the longest timeout, when the request was sent. */
  milliseconds: number(0, LONGEST_LEASE),
});

export type GatewayReadiness = Of<typeof GATEWAY_READINESS>;
const GATEWAY_READINESS = object(
  { gateway: WORD, ready: BOOLEAN },
  {
    /** As reasons of conditions are. */
    reason: where(text(64), 'a word in upper camel case', (one) => /^[A-Za-z]+$/.test(one)),
  },
);

/**
 * The candidates of every gateway send a request each `heartbeatMilliseconds` (Candidacy in
 * egress/node-egress.ts), and at once when they gave a slot up. Of other nodes, those that cannot
 * reach a gateway send requests as long as that is so, and one when it no longer is.
 */
export type LeaseRequest = Of<typeof LEASE_REQUEST>;
export const LEASE_REQUEST = object(
  {
    node: WORD,
    /** From /proc/sys/kernel/random/boot_id: nothing is alive in the kernel of an earlier boot. */
    boot: WORD,
    /**
     * CLOCK_MONOTONIC of the node in milliseconds when the request was sent (process.hrtime). The
     * leader ignores a request that is older than the last one of the same boot.
     */
    sent: number(0),
    /** All that may be alive in the node's kernel. What is not in it is not alive. */
    held: list(HELD_SLOT, MOST_ITEMS),
    /** By gateway that the node is a candidate of, once the agent knows. */
    ready: list(GATEWAY_READINESS, MOST_ITEMS),
  },
  {
    /** Gateway nodes that this node does not reach through the tunnel; absent: none. */
    unreachable: list(WORD, MOST_ITEMS),
    /** The agent restarts: leases for so long, once. */
    extendSeconds: integer(1, LONGEST_EXTENSION),
  },
);

/**
 * The node may have these addresses of the slot, and no others, for so long since it sent the
 * request, by its monotonic clock. Addresses that another node may still have are left out.
 */
export type LeaseGrant = Of<typeof LEASE_GRANT>;
const LEASE_GRANT = object({ ...SLOT, epoch: COUNT, milliseconds: number(0, LONGEST_LEASE) });

export type LeaseAnswer = Of<typeof LEASE_ANSWER>;
export const LEASE_ANSWER = object({ grants: list(LEASE_GRANT) });

/**
 * The request of this node, with the fields that only a newer leader knows. Throws InvalidError.
 */
export function parseLeaseRequest(value: unknown, node: string): LeaseRequest {
  const request = checked(LEASE_REQUEST, value);
  if (request.node !== node) throw new InvalidError(`node: must be ${node}, as in the path`);
  return request;
}
