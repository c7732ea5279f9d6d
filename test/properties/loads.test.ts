import assert from 'node:assert/strict';
import fc from 'fast-check';
import { rulesetText } from '../../agent/render/nft-text.ts';
import { KEY_LENGTH, type Ruleset } from '../../agent/render/ruleset.ts';
import { scenario } from '../generate/scenario.ts';
import { kernelSuite } from '../kernel/kernel-suite.ts';
import { createNamespace, type Namespace } from '../netns/namespace.ts';
import { renderBoth, toConfig, toState } from './pipeline.ts';
import { cases } from './runs.ts';

/** Numbers of what a table holds: by chain its rules, by set and map their elements. */
type Counts = Record<string, number>;

kernelSuite('random rulesets on the kernel', function () {
  this.timeout(0);
  let namespace: Namespace;
  before(async () => {
    namespace = await createNamespace('loads');
  });
  after(() => namespace?.close());

  it('load, and the kernel lists as many rules and elements', async () => {
    const seed = Number(process.env.NODEWALL_SEED ?? Date.now() % 2 ** 31);
    const drawn = fc.sample(
      fc.constantFrom(1, 5, 10, 30).chain((size) => scenario({ size, flows: 0 })),
      { numRuns: cases(20), seed },
    );
    for (const { objects, node, config } of drawn) {
      const state = toState(objects, node);
      for (const table of Object.values(renderBoth(state, toConfig(config)))) {
        const text = rulesetText(table);
        const again = `again: NODEWALL_SEED=${seed}\n${text}`;
        const { status, stderr } = await namespace.run(['nft', '-f', '-'], {
          stdin: `add table inet nodewall\ndelete table inet nodewall\n${text}`,
          anyStatus: true,
        });
        assert.equal(status, 0, `${stderr}\n${again}`);
        assert.deepEqual(await listed(namespace), wanted(table), again);
      }
    }
  });
});

function wanted({ chains, sets, maps }: Ruleset): Counts {
  const counts: Counts = {};
  for (const { name, rules } of chains.values()) counts[`chain ${name}`] = rules.length;
  for (const { name, key, family, members } of sets.values()) {
    counts[`set ${name}`] = members.singles.length / KEY_LENGTH[key][family] + members.prefixes.length;
  }
  for (const { name, targets } of maps.values()) counts[`map ${name}`] = targets.length;
  return sorted(counts);
}

/** The part of nft's JSON that is read here (libnftables-json(5)). */
interface Listed {
  readonly nftables: readonly {
    readonly chain?: { readonly name: string };
    readonly rule?: { readonly chain: string };
    readonly set?: { readonly name: string; readonly elem?: readonly unknown[] };
    readonly map?: { readonly name: string; readonly elem?: readonly unknown[] };
  }[];
}

async function listed(namespace: Namespace): Promise<Counts> {
  const { stdout } = await namespace.run(['nft', '--json', 'list', 'table', 'inet', 'nodewall']);
  const counts: Counts = {};
  for (const { chain, rule, set, map } of (JSON.parse(stdout) as Listed).nftables) {
    if (chain !== undefined) counts[`chain ${chain.name}`] = 0;
    if (rule !== undefined) counts[`chain ${rule.chain}`] = (counts[`chain ${rule.chain}`] ?? 0) + 1;
    if (set !== undefined) counts[`set ${set.name}`] = set.elem?.length ?? 0;
    if (map !== undefined) counts[`map ${map.name}`] = map.elem?.length ?? 0;
  }
  return sorted(counts);
}

function sorted(counts: Counts): Counts {
  return Object.fromEntries(Object.entries(counts).sort(([a], [b]) => (a < b ? -1 : 1)));
}
