import type { Ruleset } from '../../agent/render/ruleset.ts';
import { type NodeState, namedBy } from '../../apis/compiled.ts';
import type { Config } from '../../apis/config.ts';

/** How large the index in front of the rule chains is. */
export interface IndexSize {
  /** Elements of all verdict maps. */
  readonly elements: number;
  /** Rules of all index chains. */
  readonly rules: number;
}

export function indexSize({ chains, maps }: Ruleset): IndexSize {
  const index = [...chains.values()].filter(({ base, source }) => base === null && source === null);
  let elements = 0;
  for (const { targets } of maps.values()) elements += targets.length;
  return { elements, rules: index.reduce((sum, { rules }) => sum + rules.length, 0) };
}

/**
 * Rules, the port ranges (of ICMP: types) that they name, and the members of their AddressSets,
 * each set once.
 */
export function ownSize({ rules, addressSets, serviceSets }: NodeState): number {
  const sets = new Set(namedBy(rules).addressSets);
  let size = rules.length;
  for (const { services } of rules) size += services.length;
  for (const id of sets) {
    const { v4, v6 } = addressSets.get(id)?.members ?? { v4: NOBODY, v6: NOBODY };
    size += v4.singles.length / 4 + v4.prefixes.length + v6.singles.length / 16 + v6.prefixes.length;
  }
  for (const { members } of serviceSets.values()) size += members.length;
  return size;
}

const NOBODY = { singles: [], prefixes: [] };

/**
 * A port range of at most so many ports is single elements (agent/render/dispatch.ts,
 * EXPAND_PORTS).
 */
const EXPANDED = 16;
/** List entries for each of a rule's ranges, at most (MAX_REPLICATION). */
const REPLICATED = 8;

/**
 * The bound that dispatch.ts promises: linear in the port ranges that rules name. A failsafe list
 * has an index of its own, where a rule's range can be cut at the ranges of the list.
 */
export function largestIndex({ rules }: NodeState, { failsafe }: Config): IndexSize {
  let elements = 0;
  let count = 0;
  for (const direction of ['ingress', 'egress'] as const) {
    const own = rules.filter(({ source }) => source.direction === direction);
    const ranges = own.flatMap(({ services }) => services).length + own.length * PROTOCOLS;
    const pieces = ranges * (1 + Math.max(1, failsafe[direction].length));
    // n ranges have at most 2 n intervals between them.
    elements += 2 * pieces * EXPANDED;
    count += pieces * REPLICATED + 2 * 2 * PROTOCOLS * (own.length + 2) + failsafe[direction].length * 4 + 10;
  }
  return { elements, rules: count };
}

const PROTOCOLS = 3;
