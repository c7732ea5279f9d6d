import assert from 'node:assert/strict';
import fc from 'fast-check';
import {
  type ChainVerdict,
  changeEntries,
  eachEntry,
  MapChanges,
  toVerdictMap,
  type VerdictMap,
} from './verdict-map.ts';

const DECLARED = { name: 'm', key: 'addressMac', family: 4, interval: false, fixed: false } as const;
const CHANGE = fc.record({
  address: fc.constantFrom([10, 0, 0, 1], [10, 0, 0, 2], [10, 0, 1, 0], [192, 168, 0, 0]),
  mac: fc.nat(1),
  chain: fc.constantFrom(null, 'a', 'b'),
});

function elements(map: VerdictMap): unknown[] {
  const found: unknown[] = [];
  eachEntry(map, (first, _, { chain }) => found.push([[...first].join('.'), chain]));
  return found;
}

describe('changes of a map', () => {
  it('property: lead to the map of all elements, whatever the steps', () => {
    fc.assert(
      fc.property(fc.array(fc.array(CHANGE, { maxLength: 40, size: 'max' }), { maxLength: 5 }), (steps) => {
        const model = new Map<string, { first: Uint8Array; verdict: ChainVerdict }>();
        let map = toVerdictMap(DECLARED, []);
        for (const step of steps) {
          const changes = new MapChanges(12);
          for (const { address, mac, chain } of step) {
            const rest = Uint8Array.of(14, 0, 0, 0, 0, mac, 0, 0);
            const verdict = chain === null ? null : ({ kind: 'goto', chain } as const);
            changes.push(Uint8Array.from(address), rest, verdict);
            const first = Uint8Array.of(...address, ...rest);
            if (verdict === null) model.delete(first.join());
            else model.set(first.join(), { first, verdict });
          }
          const before = elements(map);
          const next = changeEntries(map, changes);
          assert.deepEqual(elements(map), before, 'the map before stays');
          map = next;
          assert.deepEqual(elements(map), elements(toVerdictMap(DECLARED, [...model.values()])));
          assert.equal(map.verdicts.length, new Set(map.targets).size, 'without unused verdicts');
        }
      }),
    );
  });

  it('leave the map itself if there are none', () => {
    const map = toVerdictMap(DECLARED, []);
    assert.equal(changeEntries(map, new MapChanges(12)), map);
  });
});
