import type { Chain, Ruleset, Statement } from '../../agent/render/ruleset.ts';

/** Which parts of an index a ruleset has; a property that never met one says nothing of it. */
export type IndexShape = Readonly<Record<IndexPart, number>>;

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
export type IndexPart = (typeof INDEX_PARTS)[number];

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
