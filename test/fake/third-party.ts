import fc from 'fast-check';
import type { NftRule, Statement } from '../../agent/render/ruleset.ts';
import type { FakeKernel } from './fake-kernel.ts';
import { addChain, addRule, addSet, type FakeTable, renameChain } from './table.ts';

/** Something that somebody else did to our table. */
export interface Tampering {
  readonly what: keyof typeof DEEDS;
  /** Chooses among what there is. */
  readonly pick: number;
}

/**
 * Each changes the table in a way that the kernel takes; nothing where there is nothing to change.
 */
const DEEDS = {
  deletesRule(table: FakeTable, pick: number): void {
    chosen([...table.chains.values()], pick)?.rules.pop();
  },
  flushesChain(table: FakeTable, pick: number): void {
    const chain = chosen([...table.chains.values()], pick);
    if (chain !== undefined) chain.rules.length = 0;
  },
  addsRule(table: FakeTable, pick: number): void {
    const chain = chosen([...table.chains.keys()], pick);
    if (chain !== undefined) addRule(table, chain, rule({ kind: 'drop' }));
  },
  addsChain(table: FakeTable, pick: number): void {
    const name = `stranger-${pick}`;
    if (table.chains.has(name)) return;
    const target = chosen(
      [...table.chains.values()].filter(({ base }) => base === null),
      pick,
    );
    addChain(table, name, null);
    if (target !== undefined) addRule(table, name, rule({ kind: 'jump', chain: target.name }));
  },
  takesStaleName(table: FakeTable): void {
    if (!table.chains.has('stale-0')) addChain(table, 'stale-0', null);
  },
  addsBaseChain(table: FakeTable): void {
    const base = { type: 'filter', hook: 'input', priority: 50, policy: 'accept' } as const;
    if (!table.chains.has('hooked')) addChain(table, 'hooked', base);
  },
  renamesChain(table: FakeTable, pick: number): void {
    const chain = chosen(
      [...table.chains.values()].filter(({ base }) => base === null),
      pick,
    );
    if (chain !== undefined && !table.chains.has(`moved-${pick}`))
      renameChain(table, chain.handle, `moved-${pick}`);
  },
  addsSet(table: FakeTable, pick: number): void {
    const name = `strangers-${pick}`;
    if (table.sets.has(name)) return;
    const set = addSet(table, { name, keyLength: 16, interval: false, isMap: false, comment: null });
    set.elements.set('0'.repeat(32), { last: '0'.repeat(32), verdict: null });
  },
  deletesElements(table: FakeTable, pick: number): void {
    const set = chosen([...table.sets.values()], pick);
    set?.elements.clear();
  },
  addsElement(table: FakeTable, pick: number): void {
    const set = chosen(
      [...table.sets.values()].filter(({ keyLength, isMap }) => keyLength === 4 && !isMap),
      pick,
    );
    const key = (0xe0000000 + (pick % 65536)).toString(16);
    set?.elements.set(key, { last: key, verdict: null });
  },
  redirectsKey(table: FakeTable, pick: number): void {
    const map = chosen(
      [...table.sets.values()].filter(({ isMap }) => isMap),
      pick,
    );
    const chain = chosen(
      [...table.chains.values()].filter(({ name }) => name === 'refuse'),
      0,
    );
    const [[key, there] = []] = map?.elements ?? [];
    if (key !== undefined && there !== undefined && chain !== undefined) {
      map?.elements.set(key, { last: there.last, verdict: { kind: 'goto', chain: chain.handle } });
    }
  },
  setsPolicy(table: FakeTable, pick: number): void {
    const chain = chosen(
      [...table.chains.values()].filter(({ base }) => base !== null),
      pick,
    );
    if (chain?.base) chain.base = { ...chain.base, policy: 'drop' };
  },
  addsCatchAll(table: FakeTable, pick: number): void {
    const set = chosen([...table.sets.values()], pick);
    if (set !== undefined) set.catchAll = true;
  },
  addsOddRange(table: FakeTable, pick: number): void {
    const ranges = [...table.sets.values()].filter(
      ({ keyLength, interval, isMap }) => keyLength === 4 && interval && !isMap,
    );
    chosen(ranges, pick)?.elements.set('f0000005', { last: 'f0000009', verdict: null });
  },
  changesType(table: FakeTable, pick: number): void {
    const set = chosen(
      [...table.sets.values()].filter(({ isMap }) => !isMap),
      pick,
    );
    if (set === undefined) return;
    table.sets.set(set.name, { ...set, keyLength: set.keyLength === 4 ? 16 : 4, elements: new Map() });
  },
} as const;

function rule(statement: Statement): NftRule {
  return { matches: [], counter: false, statement, comment: 'stranger' };
}

function chosen<T>(list: readonly T[], pick: number): T | undefined {
  return list.length === 0 ? undefined : list[pick % list.length];
}

export const TAMPERING_NAMES = Object.keys(DEEDS) as Tampering['what'][];

export const tampering: fc.Arbitrary<Tampering> = fc.record({
  what: fc.constantFrom(...TAMPERING_NAMES),
  pick: fc.nat(1000),
});

export function tamper(kernel: FakeKernel, { what, pick }: Tampering): void {
  if (kernel.table() !== null) kernel.tamper((table) => DEEDS[what](table, pick));
}
