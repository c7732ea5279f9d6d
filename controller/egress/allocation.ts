import type { EgressDropReason } from '../../apis/egress/node-egress.ts';
import type { EgressGateway, EgressPolicy } from '../../apis/egress/objects.ts';
import type { Node } from '../../apis/objects.ts';
import { canonicalAddress } from '../../apis/validate/addresses.ts';
import { type Family, parseAddress } from '../../lib/net/address.ts';
import { hasFamily, isInPool, type Pool, toPool } from '../../lib/net/address-pool.ts';
import { dealAddresses, type FamilyAddresses, namedAddress, written } from './deal-addresses.ts';
import { byRendezvous, rendezvous } from './rendezvous.ts';

/** A node that a gateway's nodeSelector selects. */
interface Candidate {
  readonly name: string;
  readonly ready: boolean;
  /** The address that the node itself uses; null: it has none of the family. */
  readonly own: Readonly<Record<Family, string | null>>;
}

/** Addresses that move from node to node together. */
interface Slot {
  readonly name: string;
  /** The owner; '': none. */
  readonly node: string;
  /** Whether the owner is a candidate that is ready. */
  readonly ready: boolean;
  /** The epoch of the owner in the status; 0: there is none in it. */
  readonly epoch: number;
  readonly addresses: readonly string[];
}

/** A slot and its owner, and those of a policy's addresses that are in it. */
interface SlotPart {
  readonly slot: string;
  readonly node: string;
  readonly addresses: readonly string[];
}

/** How packets of one family that a policy steers leave the cluster. */
export type EgressPath =
  /** With one of these addresses, by the owners of the slots, which are ready. */
  | {
      readonly kind: 'floating';
      readonly parts: readonly SlotPart[];
    }
  /** With the own address of one of these nodes. */
  | {
      readonly kind: 'node';
      readonly nodes: readonly Candidate[];
      /** Nodes that take their place, in order, where a pod's node does not reach them. */
      readonly reserve: readonly Candidate[];
      readonly interface: string | null;
    }
  | { readonly kind: 'unavailable'; readonly reason: EgressDropReason };

export type EgressPaths = Readonly<Record<Family, EgressPath>>;

export const NO_GATEWAY: EgressPaths = {
  4: { kind: 'unavailable', reason: 'no-gateway' },
  6: { kind: 'unavailable', reason: 'no-gateway' },
};

/** The addresses and slots that one gateway gives its policies. */
export interface Allocation {
  readonly gateway: EgressGateway;
  /** The nodes that the gateway's nodeSelector selects. */
  readonly nodes: readonly Node[];
  /** Those that use the gateway, in evaluation order. */
  readonly policies: readonly EgressPolicy[];
  readonly pool: Pool;
  /** Sorted by name. */
  readonly candidates: readonly Candidate[];
  /** The slots of a gateway of source Floating. */
  readonly slots: readonly Slot[];
  /** Floating addresses that the policies have, whether or not their owners are ready. */
  readonly addresses: ReadonlyMap<EgressPolicy, FamilyAddresses>;
  readonly paths: ReadonlyMap<EgressPolicy, EgressPaths>;
}

const MOST_GATEWAY_SLOTS = 64;
/** Nodes that serve the pods of another one in advance: each has all of their addresses. */
const MOST_RESERVES = 2;

/**
 * Which addresses count: all, or only those that the controller has written into a status. Others
 * may still be dealt otherwise.
 */
export type Dealing = 'all' | 'written';

/**
 * Allocates addresses and owners for one gateway, as its status and those of its policies say.
 * Where they say nothing, as the controller does it from nothing. The owner in a status stays the
 * owner, ready or not: only the controller moves slots.
 *
 * @param nodes that the gateway's nodeSelector selects
 * @param policies that the gateway takes, in evaluation order
 */
