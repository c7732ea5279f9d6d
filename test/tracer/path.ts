import type { Ruleset } from '../../agent/render/ruleset.ts';
import type { Verdict } from '../../apis/flow.ts';
import type { Packet } from './packet.ts';
import { type Entry, entriesOf, type Hook, type Table, toTable, Walk } from './walk.ts';

/** The way of a forwarded packet through a node. */
export interface Path {
  readonly verdict: Verdict;
  /** Where it ended; null: it left the node. `comment`: of the rule with the verdict. */
  readonly end: { readonly hook: Hook; readonly chain: string; readonly comment: string | null } | null;
  /**
   * As it leaves, or as it was when it ended: with its marks, its source after NAT, the binding of
   * its connection. The next packet of the connection is made of it (nextOf).
   */
  readonly packet: Packet;
  /** Names of the chains that it went through, in order. */
  readonly visited: readonly string[];
}

/** The interface that the routing tables give for the packet; null: there is no route. */
export type Route = (packet: Packet) => Packet['output'] | null;

/** When NAT runs among the base chains of a hook: NF_IP_PRI_* of netfilter_ipv4.h. */
const PRIORITY = { destinationNat: -100, sourceNat: 100 } as const;

/**
 * Walks a packet from prerouting by routing and forward to postrouting. Base chains of type nat run
 * when source NAT does, whatever their priority, which only orders them among each other; they see
 * the first packet of a connection alone, and the first that binds ends them.
 */
export function pathTracer(ruleset: Ruleset, route: Route): (packet: Packet) => Path {
  const table = toTable(ruleset);
  return (packet) => {
    const walk = new Walk(table, { ...packet, direction: 'ingress', isForwarded: true });
    const ended = (end: Path['end'], verdict: Verdict): Path => ({
      verdict,
      end,
      packet: walk.packet,
      visited: walk.visited,
    });
    const before = prerouting(table, walk) ?? null;
    if (before !== null) return ended(before.end, before.verdict);
    const output = route(walk.packet);
    if (output == null) return ended({ hook: 'prerouting', chain: 'no route', comment: null }, 'Drop');
    walk.packet = { ...walk.packet, output };
    const after = atHook(table, 'forward', walk) ?? postrouting(table, walk);
    return after === null ? ended(null, 'Allow') : ended(after.end, after.verdict);
  };
}

/** The next packet of the same connection and direction. */
export function nextOf({ packet }: Path, first: Packet): Packet {
  const { ctMark, ctLabels, binding, isUntracked } = packet;
  return {
    ...first,
    established: isUntracked !== true,
    isSyn: false,
    ...(ctMark === undefined ? {} : { ctMark }),
    ...(ctLabels === undefined ? {} : { ctLabels }),
    ...(binding === undefined ? {} : { binding }),
  };
}

type Stopped = Pick<Path, 'verdict' | 'end'>;

function prerouting(table: Table, walk: Walk): Stopped | null {
  const entries = entriesOf(table, 'prerouting');
  const [early, late] = split(entries, PRIORITY.destinationNat);
  const stopped = through('prerouting', early, walk);
  if (stopped !== null) return stopped;
  const { binding, ctDirection } = walk.packet;
  // An answer to the address that the source was translated to goes to the source itself.
  if (binding != null && ctDirection === 'reply') walk.packet = { ...walk.packet, dst: binding.from };
  return through('prerouting', late, walk);
}

function postrouting(table: Table, walk: Walk): Stopped | null {
  const entries = entriesOf(table, 'postrouting');
  const filters = entries.filter(({ base }) => base.type === 'filter');
  const [early, late] = split(filters, PRIORITY.sourceNat);
  const stopped = through('postrouting', early, walk);
  if (stopped !== null) return stopped;
  const nat = entries.filter(({ base }) => base.type === 'nat');
  return translate(nat, walk) ?? through('postrouting', late, walk);
}

function translate(entries: readonly Entry[], walk: Walk): Stopped | null {
  const { isUntracked, established, ctDirection } = walk.packet;
  if (isUntracked === true) return null;
  if (!established) {
    walk.packet = { ...walk.packet, binding: null };
    for (const entry of entries) {
      const { verdict, by } = walk.through(entry);
      if (verdict !== 'Allow') return stoppedBy('postrouting', verdict, by);
      if (walk.packet.binding != null) break;
    }
  }
  const { binding } = walk.packet;
  if (binding != null && ctDirection !== 'reply') walk.packet = { ...walk.packet, src: binding.to };
  return null;
}

function split(entries: readonly Entry[], priority: number): readonly [Entry[], Entry[]] {
  if (entries.some(({ base }) => base.priority === priority))
    throw new Error(`a filter chain of priority ${priority} and NAT have no order`);
  return [
    entries.filter(({ base }) => base.priority < priority),
    entries.filter(({ base }) => base.priority > priority),
  ];
}

function atHook(table: Table, hook: Hook, walk: Walk): Stopped | null {
  return through(hook, entriesOf(table, hook), walk);
}

/** An accept ends its base chain, not the hook. */
function through(hook: Hook, entries: readonly Entry[], walk: Walk): Stopped | null {
  for (const entry of entries) {
    const { verdict, by } = walk.through(entry);
    if (verdict !== 'Allow') return stoppedBy(hook, verdict, by);
  }
  return null;
}

function stoppedBy(hook: Hook, verdict: Verdict, by: ReturnType<Walk['through']>['by']): Stopped {
  return { verdict, end: { hook, chain: by?.chain ?? '', comment: by?.rule.comment ?? null } };
}
