/**
 * Leases of floating addresses (docs/egress.md): what an agent sends to the controller with each
 * heartbeat, and what the leader answers. The agent sends one request at a time, and ignores an
 * answer that comes after it has given the request up.
 */
import { checkSchema, type JsonSchema } from '../schema/json-schema.ts';
import type { EgressGateway } from './objects.ts';

/**
 * The protocol (ALPN, RFC 7301) that a client offers on a connection for heartbeats alone. It is
 * HTTP/1.1; a controller of an earlier version takes it for any other connection.
 */
export const HEARTBEAT_PROTOCOL = 'nodewall-heartbeat';
export const HEARTBEAT_PROTOCOLS = [HEARTBEAT_PROTOCOL, 'http/1.1'] as const;

/**
 * The candidates of every gateway send a request each `heartbeatMilliseconds` (Candidacy in
 * node-egress.ts), and at once when they gave a slot up. Of other nodes, those that cannot reach a
 * gateway send requests as long as that is so, and one when it no longer is.
 */
export interface LeaseRequest {
  readonly node: string;
  /** From /proc/sys/kernel/random/boot_id: nothing is alive in the kernel of an earlier boot. */
  readonly boot: string;
  /**
   * CLOCK_MONOTONIC of the node in milliseconds when the request was sent (process.hrtime). The
   * leader ignores a request that is older than the last one of the same boot.
   */
  readonly sent: number;
  /** All that may be alive in the node's kernel. What is not in it is not alive. */
  readonly held: readonly HeldSlot[];
  /** By gateway that the node is a candidate of, once the agent knows. */
  readonly ready: readonly GatewayReadiness[];
  /** Gateway nodes that this node does not reach through the tunnel; absent: none. */
  readonly unreachable?: readonly string[];
  /** The agent restarts: leases for so long, once. */
  readonly extendSeconds?: number;
}

export interface HeldSlot {
  readonly gateway: string;
  readonly slot: string;
  /** That of the grant; after a restart of the agent, that of OwnedSlot. */
  readonly epoch: number;
  readonly addresses: readonly string[];
  /** The rest of the longest timeout, when the request was sent. */
  readonly milliseconds: number;
}

export interface GatewayReadiness {
  readonly gateway: string;
  readonly ready: boolean;
  /** A word in upper camel case, as reasons of conditions are. */
  readonly reason?: string;
}

/**
 * A reason that moves nothing: another host has an address of the node's slots, and would have it
 * beside every other node too.
 */
export const ADDRESS_CONFLICT = 'AddressConflict';

export interface LeaseAnswer {
  readonly grants: readonly LeaseGrant[];
}

/**
 * The node may have these addresses of the slot, and no others, for so long since it sent the
 * request, by its monotonic clock. Addresses that another node may still have are left out.
 */
export interface LeaseGrant {
  readonly gateway: string;
  readonly slot: string;
  readonly epoch: number;
  readonly addresses: readonly string[];
  readonly milliseconds: number;
}

/** The name of a gateway in leases: unique over the API groups. */
export function leaseName({ name }: Pick<EgressGateway, 'name'>): string {
  return name;
}

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

const WORD: JsonSchema = { type: 'string', pattern: '^[!-~]+$', maxLength: 320 };
const REASON: JsonSchema = { type: 'string', pattern: '^[A-Za-z]+$', maxLength: 64 };
const COUNT: JsonSchema = { type: 'integer', minimum: 0, maximum: Number.MAX_SAFE_INTEGER };
const TIME: JsonSchema = { type: 'number', minimum: 0, maximum: LONGEST_LEASE };
const list = (items: JsonSchema): JsonSchema => ({ type: 'array', items });
const object = (required: Record<string, JsonSchema>, optional: Record<string, JsonSchema> = {}) =>
  ({
    type: 'object',
    properties: { ...required, ...optional },
    required: Object.keys(required),
  }) satisfies JsonSchema;

const SLOT = { gateway: WORD, slot: WORD, epoch: COUNT, addresses: list(WORD), milliseconds: TIME };
const REQUEST = object(
  {
    node: WORD,
    boot: WORD,
    sent: { type: 'number', minimum: 0, maximum: Number.MAX_SAFE_INTEGER },
    held: list(object(SLOT)),
    ready: list(object({ gateway: WORD, ready: { type: 'boolean' } }, { reason: REASON })),
  },
  {
    unreachable: list(WORD),
    extendSeconds: { type: 'integer', minimum: 1, maximum: LONGEST_EXTENSION },
  },
);
const ANSWER = object({ grants: list(object(SLOT)) });

/** Checks the request of this node. Unknown fields are ignored: agents may be newer. */
export function parseLeaseRequest(value: unknown, node: string): LeaseRequest | { readonly problem: string } {
  const problem = problemOf(REQUEST, value);
  if (problem !== null) return { problem };
  const request = value as LeaseRequest;
  if (request.node !== node) return { problem: `node: must be ${node}, as in the path` };
  const { held, ready, unreachable = [] } = request;
  for (const [field, items] of Object.entries({ held, ready, unreachable }))
    if (items.length > MOST_ITEMS) return { problem: `${field}: must have no more than ${MOST_ITEMS} items` };
  return request;
}

/** Checks the leader's answer. */
export function parseLeaseAnswer(value: unknown): LeaseAnswer | { readonly problem: string } {
  const problem = problemOf(ANSWER, value);
  return problem === null ? (value as LeaseAnswer) : { problem };
}

function problemOf(schema: JsonSchema, value: unknown): string | null {
  const [problem] = checkSchema(schema, value, ({ keyword }) => keyword !== 'unknown');
  return problem === undefined ? null : `${problem.path.join('.')}: is not valid (${problem.keyword})`;
}
