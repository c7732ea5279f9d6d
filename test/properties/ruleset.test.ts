import assert from 'node:assert/strict';
import fc from 'fast-check';
import { rulesetText } from '../../agent/render/nft-text.ts';
import type { Chain, NftRule, Ruleset } from '../../agent/render/ruleset.ts';
import type { VerdictMap } from '../../agent/render/verdict-map.ts';
import { scenario } from '../generate/scenario.ts';
import { indexChain, inputChain, rule, ruleChain, ruleset, verdictMap } from '../tracer/ruleset.ts';
import { indexSize, largestIndex } from './index-size.ts';
import { renderBoth, toConfig, toState } from './pipeline.ts';
import { check } from './runs.ts';
import { violations } from './violation.ts';

const SCENARIOS = fc.constantFrom(1, 3, 8, 20, 40).chain((size) => scenario({ size, flows: 0 }));

describe('every ruleset', function () {
  this.timeout(0);

  it('is consistent', function () {
    check(this, 200, SCENARIOS, ({ objects, node, config }) => {
      const state = toState(objects, node);
      for (const [dispatch, table] of Object.entries(renderBoth(state, toConfig(config)))) {
        assert.deepEqual(violations(table, state.rules), [], dispatch);
        rulesetText(table);
      }
    });
  });

  it('has an index that grows with the port ranges, not with their overlaps', function () {
    check(this, 100, SCENARIOS, ({ objects, node, config: written }) => {
      const state = toState(objects, node);
      const config = toConfig(written);
      const size = indexSize(renderBoth(state, config).indexed);
      const most = largestIndex(state, config);
      assert.ok(size.elements <= most.elements, `${size.elements} elements, at most ${most.elements}`);
      assert.ok(size.rules <= most.rules, `${size.rules} rules, at most ${most.rules}`);
    });
  });
});

describe('violations', () => {
  const accept = rule({ kind: 'accept' });
  const jump = (chain: string): NftRule => rule({ kind: 'jump', chain });
  const found = (table: Ruleset): string => violations(table, []).join('; ');
  const withRefuse = (...chains: readonly Chain[]) => ruleset([...chains, indexChain('refuse')]);

  it('are none in a correct table', () => {
    assert.equal(found(withRefuse(inputChain(jump('a')), indexChain('a', accept))), '');
  });

  it('are found in tables that are broken on purpose', () => {
    const range = { match: 'port', protocol: 'tcp', field: 'dport' } as const;
    const ranges = [
      [1, 2],
      [8, 9],
    ] as const;
    const inSet = { match: 'address', family: 4, field: 'saddr', in: { set: 's' } } as const;
    const broken: [Ruleset, RegExp][] = [
      [withRefuse(inputChain(jump('a'))), /chain a is missing/],
      [withRefuse(inputChain(), indexChain('a')), /chain a is unused/],
      [withRefuse(inputChain(rule({ kind: 'accept' }, inSet))), /set s is missing/],
      [
        withRefuse(
          inputChain(rule({ kind: 'portMap', protocol: 'tcp', field: 'dport', original: false, map: 'm' })),
        ),
        /map m is missing/,
      ],
      [withRefuse(inputChain(jump('a b')), indexChain('a b')), /a b is no name/],
      [withRefuse(inputChain({ ...accept, comment: 'é'.repeat(65) })), /comment of more than 128 bytes/],
      [withRefuse(inputChain(rule({ kind: 'accept' }, { ...range, ranges }))), /anonymous interval set/],
      [withRefuse(inputChain(jump('a')), indexChain('a', jump('a'))), /called 16 deep: a/],
      [withRefuse(inputChain(jump('a')), ruleChain('a', accept)), /chain a is for no rule/],
    ];
    const to = (chain: string) => ({ kind: 'goto', chain }) as const;
    const portMap = rule({ kind: 'portMap', protocol: 'tcp', field: 'dport', original: false, map: 'm' });
    const right = verdictMap('m', null, [
      [1, to('a')],
      [2, to('b')],
    ]);
    const overlapping = verdictMap('m', null, [
      [[1n, 5n], to('a')],
      [[5n, 9n], to('b')],
    ]);
    const withMap = (map: VerdictMap): Ruleset => ({
      ...withRefuse(inputChain(portMap), indexChain('a'), indexChain('b')),
      maps: new Map([[map.name, map]]),
    });
    assert.equal(found(withMap(right)), '');
    broken.push(
      [withMap({ ...right, family: 4, keys: Buffer.alloc(8) }), /looks up map m by other keys/],
      [withMap({ ...right, keys: right.keys.subarray(1) }), /map m: 3 bytes of 2 each/],
      [withMap({ ...right, keys: right.keys.toReversed() }), /map m: keys are not sorted/],
      [withMap({ ...right, targets: Uint32Array.of(0, 2) }), /map m: no such verdict/],
      [withMap(overlapping), /map m: keys are not sorted and disjoint/],
      [withMap({ ...overlapping, fixed: false }), /map m has intervals and changes in place/],
      [withMap(verdictMap('m', null, [])), /map m is empty/],
    );
    for (const [table, message] of broken) assert.match(found(table), message);
    assert.equal(found(withRefuse(inputChain(rule({ kind: 'accept' }, { ...range, ranges: [[1, 2]] })))), '');
  });
});
