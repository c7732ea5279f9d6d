import assert from 'node:assert/strict';
import { readSets } from '../../agent/apply/iptables/kernel-set.ts';
import { IptablesReconciler } from '../../agent/apply/iptables/reconciler.ts';
import { IptablesCounters } from '../../agent/apply/iptables/saved.ts';
import { RefusedError } from '../../agent/apply/reconciler-interface.ts';
import type { IptablesRuleset } from '../../agent/render/iptables/tables.ts';
import { FAMILIES } from '../../lib/net/address.ts';
import {
  addressSet,
  applied,
  filter4,
  type IptablesCase,
  iptablesRuleset,
  JUMPS,
  NETS6,
  processesOf,
  RULESET,
  removed,
  SERVICES,
  WEB4,
  withSets,
} from './iptables-ruleset.ts';

/** What fake and kernel do alike with the members of sets. */
const SET_CASES: readonly IptablesCase[] = [
  {
    name: 'changes members in one process',
    async run(tools) {
      const reconciler = await applied(tools);
      const web = addressSet('nodewall-web-4', 4, ['192.0.2.2', '192.0.2.3']);
      let change = '';
      assert.equal(
        await processesOf(tools, async () => {
          const done = await reconciler.apply(withSets([web, NETS6, SERVICES]));
          assert.equal(done.change.changesStructure, false);
          change = done.change.text();
        }),
        1,
      );
      assert.equal(
        change,
        '# ipset restore\nadd nodewall-web-4 192.0.2.3\n# ipset restore\ndel nodewall-web-4 192.0.2.1\n',
      );
      assert.deepEqual(await reconciler.verify(), []);
    },
  },
  {
    name: 'takes members away after the rules have changed',
    async run(tools) {
      const reconciler = await applied(tools);
      const web = addressSet('nodewall-web-4', 4, ['192.0.2.2', '192.0.2.3']);
      // The rule is refused: nobody has come to lack what was let through.
      const refused = withSets([web, NETS6, SERVICES], ['--bogus']);
      await assert.rejects(reconciler.apply(refused), RefusedError);
      const { members } = (await readSets(tools.ipset)).get('nodewall-web-4') ?? {};
      assert.deepEqual(
        [...(members?.singles ?? [])].filter((_, i) => i % 4 === 3),
        [1, 2, 3],
      );
      await reconciler.apply(withSets([web, NETS6, SERVICES], ['-p udp -j ACCEPT']));
      assert.deepEqual(await reconciler.verify(), []);
    },
  },
  {
    name: 'replaces most members, and more than a set has room for, at once',
    async run(tools) {
      const reconciler = await applied(tools);
      for (const count of [70_000, 300]) {
        const many = Array.from({ length: count }, (_, i) => `10.${i >> 16}.${(i >> 8) & 255}.${i & 255}`);
        const ruleset = withSets([addressSet('nodewall-web-4', 4, many), NETS6, SERVICES]);
        const { change } = await reconciler.apply(ruleset);
        assert.ok(change.text().includes('swap nodewall-tmp-0 nodewall-web-4\n') && !change.changesStructure);
        assert.deepEqual(await reconciler.verify(), []);
      }
      assert.deepEqual((await tools.ipset.names()).sort(), [
        'nodewall-nets-6',
        'nodewall-services-4',
        'nodewall-web-4',
      ]);
    },
  },
  {
    name: 'holds /0 as two halves and leaves out what hash:ip cannot hold',
    async run(tools) {
      const zero = addressSet('nodewall-web-4', 4, ['0.0.0.0', '192.0.2.1']);
      const all = addressSet('nodewall-nets-6', 6, ['::/0']);
      const reconciler = new IptablesReconciler(tools);
      const { change } = await reconciler.apply(withSets([zero, all, SERVICES]));
      assert.match(change.text(), /set nodewall-web-4: 1 members have the address of all zeros/);
      assert.deepEqual(await reconciler.verify(), []);
      const [nets] = await tools.ipset.save('nodewall-nets-6');
      assert.deepEqual(new Set(nets?.entries), new Set(['::/1', '8000::/1']));
    },
  },
  {
    name: 'tries again to destroy a set that others use, and never lets its old members in',
    async run(tools) {
      const name = 'nodewall-more-4';
      const others = (verb: string) =>
        `*filter\n${verb} INPUT -m set --match-set ${name} src -j DROP\nCOMMIT\n`;
      const more = (members: readonly string[]) =>
        withSets([WEB4, NETS6, SERVICES, addressSet(name, 4, members)]);
      const reconciler = await applied(tools, more(['192.0.2.1', '192.0.2.2']));
      await tools.restore(4, others('-A'));
      assert.match(
        (await reconciler.apply(RULESET)).leftBehind?.message ?? '',
        /^not removed: set nodewall-more-4/,
      );
      assert.deepEqual(await reconciler.verify(), []);
      await reconciler.apply(more(['192.0.2.2', '192.0.2.3']));
      assert.deepEqual(
        (await tools.ipset.save(name)).flatMap(({ entries }) => entries.length),
        [2],
      );
      assert.deepEqual(await reconciler.verify(), []);
      await reconciler.apply(RULESET);
      // A change is not made longer by it, but what has nothing else to do tries again.
      const tcp = withSets([WEB4, NETS6, SERVICES], ['-p tcp -j DROP']);
      assert.equal((await reconciler.apply(tcp)).leftBehind, null);
      assert.match((await reconciler.apply(tcp)).leftBehind?.message ?? '', /set nodewall-more-4/);
      await tools.restore(4, others('-D'));
      assert.equal((await reconciler.apply(tcp)).leftBehind, null);
      assert.ok(!(await tools.ipset.names()).includes(name));
      assert.equal(await processesOf(tools, () => reconciler.apply(tcp)), 0);
      assert.deepEqual(await reconciler.verify(), []);
    },
  },
];

