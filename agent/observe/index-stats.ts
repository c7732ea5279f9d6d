import type { NodeState, RuleSource } from '../../apis/compiled.ts';
import type { Config } from '../../apis/config.ts';
import { type BuiltPart, Indexer } from '../render/index/dispatch.ts';
import type { Plan } from '../render/index/plan.ts';
import { ownSize } from '../render/index/planner.ts';
import { renderer } from '../render/render.ts';
import type { L4Protocol, Ruleset } from '../render/ruleset.ts';
import { aimAt, IndexWalk } from './index-walk.ts';
import { chainBytes, mapBytes, setBytes } from './kernel-memory.ts';

/** Cost and benefit of a node's rule index. */
export interface IndexStats {
  readonly node: string;
  /**
   * In the order of the table. A protocol without rules of its own is part of the entry for other
   * protocols.
   */
  readonly parts: readonly PartStats[];
  readonly memory: IndexMemory;
  /** The rules with the most entries in the index, in descending order; at most COSTLIEST. */
  readonly costliest: readonly RuleEntries[];
}

/** Statistics of one index for the packets of one protocol. */
export interface PartStats {
  readonly index: string;
  /** Null: all protocols without an entry of their own. */
  readonly protocol: L4Protocol | null;
  /** Number of rules that can match such a packet. */
  readonly rules: number;
  /** How the rules are found, human-readable. */
  readonly way: string;
  /** Number of indexes that are searched in sequence. */
  readonly pieces: number;
  /**
   * Rules that one packet is tested against, up to the rule that ends the search. `mean`: over one
   * packet per rule, from the rule's first peer to its first port; null if no rule has peers.
   * `worst`: an upper bound for any packet.
   */
  readonly tries: { readonly mean: number | null; readonly worst: number };
  /** Upper bound of the map look-ups of one packet. */
  readonly lookups: number;
  readonly maps: number;
  /** Elements in these maps. */
  readonly elements: number;
  /** Jumps to rules, in all lists. */
  readonly listEntries: number;
  /**
   * Elements and list entries, divided by the number of objects of the rules themselves (ownSize);
   * at most REPLICATION.
   */
  readonly replication: number;
  /** Estimated kernel memory of the chains and maps, in bytes. */
  readonly memory: number;
}

/** Estimated kernel memory in bytes (kernel-memory.ts). */
export interface IndexMemory {
  readonly index: number;
  /** Memory of the rules' own chains, and of the sets with their members. */
  readonly rules: number;
}

/** The number of index entries of one rule. */
export interface RuleEntries {
  readonly source: RuleSource;
  /** List entries and map elements in all indexes that lead to the rule's chain. */
  readonly entries: number;
}

const COSTLIEST = 10;
const ONE_BY_ONE = 'one by one';

/**
 * Renders the state and measures the index. Pure; throws a RenderError as render does. A linear
 * table has no parts.
 */
export function indexStats(state: NodeState, config: Config): IndexStats {
  const built: BuiltPart[] = [];
  const ruleset = renderer(config, true, new Indexer((part) => built.push(part)))(state);
  const enforced = new Set(state.rules.flatMap(({ id, mode }) => (mode === 'Enforce' ? id : [])));
  const parts = built.filter(({ items }) => items.length > 0).map((part) => toPartStats(part, enforced));
  return {
    node: state.node,
    parts,
    memory: { index: parts.reduce((sum, { memory }) => sum + memory, 0), rules: rulesBytes(ruleset) },
    costliest: costliest(built, ruleset),
  };
}

function toPartStats(
  { index, protocol, items, plan, dispatched }: BuiltPart,
  enforced: ReadonlySet<string>,
): PartStats {
  const { chains, maps } = dispatched;
  const walk = new IndexWalk(dispatched, items);
  const tries = items.flatMap((item) => {
    const packet = aimAt(item);
    return packet === null ? [] : walk.tested(packet, enforced.has(item.id) ? item : null).length;
  });
  const elements = maps.reduce((sum, map) => sum + map.targets.length, 0);
  const listEntries = jumpsToRules({ dispatched }).length;
  return {
    index,
    protocol,
    rules: items.length,
    way: wayOf(plan),
    pieces: plan.kind === 'sequence' ? plan.parts.length : 1,
    tries: {
      mean: tries.length === 0 ? null : tries.reduce((sum, one) => sum + one, 0) / tries.length,
      worst: plan.tries,
    },
    lookups: walk.lookups,
    maps: maps.length,
    elements,
    listEntries,
    replication: (elements + listEntries) / ownSize(items),
    memory:
      chains.reduce((sum, chain) => sum + chainBytes(chain), 0) +
      maps.reduce((sum, map) => sum + mapBytes(map), 0),
  };
}

/**
 * "by port, then address": the first look-up, then the one that follows it for at least some
 * packets.
 */
function wayOf(plan: Plan): string {
  switch (plan.kind) {
    case 'list':
      return ONE_BY_ONE;
    case 'ports':
      return `by port${splits(plan, 'addresses') ? ', then address' : ''}`;
    case 'addresses':
      return `by address${splits(plan, 'ports') ? ', then port' : ''}`;
    case 'sequence':
      return [...Map.groupBy(plan.parts.map(wayOf), (way) => way)]
        .map(([way, { length }]) => (length > 1 && way !== ONE_BY_ONE ? `${length} × ${way}` : way))
        .join('; ');
  }
}

/** Whether an inner plan is of this kind. */
function splits(plan: Plan, kind: Plan['kind']): boolean {
  switch (plan.kind) {
    case 'list':
      return false;
    case 'ports':
    case 'addresses':
      return [...plan.plans, ...(plan.others === null ? [] : [plan.others])].some(
        (inner) => inner.kind === kind || splits(inner, kind),
      );
    case 'sequence':
      return plan.parts.some((part) => part.kind === kind || splits(part, kind));
  }
}

/** The names of the rules' chains, once for each list entry. */
function jumpsToRules({ dispatched: { chains } }: Pick<BuiltPart, 'dispatched'>): string[] {
  const own = new Set(chains.map(({ name }) => name));
  return chains.flatMap(({ rules }) =>
    rules.flatMap(({ statement }) =>
      statement.kind === 'jump' && !own.has(statement.chain) ? statement.chain : [],
    ),
  );
}

function costliest(built: readonly BuiltPart[], { chains }: Ruleset): RuleEntries[] {
  const entries = new Map<string, number>();
  const count = (chain: string, by: number): void => void entries.set(chain, (entries.get(chain) ?? 0) + by);
  for (const part of built) {
    for (const chain of jumpsToRules(part)) count(chain, 1);
    for (const { targets, verdicts } of part.dispatched.maps) {
      for (const target of targets) count(verdicts[target]?.chain ?? '', 1);
    }
  }
  return [...entries]
    .flatMap(([chain, number]) => {
      const source = chains.get(chain)?.source ?? null;
      return source === null ? [] : [{ source, entries: number }];
    })
    .sort((a, b) => b.entries - a.entries)
    .slice(0, COSTLIEST);
}

function rulesBytes({ chains, sets }: Ruleset): number {
  let bytes = 0;
  for (const chain of chains.values()) if (chain.ruleId !== null) bytes += chainBytes(chain);
  for (const set of sets.values()) bytes += setBytes(set);
  return bytes;
}
