import assert from 'node:assert/strict';
import type { NamedSet, NftRule } from '../render/ruleset.ts';
import type { VerdictMap } from '../render/verdict-map.ts';
import { chainBytes, mapBytes, OBJECT_BYTES, setBytes } from './index-stats.ts';

const {
  chain,
  rulesOfChain,
  jump,
  lookup,
  rule,
  element,
  interval,
  intervalArray,
  map,
  set,
  commented,
  anonymous,
} = OBJECT_BYTES;

const rules = (...given: readonly Partial<NftRule>[]): { rules: NftRule[] } => ({
  rules: given.map((one) => ({
    matches: [],
    counter: false,
    statement: { kind: 'drop' },
    comment: null,
    ...one,
  })),
});
const verdictMap = (family: VerdictMap['family'], isInterval: boolean, count: number): VerdictMap => ({
  name: 'm',
  key: family === null ? 'port' : 'address',
  family,
  interval: isInterval,
  fixed: isInterval,
  keys: new Uint8Array(),
  targets: new Uint32Array(count),
  verdicts: [],
});
const namedSet = (isInterval: boolean, count: number): NamedSet => ({
  name: 's',
  family: 4,
  key: 'address',
  interval: isInterval,
  members: { singles: new Uint8Array(4 * count), prefixes: [] },
  comment: '',
});

describe('kernel memory', () => {
  it('of chains is that of their rules', () => {
    const toRule = { statement: { kind: 'jump', chain: 'c' } } as const;
    const look = { statement: { kind: 'addressMap', family: 4, field: 'saddr', map: 'm' } } as const;
    assert.equal(chainBytes(rules()), chain);
    assert.equal(chainBytes(rules(toRule, toRule)), chain + rulesOfChain + 2 * jump);
    assert.equal(chainBytes(rules(look)), chain + rulesOfChain + lookup);
  });

  it('of a policy rule grows with its matches, and with the sets in it', () => {
    const port = (...ranges: [number, number][]) =>
      ({ match: 'port', protocol: 'tcp', field: 'dport', ranges }) as const;
    const of = (...matches: NftRule['matches']): number =>
      chainBytes(rules({ counter: true, matches })) - chain - rulesOfChain;
    const family = { match: 'nfproto', family: 4 } as const;
    assert.equal(of(), rule[0]);
    assert.equal(of(port([80, 80])), rule[1]);
    assert.equal(of(port([80, 80]), family), rule[2]);
    assert.equal(of(port([80, 80], [443, 443])), rule[1] + anonymous.ports);
    assert.equal(of(port([80, 89], [443, 443])), rule[1] + anonymous.intervals + 2 * interval);
  });

  it('of maps and sets is that of their elements, and more for interval sets', () => {
    assert.equal(mapBytes(verdictMap(null, false, 0)), map);
    assert.equal(mapBytes(verdictMap(null, false, 10)), map + 10 * element);
    assert.ok(mapBytes(verdictMap(6, false, 10)) > mapBytes(verdictMap(4, false, 10)));
    assert.equal(mapBytes(verdictMap(4, true, 0)), map);
    assert.equal(mapBytes(verdictMap(4, true, 10)), map + intervalArray + 10 * interval);
    assert.equal(setBytes(namedSet(false, 10)), set + commented + 10 * element);
    assert.equal(setBytes({ ...namedSet(false, 10), comment: null }), set + 10 * element);
    assert.equal(setBytes(namedSet(true, 10)), set + intervalArray + 10 * interval);
  });
});
