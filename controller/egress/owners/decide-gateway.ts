import type { EgressGatewayStatus } from '../../../apis/egress/objects.ts';
import { ADDRESS_CONFLICT } from '../../../apis/heartbeat.ts';
import { FAMILIES } from '../../../lib/net/address.ts';
import { type Allocation, allocate, homes } from '../allocation.ts';
import { rendezvous } from '../rendezvous.ts';
import { type HoldTimeOf, quarantine } from './hold-times.ts';

/** Why a candidate takes no traffic; null: it does. */
export type Unready = (node: string) => string | null;

/** The leaseSeconds that a slot needs in its status, by its name; null: none. */
type LeaseSecondsOf = (slot: string) => number | null;

/** The facts that a decision depends on besides the objects. */
export interface GatewayFacts {
  readonly unready: Unready;
  readonly holdTimeOf: HoldTimeOf;
  readonly leaseSecondsOf: LeaseSecondsOf;
  /** Whether another host has an address of the node: it is ready all the same. */
  readonly hasConflict: (node: string) => boolean;
}

/** A slot with addresses that goes from one node to another. */
export interface SlotMove {
  readonly slot: string;
  readonly from: string;
  readonly to: string;
  readonly epoch: number;
  readonly addresses: readonly string[];
  /** Why the former owner is not ready; `NotSelected`, or `Failback`. */
  readonly reason: string;
}

/** How many addresses the pools have, and policies use. */
export type PoolUsage = {
  readonly [family in 'ipv4' | 'ipv6']?: { readonly total: string; readonly used: number };
};

export interface GatewayDecision {
  readonly status: EgressGatewayStatus & { readonly usage: PoolUsage };
  /** The allocation that follows from the status. */
  readonly allocation: Allocation;
  readonly moves: readonly SlotMove[];
}

/**
 * The leader's decision for one gateway: readiness, owners and addresses. A pure function of the
 * allocation that is in force, with the status that it was made from, and of readiness: owners and
 * addresses that may stay do, so that another leader decides the same.
 */
export function decideGateway(
  before: Allocation,
  { unready, holdTimeOf, leaseSecondsOf, hasConflict }: GatewayFacts,
): GatewayDecision {
  const { gateway, nodes, policies } = before;
  const last = gateway.status?.slots ?? [];
  const ready = before.candidates.map(({ name }) => {
    const lack = unready(name);
    const reason = lack ?? (hasConflict(name) ? ADDRESS_CONFLICT : null);
    return { name, ready: lack === null, ...(reason === null ? {} : { reason }) };
  });
  const kept =
    gateway.spec.source === 'Node' ? nodeSlots(before, ready, last) : keptOwners(before, ready, last);
  const held = gateway.status?.addresses ?? [];
  const status = { nodes: ready, slots: kept, addresses: held };
  const allocation = allocate({ ...gateway, status }, nodes, policies);
  const { records, over } = quarantine(allocation, holdTimeOf);
  const slots = gateway.spec.source === 'Node' ? kept : floatingSlots(allocation, last, over, leaseSecondsOf);
  const next = { nodes: ready, slots, addresses: records, usage: usageOf(allocation) };
  return {
    status: next,
    allocation: { ...allocation, gateway: { ...gateway, status: next } },
    moves: movesOf(last, slots, ready),
  };
}

type Slots = EgressGatewayStatus['slots'];

/** Failover: one slot, whose owner changes when it is not ready. Spread has no owner. */
function nodeSlots({ gateway }: Allocation, nodes: EgressGatewayStatus['nodes'], [last]: Slots): Slots {
  if (gateway.spec.choice === 'Spread') return [];
  const ready = nodes.filter((node) => node.ready);
  const isKept = last !== undefined && ready.some(({ name }) => name === last.node);
  if (isKept) return [{ ...last, addresses: [] }];
  // The same choice as that of agents without a status (allocation.ts).
  const owner = rendezvous(gateway.name, ready, ({ name }) => name)?.name ?? last?.node ?? '';
  const epoch = (last?.epoch ?? 0) + (owner === last?.node ? 0 : 1);
  return [{ name: last?.name ?? '0', node: owner, epoch, addresses: [] }];
}

/**
 * A slot without an owner gets a ready one (allocation.ts): that of a deleted Node, and of one that
 * is not ready while another is. No slot goes back to the node that had it, unless failback is on.
 */
function keptOwners(before: Allocation, nodes: EgressGatewayStatus['nodes'], slots: Slots): Slots {
  const { gateway, candidates } = before;
  const ready = new Set(nodes.flatMap((node) => (node.ready ? [node.name] : [])));
  const usable = ready.size > 0 ? ready : new Set(nodes.map(({ name }) => name));
  const home = gateway.spec.failover.failback ? homes(gateway, candidates) : new Map<string, string>();
  return slots.map((slot) => {
    const back = home.get(slot.name) ?? '';
    if (ready.has(back)) return { ...slot, node: back };
    return usable.has(slot.node) ? slot : { ...slot, node: '' };
  });
}

function floatingSlots(
  { slots }: Allocation,
  last: Slots,
  over: ReadonlySet<string>,
  leaseSecondsOf: LeaseSecondsOf,
): Slots {
  const before = new Map(last.map((slot) => [slot.name, slot]));
  return slots.map(({ name, node, addresses }) => {
    const was = before.get(name);
    const leaseSeconds = leaseSecondsOf(name);
    return {
      name,
      node,
      epoch: (was?.epoch ?? 0) + (was?.node === node ? 0 : 1),
      addresses: addresses.filter((address) => !over.has(address)),
      ...(leaseSeconds === null ? {} : { leaseSeconds }),
    };
  });
}

function movesOf(last: Slots, now: Slots, nodes: EgressGatewayStatus['nodes']): SlotMove[] {
  const before = new Map(last.map(({ name, node }) => [name, node]));
  return now.flatMap(({ name: slot, node: to, epoch, addresses }) => {
    const from = before.get(slot) ?? '';
    if (from === '' || from === to || addresses.length === 0) return [];
    const owner = nodes.find(({ name }) => name === from);
    const reason = owner === undefined ? 'NotSelected' : (owner.reason ?? 'Failback');
    return [{ slot, from, to, epoch, addresses, reason }];
  });
}

function usageOf({ pool, addresses }: Allocation): PoolUsage {
  const used = new Set([...addresses.values()].flatMap((own) => FAMILIES.flatMap((family) => own[family])));
  const families = FAMILIES.flatMap((family) => {
    const total = pool.merged[family].reduce((sum, { first, last }) => sum + last - first + 1n, 0n);
    if (total === 0n) return [];
    const own = [...used].filter((text) => text.includes(':') === (family === 6));
    return [[`ipv${family}`, { total: `${total}`, used: own.length }] as const];
  });
  return Object.fromEntries(families);
}