export function allocate(
  gateway: EgressGateway,
  nodes: readonly Node[],
  policies: readonly EgressPolicy[],
  dealing: Dealing = 'all',
): Allocation {
  const candidates = nodes
    .map((node) => toCandidate(node, gateway))
    .sort((a, b) => (a.name < b.name ? -1 : 1));
  const pool = toPool(gateway.spec.ranges);
  const floating = policies.filter((policy) => !usesNodeAddress(gateway, policy));
  const all: ReadonlyMap<EgressPolicy, FamilyAddresses> =
    gateway.spec.source === 'Floating' ? dealAddresses(gateway, pool, floating) : new Map();
  const dealt = dealing === 'written' ? written(gateway, all) : all;
  const groups = new Map([...dealt.values()].map((own) => [[...own[4], ...own[6]].join(), own]));
  const { slots, slotOf } =
    gateway.spec.source === 'Floating'
      ? dealSlots(
          gateway,
          pool,
          candidates,
          [...groups.values()].map((own) => [...own[4], ...own[6]]),
        )
      : { slots: [], slotOf: new Map<string, Slot>() };
  const pathOf = (policy: EgressPolicy, family: Family): EgressPath => {
    if (usesNodeAddress(gateway, policy)) return nodePath(gateway, candidates, family);
    const addresses = dealt.get(policy)?.[family] ?? [];
    return addresses.length > 0
      ? floatingPath(slotOf, addresses)
      : { kind: 'unavailable', reason: lackOf(policy, pool, family) };
  };
  const paths = policies.map((policy) => [policy, { 4: pathOf(policy, 4), 6: pathOf(policy, 6) }] as const);
  return { gateway, nodes, policies, pool, candidates, slots, addresses: dealt, paths: new Map(paths) };
}

function toCandidate(node: Node, { status }: EgressGateway): Candidate {
  const told = status?.nodes.find(({ name }) => name === node.name);
  const own = [...(node.internalAddresses ?? []), ...node.addresses];
  const first = (family: Family): string | null =>
    own.find((text) => parseAddress(text)?.family === family) ?? null;
  return { name: node.name, ready: told?.ready ?? true, own: { 4: first(4), 6: first(6) } };
}

/** A gateway of source Node has no address of its own that a policy could demand. */
function usesNodeAddress({ spec }: EgressGateway, policy: EgressPolicy): boolean {
  const { allocation } = policy.spec.address;
  return spec.source === 'Node' && allocation === 'Shared';
}

function lackOf({ spec }: EgressPolicy, pool: Pool, family: Family): EgressDropReason {
  const { allocation, fixed } = spec.address;
  const isNamed = allocation !== 'Fixed' || namedAddress(fixed, family) !== null;
  return hasFamily(pool, family) && isNamed ? 'no-address' : 'no-family';
}

function floatingPath(slotOf: ReadonlyMap<string, Slot>, addresses: readonly string[]): EgressPath {
  const ready = addresses.filter((address) => slotOf.get(address)?.ready);
  const slots = new Set(ready.flatMap((address) => slotOf.get(address) ?? []));
  if (slots.size === 0) return { kind: 'unavailable', reason: 'not-ready' };
  return {
    kind: 'floating',
    parts: [...slots].map((slot) => ({
      slot: slot.name,
      node: slot.node,
      addresses: ready.filter((address) => slotOf.get(address) === slot),
    })),
  };
}

/** Failover stays on the owner of the gateway's first slot, if the status has one. */
function nodePath(gateway: EgressGateway, candidates: readonly Candidate[], family: Family): EgressPath {
  const { spec, status, name } = gateway;
  const able = candidates.filter(({ own }) => own[family] !== null);
  if (candidates.length > 0 && able.length === 0) return { kind: 'unavailable', reason: 'no-family' };
  const ready = able.filter((candidate) => candidate.ready);
  // The next owners in the order in which the controller chooses them.
  const ordered = byRendezvous(name, ready, (candidate) => candidate.name);
  const owner = ready.find((candidate) => candidate.name === status?.slots[0]?.node) ?? ordered[0];
  if (owner === undefined) return { kind: 'unavailable', reason: 'not-ready' };
  const isSpread = spec.choice === 'Spread';
  return {
    kind: 'node',
    nodes: isSpread ? ready : [owner],
    reserve: isSpread ? [] : ordered.filter((candidate) => candidate !== owner).slice(0, MOST_RESERVES),
    interface: spec.interface ?? null,
  };
}

interface OpenSlot extends Slot {
  readonly addresses: string[];
}

/**
 * The slots of the status, further ones up to two for each candidate, and in them the addresses:
 * those of one policy together, if the status does not say otherwise; and the addresses of the
 * status that are held back.
 */
