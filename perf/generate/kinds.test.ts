import assert from 'node:assert/strict';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { explain } from '../../agent/observe/explain.ts';
import { DEFAULT_CONFIG } from '../../apis/config.ts';
import { parseFlow } from '../../apis/flow.ts';
import { compile } from '../../controller/compile/compile.ts';
import { nodeView } from '../../controller/publish/node-view.ts';
import { loadManifests } from '../../controller/watch/manifests.ts';
import { NODE_NAME } from './cluster.ts';
import { KINDS, ruleSet } from './kinds.ts';
import { clusterObjects, type RuleSet, ruleName, sourcesOf, writeRuleSet } from './ruleset.ts';

const SIZE = 300;

describe('kinds of rule sets', () => {
  let folder: string;
  before(async () => {
    folder = await mkdtemp(join(tmpdir(), 'nodewall-kinds-'));
  });
  after(() => rm(folder, { recursive: true }));

  for (const kind of KINDS) {
    it(`${kind}: equal sizes are equal bytes, other seeds are not where anything is drawn`, () => {
      const bytes = (seed?: string) => JSON.stringify(clusterObjects(ruleSet(kind, SIZE, seed)));
      assert.equal(bytes(), bytes());
      const isDrawn = !['ports', 'onePort', 'sources', 'ipv6'].includes(kind);
      assert.equal(bytes('other') !== bytes(), isDrawn);
    });

    it(`${kind}: valid, and its last rule alone lets the client in`, async () => {
      for (const seed of ['', 'other']) {
        const place = join(folder, `${kind}${seed}`);
        const set = ruleSet(kind, SIZE, seed);
        await writeRuleSet(place, set);
        const { objects, problems } = await loadManifests([place]);
        assert.deepEqual(
          problems.filter(({ severity }) => severity === 'error'),
          [],
        );
        const state = nodeView(compile(objects), NODE_NAME);
        assert.equal(state.rules.length, SIZE);
        for (const sourcePort of [1024, 7648, 24_032, 65_535]) {
          const { verdict, rule } = explain(state, DEFAULT_CONFIG)(flow(set, sourcePort));
          assert.deepEqual([verdict, rule], ['Allow', ruleName(SIZE - 1)]);
        }
      }
    });

    it(`${kind}: Allow, Drop and Reject`, () => {
      const actions = ruleSet(kind, SIZE).rules.map(({ action }) => action);
      assert.deepEqual([...new Set(actions)].sort(), ['Allow', 'Drop', 'Reject']);
    });
  }

  it('any size', () => {
    for (const kind of KINDS)
      for (const count of [0, 1, 2, 50]) assert.equal(ruleSet(kind, count).rules.length, count);
  });

  it('every source of the port kinds is known without a cluster', () => {
    for (const kind of ['ports', 'onePort'] as const) {
      const sources = sourcesOf(ruleSet(kind, SIZE));
      assert.ok(sources.every((list) => list !== null && list.length > 0));
      assert.deepEqual(sources.at(-1), ['10.100.0.10/32']);
    }
  });

  it('shared: an address is in many sets', () => {
    const lists = new Set(sourcesOf(ruleSet('shared', 1000)).map((list) => JSON.stringify(list)));
    const uses = new Map<string, number>();
    for (const list of lists)
      for (const address of JSON.parse(list) as string[]) uses.set(address, (uses.get(address) ?? 0) + 1);
    const sum = [...uses.values()].reduce((total, count) => total + count, 0);
    assert.ok(sum / uses.size > 7, `${sum / uses.size} sets an address`);
  });
});

function flow({ connection }: RuleSet, srcPort: number) {
  return parseFlow({
    direction: 'ingress',
    protocol: 'tcp',
    src: connection.source,
    dst: connection.destination,
    srcPort,
    dstPort: connection.port,
  });
}