/**
 * What fake and kernel, and both variants of iptables, do alike. Each begins with a kernel that
 * holds nothing.
 */
export const IPTABLES_CASES: readonly IptablesCase[] = [
  {
    name: 'makes the kernel hold a ruleset, in six processes, and then nothing differs',
    async run(tools) {
      const reconciler = new IptablesReconciler(tools);
      assert.deepEqual(await reconciler.verify(), []);
      assert.equal(await reconciler.holdsRules(), false);
      const planned = await reconciler.plan(RULESET);
      assert.ok(planned.changesStructure && planned.text().includes('-I INPUT 1 -j NODEWALL-INPUT'));
      assert.equal(await processesOf(tools, () => new IptablesReconciler(tools).apply(RULESET)), 6);
      const again = await applied(tools);
      assert.deepEqual(await again.verify(), []);
      assert.equal(await again.holdsRules(), true);
      const { chains, leads } = await filter4(tools);
      assert.deepEqual(
        chains.get('NODEWALL-WEB')?.map(({ text }) => text),
        ['-p tcp -m tcp --dport 80 -j ACCEPT', '-m set --match-set nodewall-services-4 dst,dst -j DROP'],
      );
      assert.deepEqual(leads, [
        { from: 'INPUT', isBuiltin: true, to: 'NODEWALL-INPUT', text: '-j NODEWALL-INPUT', isFirst: true },
      ]);
    },
  },
  {
    name: 'writes nothing where all is as wanted, at a restart too',
    async run(tools) {
      const reconciler = await applied(tools);
      assert.equal(await processesOf(tools, () => reconciler.apply(withSets([WEB4, NETS6, SERVICES]))), 0);
      const restarted = new IptablesReconciler(tools);
      let isEmpty = false;
      assert.equal(
        await processesOf(tools, async () => {
          isEmpty = (await restarted.apply(RULESET)).change.isEmpty;
        }),
        3,
      );
      assert.ok(isEmpty);
    },
  },
  {
    name: 'puts its jumps first, once each, and leaves rules of others alone',
    async run(tools) {
      await tools.restore(4, '*filter\n-A INPUT -s 203.0.113.1/32 -j ACCEPT\nCOMMIT\n');
      const reconciler = await applied(tools);
      await tools.restore(
        4,
        '*filter\n-I INPUT 1 -s 203.0.113.2/32 -j DROP\n-A INPUT -j NODEWALL-INPUT\n-A OUTPUT -j NODEWALL-WEB\nCOMMIT\n',
      );
      assert.deepEqual(await reconciler.verify(), [
        'iptables filter: 2 rules of INPUT jump to chains of nodewall',
        'iptables filter: a rule of OUTPUT jumps to NODEWALL-WEB',
      ]);
      await reconciler.apply(RULESET);
      assert.deepEqual(await reconciler.verify(), []);
      const rules = (await tools.save(4)).split('\n').filter((line) => / -A (IN|OUT)PUT /.test(line));
      assert.deepEqual(
        rules.map((line) => line.replace(/^\S+ /, '')),
        [
          '-A INPUT -j NODEWALL-INPUT',
          '-A INPUT -s 203.0.113.2/32 -j DROP',
          '-A INPUT -s 203.0.113.1/32 -j ACCEPT',
        ],
      );
      await tools.restore(4, '*filter\n-I INPUT 1 -s 203.0.113.2/32 -j DROP\nCOMMIT\n');
      assert.deepEqual(await reconciler.verify(), [
        'iptables filter: the jump from INPUT to NODEWALL-INPUT is not the first rule',
      ]);
      await tools.restore(4, '*filter\n-D INPUT -j NODEWALL-INPUT\nCOMMIT\n');
      assert.deepEqual(await reconciler.verify(), [
        'iptables filter: the jump from INPUT to NODEWALL-INPUT is missing',
      ]);
      await reconciler.apply(RULESET);
      assert.deepEqual(await reconciler.verify(), []);
    },
  },
  {
    name: 'tells what others changed, and repairs it',
    async run(tools) {
      const reconciler = await applied(tools);
      await tools.restore(
        4,
        '*filter\n:NODEWALL-OTHER - [0:0]\n:NODEWALL-WEB - [0:0]\nCOMMIT\n*nat\n-D POSTROUTING -j NODEWALL-POSTROUTING\n:NODEWALL-POSTROUTING - [0:0]\n-X NODEWALL-POSTROUTING\nCOMMIT\n',
      );
      await tools.ipset.restore([
        { op: 'create', set: { name: 'nodewall-more', type: 'hash:ip' } },
        { op: 'create', set: { name: 'others', type: 'hash:ip' } },
        { op: 'del', set: 'nodewall-web-4', entry: '192.0.2.1' },
      ]);
      assert.deepEqual(await reconciler.verify(), [
        'iptables filter: chain NODEWALL-WEB was changed',
        'iptables filter: chain NODEWALL-OTHER is foreign',
        'iptables nat: the jump from POSTROUTING to NODEWALL-POSTROUTING is missing',
        'iptables nat: chain NODEWALL-POSTROUTING is missing',
        'set nodewall-web-4 has different members',
        'set nodewall-more is foreign',
      ]);
      const { leftBehind } = await reconciler.apply(RULESET);
      assert.equal(leftBehind, null);
      assert.deepEqual(await reconciler.verify(), []);
      assert.ok((await tools.ipset.names()).includes('others'));
    },
  },
  {
    name: 'sweeps what an older or crashed run left, but not what others use',
    async run(tools) {
      await tools.ipset.restore([
        { op: 'create', set: { name: 'nodewall-tmp-0', type: 'hash:net' } },
        { op: 'create', set: { name: 'nodewall-old', type: 'hash:ip' } },
        { op: 'create', set: { name: 'nodewall-used', type: 'hash:ip' } },
      ]);
      await tools.restore(
        4,
        '*filter\n:NODEWALL-OLD - [0:0]\n:NODEWALL-OLDER - [0:0]\n:NODEWALL-KEPT - [0:0]\n:OTHER - [0:0]\n-A INPUT -j NODEWALL-OLD\n-A NODEWALL-OLD -m set --match-set nodewall-old src -j NODEWALL-OLDER\n-A NODEWALL-OLDER -j RETURN\n-A NODEWALL-KEPT -j RETURN\n-A OTHER -j NODEWALL-KEPT\n-A OTHER -m set --match-set nodewall-used src -j DROP\nCOMMIT\n',
      );
      const reconciler = new IptablesReconciler(tools);
      const { leftBehind } = await reconciler.apply(RULESET);
      assert.match(
        leftBehind?.message ?? '',
        /chain NODEWALL-KEPT of table filter: a rule of chain OTHER jumps to it; set nodewall-used: .*in use/,
      );
      const { chains } = await filter4(tools);
      assert.deepEqual([...chains.keys()].sort(), ['NODEWALL-INPUT', 'NODEWALL-KEPT', 'NODEWALL-WEB']);
      assert.deepEqual((await tools.ipset.names()).sort(), [
        'nodewall-nets-6',
        'nodewall-services-4',
        'nodewall-used',
        'nodewall-web-4',
      ]);
      assert.deepEqual(await reconciler.verify(), []);
    },
  },
  {
    name: 'drops chains and sets that are wanted no more',
    async run(tools) {
      const reconciler = await applied(tools);
      const less = iptablesRuleset({ filter: { 'NODEWALL-INPUT': ['-j RETURN'] }, jumps: JUMPS });
      await reconciler.apply(less);
      assert.deepEqual(await reconciler.verify(), []);
      assert.deepEqual(await tools.ipset.names(), []);
      assert.deepEqual([...(await filter4(tools)).chains.keys()], ['NODEWALL-INPUT']);
    },
  },
  {
    name: 'says which rule was refused, leaves what was in force, and goes on',
    async run(tools) {
      const reconciler = await applied(tools);
      const before = await filter4(tools);
      const refused = withSets(
        [WEB4, NETS6, SERVICES],
        ['-p tcp -j ACCEPT', '-p tcp -m tcp --bogus -j ACCEPT'],
      );
      await assert.rejects(reconciler.apply(refused), (error: RefusedError) => {
        assert.ok(error instanceof RefusedError, String(error));
        assert.equal(error.source?.rule, 'NODEWALL-WEB/1');
        assert.match(error.message, /chain NODEWALL-WEB.*unknown option "--bogus"/);
        return true;
      });
      assert.deepEqual(await filter4(tools), before);
      await reconciler.apply(RULESET);
      assert.deepEqual(await reconciler.verify(), []);
    },
  },
  {
    name: 'puts back what one table or family had where another is refused',
    async run(tools) {
      const web = ['-p udp -j DROP'];
      const { families, ...changed } = withSets([WEB4, NETS6, SERVICES], web);
      const six = iptablesRuleset({ filter: { 'NODEWALL-INPUT': ['--bogus'] }, jumps: JUMPS });
      const [filter] = families[4];
      const [nat] = iptablesRuleset({
        nat: { 'NODEWALL-POSTROUTING': ['--bogus'] },
        jumps: JUMPS,
      }).families[4];
      assert.ok(filter !== undefined && nat !== undefined);
      const refused: readonly IptablesRuleset[] = [
        { ...changed, families: { ...families, 6: six.families[6] } },
        { ...changed, families: { ...families, 4: [filter, nat] } },
      ];
      const text = async () =>
        [await tools.save(4), await tools.save(6)]
          .join('')
          .split('\n')
          .filter((line) => line.includes('NODEWALL-'));
      for (const ruleset of refused) {
        const reconciler = new IptablesReconciler(tools);
        await assert.rejects(reconciler.apply(ruleset), RefusedError);
        assert.deepEqual(await text(), []);
        assert.equal(await reconciler.holdsRules(), false);
      }
      const reconciler = await applied(tools);
      await tools.restore(
        4,
        '*filter\n:NODEWALL-WEB - [0:0]\n[7:700] -A NODEWALL-WEB -p tcp -m tcp --dport 80 -j ACCEPT\n-A NODEWALL-WEB -m set --match-set nodewall-services-4 dst,dst -j DROP\nCOMMIT\n',
      );
      const before = await text();
      for (const ruleset of refused) {
        // Known to the reconciler, and as one finds it that has just been started.
        await assert.rejects(reconciler.apply(ruleset), RefusedError);
        await assert.rejects(new IptablesReconciler(tools).apply(ruleset), RefusedError);
        const uncounted = (lines: string[]) => lines.map((line) => line.replace(/^\[.*?\] /, '')).sort();
        assert.deepEqual(uncounted(await text()), uncounted(before));
      }
      await reconciler.apply(RULESET);
      assert.deepEqual(await reconciler.verify(), []);
    },
  },
  {
    name: 'keeps what rules have counted where they are written again',
    async run(tools) {
      const text =
        '*filter\n:NODEWALL-WEB - [0:0]\n[5:500] -A NODEWALL-WEB -p tcp -m tcp --dport 80 -j ACCEPT\n[7:700] -A NODEWALL-WEB -m set --match-set nodewall-services-4 dst,dst -j DROP\nCOMMIT\n';
      const reconciler = await applied(tools);
      await tools.restore(4, text);
      const counters = new IptablesCounters();
      const counts = async () => {
        const chains = await Promise.all(
          FAMILIES.map(async (family) =>
            counters.read(family, await tools.save(family), reconciler.inForce()),
          ),
        );
        return chains
          .flat()
          .map(({ rules }) => Number(rules[0]?.packets))
          .sort();
      };
      assert.deepEqual(await counts(), [0, 5, 7]);
      // One has another text now, and counts anew; the other stands elsewhere in the chain.
      await reconciler.apply(
        withSets([WEB4, NETS6, SERVICES], ['-p udp -j DROP', '-p tcp -m tcp --dport 443 -j ACCEPT @one']),
      );
      assert.deepEqual(await counts(), [0, 0, 7]);
      const [, first, second] = (await filter4(tools)).chains.get('NODEWALL-WEB') ?? [];
      assert.deepEqual([first?.packets, first?.bytes, second?.packets, second?.bytes], [0, 0, 7, 700]);
    },
  },
  {
    name: 'removes all that is ours',
    async run(tools) {
      assert.deepEqual(await removed(tools), []);
      await applied(tools);
      await tools.ipset.restore([{ op: 'create', set: { name: 'others', type: 'hash:ip' } }]);
      assert.deepEqual(await removed(tools), [
        'iptables, table filter: 1 jumps, 2 chains',
        'iptables, table nat: 1 jumps, 1 chains',
        'ip6tables, table filter: 1 jumps, 1 chains',
        'ipset: 3 sets',
      ]);
      assert.ok(!(await tools.save(4)).includes('NODEWALL-'));
      assert.deepEqual(await tools.ipset.names(), ['others']);
      assert.deepEqual(await removed(tools), []);
    },
  },
  ...SET_CASES,
];