function dealSlots(
  gateway: EgressGateway,
  pool: Pool,
  candidates: readonly Candidate[],
  groups: readonly (readonly string[])[],
): { readonly slots: readonly Slot[]; readonly slotOf: ReadonlyMap<string, Slot> } {
  const slots = openSlots(gateway, candidates);
  const told = new Map<string, OpenSlot>();
  for (const [i, { addresses }] of (gateway.status?.slots ?? []).entries()) {
    const slot = slots[i];
    if (slot !== undefined) for (const text of addresses) told.set(canonicalAddress(text), slot);
  }
  const slotOf = new Map<string, Slot>();
  for (const group of groups) {
    const known = group.map((address) => told.get(address)).find((slot) => slot !== undefined);
    const other = known ?? emptiest(slots, group.join());
    for (const address of group) {
      const slot = told.get(address) ?? other;
      if (slot === undefined || slotOf.has(address)) continue;
      slotOf.set(address, slot);
      slot.addresses.push(address);
    }
  }
  // Connections of a policy that released an address may still use it.
  for (const { address } of gateway.status?.addresses ?? []) {
    if (!slotOf.has(address) && isInPool(pool, address)) told.get(address)?.addresses.push(address);
  }
  return { slots, slotOf };
}

function openSlots(gateway: EgressGateway, candidates: readonly Candidate[]): OpenSlot[] {
  const ready = candidates.filter((candidate) => candidate.ready);
  const slots: OpenSlot[] = (gateway.status?.slots ?? []).map(({ name, node, epoch }) => ({
    name,
    node,
    epoch,
    ready: ready.some((candidate) => candidate.name === node),
    addresses: [],
  }));
  const withOwner = (slot: OpenSlot): OpenSlot => {
    const owner = leastLoaded(gateway.name, slot.name, ready, slots);
    return { ...slot, node: owner?.name ?? '', ready: owner !== undefined };
  };
  for (const [i, slot] of slots.entries()) if (slot.node === '') slots[i] = withOwner(slot);
  const wanted = Math.min(MOST_GATEWAY_SLOTS, Math.max(1, 2 * candidates.length));
  const names = new Set(slots.map(({ name }) => name));
  // A new address does not go to an owner that is not ready while another node is.
  const isEnough = (): boolean =>
    slots.length >= wanted && (ready.length === 0 || slots.some((slot) => slot.ready));
  for (let i = 0; !isEnough(); i++) {
    const name = String(i);
    if (!names.has(name)) slots.push(withOwner({ name, node: '', ready: false, epoch: 0, addresses: [] }));
  }
  return slots;
}

/** The owner that each slot would have if all candidates were ready and nothing were decided. */
export function homes(gateway: EgressGateway, candidates: readonly Candidate[]): ReadonlyMap<string, string> {
  const slots = (gateway.status?.slots ?? []).map(({ name }) => ({
    name,
    node: '',
    epoch: 0,
    addresses: [],
  }));
  const ready = candidates.map((candidate) => ({ ...candidate, ready: true }));
  const opened = openSlots({ ...gateway, status: { nodes: [], slots } }, ready);
  return new Map(opened.map(({ name, node }) => [name, node]));
}

/** Chooses one of the nodes with the fewest slots, by rendezvous. */
function leastLoaded(
  gateway: string,
  slot: string,
  nodes: readonly Candidate[],
  slots: readonly Slot[],
): Candidate | undefined {
  const loads = new Map(nodes.map(({ name }) => [name, 0]));
  for (const { node } of slots) loads.set(node, (loads.get(node) ?? 0) + 1);
  const least = Math.min(...nodes.map(({ name }) => loads.get(name) ?? 0));
  const free = nodes.filter(({ name }) => loads.get(name) === least);
  return rendezvous(`${gateway}/${slot}`, free, ({ name }) => name);
}

/**
 * Chooses one of the slots with the fewest addresses by rendezvous; those with a ready owner go
 * first.
 */
function emptiest(slots: readonly OpenSlot[], key: string): OpenSlot | undefined {
  const ready = slots.filter((slot) => slot.ready);
  const usable = ready.length > 0 ? ready : slots;
  const least = Math.min(...usable.map(({ addresses }) => addresses.length));
  return rendezvous(
    key,
    usable.filter(({ addresses }) => addresses.length === least),
    ({ name }) => name,
  );
}
