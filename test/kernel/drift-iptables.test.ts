/** What others do to our chains and sets is undone; what others own is left alone. */
import assert from 'node:assert/strict';
import { dataplaneSuite, IPTABLES_LEGACY, IPTABLES_NFT, REPAIRED_WITHIN } from './dataplane.ts';
import { type DriftBed, driftBed } from './drift-bed.ts';
import { commandOf } from './iptables.ts';
import { FAMILIES, type Family } from './passed-by.ts';
import { until } from './until.ts';
import { withVariations } from './variations.ts';

interface Place {
  readonly family: Family;
  readonly table: string;
  readonly chain: string;
}

for (const dataplane of withVariations([IPTABLES_NFT], [IPTABLES_LEGACY])) {
  dataplaneSuite('drift', dataplane, () => {
    const variant = dataplane.iptables ?? 'nft';
    let bed: DriftBed;
    before(async () => {
      // A rule that both families have.
      bed = await driftBed(dataplane, 'various/deny');
    });
    after(() => bed?.node.close());
    afterEach(() => bed.assertOthersLeftAlone());

    const run = (...argv: readonly string[]) => bed.node.topology.node.run(argv);
    const iptables = (family: Family, ...argv: readonly string[]) =>
      run(commandOf(variant, family), '--wait', '5', ...argv);
    const ipset = (...argv: readonly string[]) => run('ipset', ...argv);

    async function assertRepaired(what: string, damage: () => Promise<unknown>): Promise<void> {
      const logged = bed.agent.log().length;
      await damage();
      // The agent may have repaired it before it is read here; what it logs then comes later.
      await until(
        `done: ${what}`,
        async () =>
          (await bed.node.rules()) !== bed.rules || bed.agent.log().slice(logged).includes('third party'),
        { limit: REPAIRED_WITHIN, news: bed.agent.news },
      );
      await bed.untilRepaired(what);
    }

    /** Our chains that have rules. */
    async function places(): Promise<Place[]> {
      const found = await Promise.all(
        FAMILIES.map(async (family) => {
          const { stdout } = await run(commandOf(variant, family, '-save'));
          const all = new Map<string, Place>();
          let table = '';
          for (const line of stdout.split('\n')) {
            if (line.startsWith('*')) table = line.slice(1);
            const chain = /^-A (NODEWALL-\S+)/.exec(line)?.[1];
            if (chain !== undefined) all.set(`${table} ${chain}`, { family, table, chain });
          }
          return [...all.values()];
        }),
      );
      return found.flat();
    }

    it('a deleted rule, of every chain at once', async () => {
      const all = await places();
      assert(all.length > 4, JSON.stringify(all));
      await assertRepaired('a rule of each chain', async () => {
        for (const family of FAMILIES) {
          const own = all.filter((place) => place.family === family);
          const text = [...Map.groupBy(own, ({ table }) => table)].map(([table, some]) =>
            [`*${table}`, ...some.map(({ chain }) => `-D ${chain} 1`), 'COMMIT', ''].join('\n'),
          );
          const command = commandOf(variant, family, '-restore');
          await bed.node.topology.node.run([command, '--noflush'], { stdin: text.join('') });
        }
      });
    });

    it('a deleted rule of one chain of one family', async () => {
      for (const family of FAMILIES) {
        const last = (await places()).findLast((place) => place.family === family);
        assert(last);
        await assertRepaired(`rule 1 of ${last.chain}`, () =>
          iptables(family, '-t', last.table, '-D', last.chain, '1'),
        );
      }
    });

    it('a flushed chain', () =>
      assertRepaired('the chain for input', () => iptables(4, '-F', 'NODEWALL-INPUT')));

    it('all rules deleted', () => assertRepaired('all', () => bed.node.lose()));

    it('a rule added in front, and one at the end', async () => {
      await assertRepaired('in front', () => iptables(6, '-I', 'NODEWALL-INPUT', '-j', 'ACCEPT'));
      await assertRepaired('at the end', () => iptables(4, '-A', 'NODEWALL-OUTPUT', '-j', 'DROP'));
    });

    for (const [chain, jump] of [
      ['INPUT', 'NODEWALL-INPUT'],
      ['OUTPUT', 'NODEWALL-OUTPUT'],
      ['FORWARD', 'NODEWALL-FORWARD'],
    ] as const) {
      it(`a deleted jump in ${chain}`, () =>
        assertRepaired('the jump', () => iptables(chain === 'INPUT' ? 4 : 6, '-D', chain, '-j', jump)));
    }

    it('moves a jump to the front again, and keeps the rule that was before it', async () => {
      for (const family of FAMILIES) {
        const rule = ['-p', 'tcp', '--dport', '7', '-j', 'ACCEPT'];
        await assertRepaired('the place of the jump', () => iptables(family, '-I', 'INPUT', ...rule));
        assert.notEqual(await bed.foreign.list(), bed.others, "the stranger's rule is gone");
        await iptables(family, '-D', 'INPUT', ...rule);
      }
    });

    it('a duplicate jump', () =>
      assertRepaired('the second jump', () => iptables(4, '-A', 'OUTPUT', '-j', 'NODEWALL-OUTPUT')));

    if (variant === 'nft') {
      it('does not treat a table that iptables cannot show as empty', async () => {
        const jumps = async () => {
          const { stdout } = await run('nft', '-a', 'list', 'chain', 'ip', 'filter', 'INPUT');
          const handle = / vmap .* handle (\d+)/.exec(stdout)?.[1] ?? '';
          return { count: stdout.split('NODEWALL-INPUT').length - 1, handle };
        };
        await bed.node.nft('add rule ip filter INPUT ct state vmap { invalid : drop }\n');
        await until(
          'it is said',
          // The reading of counters says the same, and does not make the rules be applied again.
          async () => /iptables cannot show.*"cannot apply the rules/.test(bed.agent.log()),
          { limit: REPAIRED_WITHIN },
        );
        const { count, handle } = await jumps();
        assert.equal(count, 1);
        const logged = bed.agent.log().length;
        await bed.node.nft(`delete rule ip filter INPUT handle ${handle}\n`);
        // A retry repairs what is changed before it without a line on a third party.
        await until(
          'all is seen again',
          async () => bed.agent.log().slice(logged).includes('"message":"enforced"'),
          { limit: REPAIRED_WITHIN, news: bed.agent.news },
        );
        await bed.untilRepaired('all is seen again');
      });
    }

    it('an added and a deleted member, and a flushed set', async () => {
      const saved = (await ipset('save')).stdout;
      const [, set = '', member = ''] = /^add (nodewall-\S+) (\d+\.\S+)/m.exec(saved) ?? [];
      assert(set !== '', saved);
      await assertRepaired('an added member', () => ipset('add', set, '203.0.113.77'));
      await assertRepaired('a deleted member', () => ipset('del', set, member));
      await assertRepaired('a flushed set', () => ipset('flush', set));
    });

    it('foreign chains and sets with names of nodewall', async () => {
      await assertRepaired('a chain', async () => {
        await iptables(4, '-N', 'NODEWALL-STRANGER');
        await iptables(4, '-A', 'NODEWALL-STRANGER', '-j', 'DROP');
      });
      await assertRepaired('a chain of another table, that one of ours leads to', async () => {
        await iptables(6, '-t', 'nat', '-N', 'NODEWALL-STRANGER');
        await iptables(6, '-N', 'NODEWALL-STRANGER');
        await iptables(6, '-I', 'NODEWALL-INPUT', '-j', 'NODEWALL-STRANGER');
      });
      await assertRepaired('a set', () => ipset('create', 'nodewall-stranger', 'hash:ip'));
    });
  });
}
