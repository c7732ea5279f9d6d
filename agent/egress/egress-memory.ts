import type { EgressSlot, EgressTake, NodeEgress, TunnelEnd } from '../../apis/egress/node-egress.ts';
import { withKnownKeys } from './lingering.ts';

/** Facts that a node knows of its egress gateways besides its view, for its next process. */
export interface EgressMemory {
  /** The slots of open connections that no policy needs any more (withLingering). */
  readonly slots: readonly EgressSlot[];
  readonly takes: readonly (readonly [number, EgressTake])[];
  readonly peers: readonly TunnelEnd[];
  readonly answers: readonly (readonly [string, TunnelEnd])[];
  /** Names of gateway nodes that do not answer. */
  readonly lost: readonly string[];
}

/** @param known `told`, with what lingers */
export function toEgressMemory(
  known: NodeEgress | null,
  told: NodeEgress | null,
  lost: readonly string[],
): EgressMemory {
  return {
    slots: missing(told?.slots, known?.slots).map(([, slot]) => slot),
    takes: missing(told?.takes, known?.takes),
    // Those that no policy needs, and those whose key the controller did not say again.
    peers: [...(known?.peers ?? [])].flatMap(([node, end]) => {
      const now = told?.peers.get(node);
      return now === undefined || now.key !== end.key ? end : [];
    }),
    answers: [...(known?.answers ?? [])],
    lost,
  };
}

/** The state that an earlier process had in force; `told`: the view that it received last. */
export function withMemory(told: NodeEgress, memory: EgressMemory | null): NodeEgress {
  if (memory === null) return told;
  const { slots, takes, peers, answers } = memory;
  const former = new Map(peers.map((end) => [end.node, end] as const));
  return {
    ...told,
    slots: new Map([...slots.map((slot) => [slot.number, slot] as const), ...told.slots]),
    takes: new Map([...takes, ...told.takes]),
    peers: new Map([...former, ...withKnownKeys(former, told.peers)]),
    ...(answers.length === 0 ? {} : { answers: new Map(answers) }),
  };
}

function missing<K, V>(from: ReadonlyMap<K, V> = new Map(), all: ReadonlyMap<K, V> = new Map()): [K, V][] {
  return [...all].filter(([key]) => !from.has(key));
}
