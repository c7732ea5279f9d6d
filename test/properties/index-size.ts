import type { Chain, Ruleset, Statement } from '../../agent/render/ruleset.ts';
import { type NodeState, namedBy } from '../../apis/compiled.ts';
import type { Config } from '../../apis/config.ts';

/** How large the index in front of the rule chains is. */
interface IndexSize {
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
 * A port range of at most so many ports is single elements (agent/render/index/port-pieces.ts,
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

/** Which parts of an index a ruleset has; a property that never met one says nothing of it. */
type IndexShape = Readonly<Record<IndexPart, number>>;

export const INDEX_PARTS = [
  'portMap',
  'intervalPortMap',
  'addressMap',
  'intervalAddressMap',
  'addressMap behind portMap',
  'portMap behind addressMap',
  'list of more than 4',
  'several maps in a row',
] as const;
type IndexPart = (typeof INDEX_PARTS)[number];

/** How often each part is in the ruleset. */
export function indexShape(ruleset: Ruleset): IndexShape {
  const shape = Object.fromEntries(INDEX_PARTS.map((part) => [part, 0])) as Record<IndexPart, number>;
  for (const { name, family, interval } of ruleset.maps.values()) {
    if (interval) shape[family === null ? 'intervalPortMap' : 'intervalAddressMap']++;
    else shape[family === null ? 'portMap' : 'addressMap']++;
    if (family === null && behind(ruleset, name, 'addressMap')) shape['addressMap behind portMap']++;
    if (family !== null && behind(ruleset, name, 'portMap')) shape['portMap behind addressMap']++;
  }
  for (const chain of ruleset.chains.values()) {
    if (chain.source !== null) continue;
    const jumps = chain.rules.filter(({ statement }) => leadsToRule(ruleset, statement));
    if (jumps.length > 4) shape['list of more than 4']++;
    if (chain.rules.filter(({ statement }) => statement.kind === 'portMap').length > 1) {
      shape['several maps in a row']++;
    }
  }
  return shape;
}

function leadsToRule({ chains }: Ruleset, statement: Statement): boolean {
  return statement.kind === 'jump' && (chains.get(statement.chain)?.source ?? null) !== null;
}

/** Whether a chain that the map leads to looks up another map of that kind. */
function behind(ruleset: Ruleset, map: string, kind: 'portMap' | 'addressMap'): boolean {
  const first = ruleset.maps.get(map)?.verdicts.map(({ chain }) => chain) ?? [];
  const seen = new Set<string>();
  const open = [...first];
  for (let name = open.pop(); name !== undefined; name = open.pop()) {
    if (seen.has(name)) continue;
    seen.add(name);
    const chain: Chain | undefined = ruleset.chains.get(name);
    if (chain === undefined || chain.source !== null) continue;
    for (const { statement } of chain.rules) {
      if (statement.kind === kind) return true;
      if (statement.kind === 'jump' || statement.kind === 'goto') open.push(statement.chain);
      if (statement.kind === 'portMap' || statement.kind === 'addressMap') {
        open.push(...(ruleset.maps.get(statement.map)?.verdicts.map((verdict) => verdict.chain) ?? []));
      }
    }
  }
  return false;
}
