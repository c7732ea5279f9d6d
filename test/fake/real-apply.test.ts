import assert from 'node:assert/strict';
import fc from 'fast-check';
import { changesStructure, isEmptyTransaction } from '../../agent/apply/plan/transaction.ts';
import { ApplyError, NodeRuleReconciler } from '../../agent/apply/reconciler.ts';
import { rulesetText } from '../../agent/render/nft-text.ts';
import { render } from '../../agent/render/render.ts';
import type { Ruleset } from '../../agent/render/ruleset.ts';
import { type Scenario, scenario } from '../generate/scenario.ts';
import { kernelSuite } from '../kernel/kernel-suite.ts';
import { cidr, tcp } from '../kernel/manifests.ts';
import { toConfig, toState } from '../properties/pipeline.ts';
import { checkAsync } from '../properties/runs.ts';
import { EGRESS_TABLES, egressTable } from '../tracer/egress-table.ts';
import { isConvertedByNft } from './byte-order.ts';
import { interrupted, type Listing, listing } from './fake-kernel.ts';
import { closing, fromPods, ingress, pod, rulesetOf } from './node-state.ts';
import { type RealKernel, realKernel } from './real-kernel.ts';

const t = 'inet nodewall';

kernelSuite('the reconciler on the real kernel', function () {
  this.timeout(60_000);
  let kernel: RealKernel;
  let reference: RealKernel;
  before(async () => {
    [kernel, reference] = await Promise.all([realKernel(), realKernel()]);
  });
  after(() => Promise.all([kernel?.close(), reference?.close()]));
  beforeEach(() => kernel.nft(`add table ${t}\ndelete table ${t}\n`));

  /** By what the ruleset was made of: the reference has it once. */
  const listed = new WeakMap<object, unknown>();
  async function assertHolds(ruleset: Ruleset, madeOf: object = ruleset): Promise<void> {
    if (!listed.has(madeOf)) {
      // As text: what netlink makes is what nft would make of it, but for one conversion.
      await reference.nft(`add table ${t}\ndelete table ${t}\n${rulesetText(ruleset)}`);
      listed.set(madeOf, comparable(await listing(reference), ruleset));
    }
    assert.deepEqual(comparable(await listing(kernel), ruleset), listed.get(madeOf));
  }

  /** Without the digests of rules that nft converts. */
  function comparable(found: Listing, { chains }: Ruleset): unknown {
    if (found === null) return null;
    const rows = Object.entries(found).map(([heading, lines]) => {
      const rules = chains.get(/^chain (\S+)/.exec(heading)?.[1] ?? '')?.rules ?? [];
      const isConverted = (i: number): boolean => rules[i] !== undefined && isConvertedByNft(rules[i]);
      return [heading, lines.map((line, i) => (isConverted(i) ? line.replace(/^\w+/, '') : line))];
    });
    return Object.fromEntries(rows);
  }

  it('applies any ruleset over any other, incomplete or unknown', async function () {
    const drawn = fc.constantFrom(1, 4, 10, 25).chain((size) => scenario({ size, flows: 0 }));
    const rulesets = ({ objects, node, config }: Scenario) =>
      render(toState(objects, node), toConfig(config));
    const histories = fc.record({
      from: drawn,
      to: drawn,
      failed: fc.option(fc.integer({ min: 1, max: 6 })),
      restarted: fc.boolean(),
    });
    await checkAsync(this, 15, histories, async ({ from, to, failed, restarted }) => {
      const [before, after] = [rulesets(from), rulesets(to)];
      await kernel.nft(`add table ${t}\ndelete table ${t}\n`);
      let reconciler = new NodeRuleReconciler(kernel);
      await reconciler.apply(before);
      await assertHolds(before);
      if (failed !== null) {
        const broken = new NodeRuleReconciler(interrupted(kernel, failed));
        await broken.apply(after).catch((error) => assert.ok(error instanceof ApplyError));
        await reconciler.verify();
      }
      if (restarted) reconciler = new NodeRuleReconciler(kernel);
      await reconciler.apply(after);
      await assertHolds(after);
      assert.deepEqual(await reconciler.verify(), []);
    });
  });

  it('fills sets and maps of many batches', async () => {
    const members = Array.from({ length: 20_000 }, (_, i) =>
      pod('a', `10.${i >> 16}.${(i >> 8) & 255}.${i & 255}`),
    );
    const ports = Array.from({ length: 300 }, (_, i) =>
      ingress(`p${i}`, {
        name: 'r',
        action: 'Drop',
        from: [fromPods('a')],
        ports: [tcp(1 + 16 * i, 16 + 16 * i)],
      }),
    );
    const ruleset = rulesetOf([...members, ...ports]);
    await new NodeRuleReconciler(kernel).apply(ruleset);
    await assertHolds(ruleset);
    const next = rulesetOf([...members.slice(10_000), ...ports]);
    await new NodeRuleReconciler(kernel).apply(next);
    await assertHolds(next);
  });

  describe('with the tables of egress gateways', () => {
    it('goes from any to any', async () => {
      let reconciler = new NodeRuleReconciler(kernel);
      for (const from of EGRESS_TABLES) {
        for (const to of EGRESS_TABLES) {
          for (const parts of [from, to]) {
            await reconciler.apply(egressTable(parts));
            await assertHolds(egressTable(parts), parts);
            assert.deepEqual(await reconciler.verify(), []);
          }
        }
        // After a restart the rules are recognized by their digests.
        reconciler = new NodeRuleReconciler(kernel);
        assert.ok(
          isEmptyTransaction((await reconciler.apply(egressTable(EGRESS_TABLES.at(-1)))).transaction),
        );
      }
    });

    it('changes elements of maps by marks, addresses and MACs alone', async () => {
      const reconciler = new NodeRuleReconciler(kernel);
      await reconciler.apply(egressTable());
      for (const parts of [EGRESS_TABLES[1], EGRESS_TABLES[3], {}]) {
        const { transaction } = await reconciler.apply(egressTable(parts));
        assert.ok(!isEmptyTransaction(transaction) && !changesStructure(transaction));
      }
    });

    const drift: Readonly<Record<string, string>> = {
      'a deleted mark': 'delete element inet nodewall egress-restore { 0x07000000 }',
      'a mark that leads elsewhere':
        'delete element inet nodewall egress-restore { 0x07000000 : goto egress-slot-7 }; add element inet nodewall egress-restore { 0x07000000 : goto egress-slot-9 }',
      'another MAC':
        'add element inet nodewall egress-arrivals { 10.2.0.5 . 0e:00:00:00:00:03 : goto egress-take-1 }',
      'a rule that marks': 'insert rule inet nodewall egress-slot-7 ct mark set 0x0',
      'other buckets':
        'flush chain inet nodewall egress-spread; add rule inet nodewall egress-spread jhash ip saddr . ip daddr mod 2 seed 0x0 vmap { 0 : goto egress-slot-7, 1 : goto egress-slot-9 }',
      'another address':
        'flush chain inet nodewall egress-translate-1-0; add rule inet nodewall egress-translate-1-0 snat ip to 192.0.2.66',
    };
    for (const [what, commands] of Object.entries(drift)) {
      it(`sees and repairs ${what}`, async () => {
        const reconciler = new NodeRuleReconciler(kernel);
        await reconciler.apply(egressTable());
        await kernel.nft(commands.replaceAll('; ', '\n'));
        assert.notDeepEqual(await reconciler.verify(), []);
        await reconciler.apply(egressTable());
        await assertHolds(egressTable());
        assert.deepEqual(await reconciler.verify(), []);
      });
    }
  });

  describe('sees and repairs', () => {
    const ruleset = rulesetOf([
      closing('ssh', 22),
      ingress('pods', { name: 'in', action: 'Allow', from: [fromPods('a')], ports: [tcp(5432)] }),
      ingress('nets', {
        name: 'in',
        action: 'Drop',
        from: [cidr('10.0.0.0/8'), cidr('192.0.2.0/25')],
        ports: [tcp(1000, 2000)],
      }),
      ingress('both', { name: 'all', action: 'Reject', ports: [tcp(22), tcp(1500)] }),
      ...Array.from({ length: 20 }, (_, i) => closing(`crowd-${i}`, 3000 + 2 * i)),
      pod('a', '10.1.0.1'),
    ]);
    const sets = [...ruleset.sets.values()].filter(({ family }) => family === 4);
    const hash = sets.find(({ interval, members }) => !interval && members.singles.length > 0)?.name;
    const ranges = sets.find(({ interval }) => interval)?.name;
    const mapOf = (isInterval: boolean): string => {
      const found = [...ruleset.maps.values()].find(({ interval }) => interval === isInterval);
      assert.ok(found !== undefined);
      return found.name;
    };
    const [map, rangeMap] = [mapOf(false), mapOf(true)];
    const rangeTarget = ruleset.maps.get(rangeMap)?.verdicts[0]?.chain;
    const list = 'ingress-tcp';

    const foreign: Readonly<Record<string, readonly string[]>> = {
      'a base chain that drops': [`chain ${t} input { policy drop; }`],
      'a dormant table': [`add table ${t} { flags dormant; }`],
      'every address in a set': [`add element ${t} ${hash} { * }`],
      'every port in a map': [`add element ${t} ${map} { * : drop }`],
      'a port that is accepted': [`add element ${t} ${map} { 64999 : accept }`],
      'an address': [`add element ${t} ${hash} { 203.0.113.9 }`],
      'a deleted address': [`delete element ${t} ${hash} { 10.1.0.1 }`],
      'a prefix': [`add element ${t} ${ranges} { 223.1.0.0/16 }`],
      'a range that is no prefix': [`add element ${t} ${ranges} { 223.255.255.5-223.255.255.9 }`],
      'a deleted prefix': [`delete element ${t} ${ranges} { 10.0.0.0/8 }`],
      'a flushed set': [`flush set ${t} ${hash}`],
      'a flushed map': [`flush map ${t} ${map}`],
      'a flushed map of ranges': [`flush map ${t} ${rangeMap}`],
      'a range that is accepted': [`add element ${t} ${rangeMap} { 64000-64999 : accept }`],
      'a changed chain that a range leads to': [`add rule ${t} ${rangeTarget} accept`],
      'a flushed list': [`flush chain ${t} ${list}`],
      'a flushed table': [`flush table ${t}`],
      'a deleted table': [`delete table ${t}`],
      'a rule in front': [`insert rule ${t} input accept`],
      'a rule behind': [`add rule ${t} refuse accept`],
      'a chain': [`add chain ${t} x`, `add rule ${t} x jump ingress`],
      'a base chain': [`add chain ${t} x { type filter hook prerouting priority -300; policy drop; }`],
      'a bound chain': [`add rule ${t} ingress jump { accept; }`],
      'a chain with a hard name': [`add chain ${t} x/y_z.w-1`],
      'a renamed chain': [`rename chain ${t} ingress x`],
      'a stale chain of an earlier run': [
        `add chain ${t} stale-0`,
        `add rule ${t} input jump stale-0`,
        `add rule ${t} refuse accept`,
      ],
      'a set of ports': [`add set ${t} x { type inet_service; flags interval; elements = { 1-5 }; }`],
      'a set of pairs': [
        `add set ${t} x { type ipv4_addr . inet_service; flags interval; elements = { 192.0.2.0/24 . 22 }; }`,
      ],
      'a set with timeouts': [
        `add set ${t} x { type ipv4_addr; flags dynamic, timeout; timeout 5m; elements = { 192.0.2.1 timeout 2m }; }`,
      ],
      'a map of marks': [`add map ${t} x { type ipv4_addr : mark; }`],
      'a verdict map in use': [
        `add chain ${t} x`,
        `add map ${t} y { type inet_service : verdict; elements = { 1 : jump x }; }`,
        `add rule ${t} input tcp dport vmap @y`,
      ],
      'a verdict map that only strangers use': [
        `add chain ${t} x`,
        `add chain ${t} z`,
        `add map ${t} y { type inet_service : verdict; elements = { 1 : jump x }; }`,
        `add rule ${t} z tcp dport vmap @y`,
      ],
      'strangers that jump to one another': [
        `add chain ${t} x`,
        `add chain ${t} z`,
        `add rule ${t} x jump z`,
      ],
      'a counter of strangers in a rule': [`add counter ${t} x`, `add rule ${t} ingress counter name x`],
    };
    for (const [what, lines] of Object.entries(foreign)) {
      it(what, async () => {
        const reconciler = new NodeRuleReconciler(kernel);
        await reconciler.apply(ruleset);
        await kernel.nft(`${lines.join('\n')}\n`);
        assert.notDeepEqual(await reconciler.verify(), [], 'not seen');
        await reconciler.apply(ruleset);
        await assertHolds(ruleset);
        assert.deepEqual(await reconciler.verify(), []);
      });

      it(`${what}, found at start`, async () => {
        await new NodeRuleReconciler(kernel).apply(ruleset);
        await kernel.nft(`${lines.join('\n')}\n`);
        await new NodeRuleReconciler(kernel).apply(ruleset);
        await assertHolds(ruleset);
      });
    }
  });
});
