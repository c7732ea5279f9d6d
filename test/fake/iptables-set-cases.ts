import assert from 'node:assert/strict';
import { RefusedError } from '../../agent/apply/dataplane.ts';
import { readSets } from '../../agent/apply/iptables/kernel-set.ts';
import { IptablesReconciler } from '../../agent/apply/iptables/reconciler.ts';
import { applied, type IptablesCase, processesOf } from './iptables-case.ts';
import { addressSet } from './iptables-ruleset.ts';
import { NETS6, RULESET, SERVICES, WEB4, withSets } from './iptables-web-server.ts';

/** What fake and kernel do alike with the members of sets. */
export const SET_CASES: readonly IptablesCase[] = [
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
      assert.deepEqual(
        new Set(nets?.entries.map((entry) => Object.values(entry)[0])),
        new Set(['::/1', '8000::/1']),
      );
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
