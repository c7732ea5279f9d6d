import type { EgressGatewayStatus } from '../../../apis/egress/objects.ts';
import { FAMILIES } from '../../../lib/net/address.ts';
import { type Allocation, allocate } from '../../egress/allocation.ts';
import { type HoldTimeOf, quarantine } from '../../egress/quarantine.ts';
import { rendezvous } from '../../egress/rendezvous.ts';
import { accepted, type EgressConditionState, type WrittenGatewayStatus } from './egress-status.ts';

/** Why a candidate takes no traffic; null: it does. */
export type Unready = (node: string) => string | null;

export interface GatewayDecision {
  readonly status: Omit<WrittenGatewayStatus, 'conditions' | 'observedGeneration'>;
  readonly said: readonly EgressConditionState[];
  /** What follows from the status. */
  readonly allocation: Allocation;
}

/**
 * What the leader decides for one gateway: readiness, owners and addresses. A pure function of the
 * allocation that is in force, with the status that it was made from, and of readiness: owners and
 * addresses that may stay do, so that another leader decides the same.
 */
export function decideGateway(
  before: Allocation,
  unready: Unready,
  problems: readonly string[],
  holdTimeOf: HoldTimeOf,
): GatewayDecision {
  const { gateway, nodes, policies } = before;
  const last = gateway.status?.slots ?? [];
  const ready = before.candidates.map(({ name }) => {
    const reason = unready(name);
    return { name, ready: reason === null, ...(reason === null ? {} : { reason }) };
  });
  const kept = gateway.spec.source === 'Node' ? nodeSlots(before, ready, last) : withoutDeleted(before, last);
  const held = gateway.status?.addresses ?? [];
  const status = { nodes: ready, slots: kept, addresses: held };
  const allocation = allocate({ ...gateway, status }, nodes, policies);
  const { records, over } = quarantine(allocation, holdTimeOf);
  const slots = gateway.spec.source === 'Node' ? kept : floatingSlots(allocation, last, over);
  const count = ready.filter((node) => node.ready).length;
  const next = { nodes: ready, slots, addresses: records, usage: usageOf(allocation) };
  return {
    status: next,
    said: [accepted('gateway', problems), readyCondition(count, ready.length)],
    allocation: { ...allocation, gateway: { ...gateway, status: next } },
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
 * An owner that is not ready keeps its slots: without leases two nodes could have one address. Only
 * a Node that the gateway no longer selects loses them.
 */
function withoutDeleted({ candidates }: Allocation, slots: Slots): Slots {
  const names = new Set(candidates.map(({ name }) => name));
  return slots.map((slot) => (names.has(slot.node) ? slot : { ...slot, node: '' }));
}

function floatingSlots({ slots }: Allocation, last: Slots, over: ReadonlySet<string>): Slots {
  const before = new Map(last.map((slot) => [slot.name, slot]));
  return slots.map(({ name, node, addresses }) => {
    const was = before.get(name);
    return {
      name,
      node,
      epoch: (was?.epoch ?? 0) + (was?.node === node ? 0 : 1),
      addresses: addresses.filter((address) => !over.has(address)),
    };
  });
}

function usageOf({ pool, addresses }: Allocation): WrittenGatewayStatus['usage'] {
  const used = new Set([...addresses.values()].flatMap((own) => FAMILIES.flatMap((family) => own[family])));
  const families = FAMILIES.flatMap((family) => {
    const total = pool.merged[family].reduce((sum, { first, last }) => sum + last - first + 1n, 0n);
    if (total === 0n) return [];
    const own = [...used].filter((text) => text.includes(':') === (family === 6));
    return [[`ipv${family}`, { total: `${total}`, used: own.length }] as const];
  });
  return Object.fromEntries(families);
}

function readyCondition(ready: number, all: number): EgressConditionState {
  const message = `${ready} of ${all} nodes are ready.`;
  return ready > 0
    ? { type: 'Ready', status: 'True', reason: 'NodesReady', message }
    : { type: 'Ready', status: 'False', reason: all === 0 ? 'NoNodes' : 'NoReadyNode', message };
}
