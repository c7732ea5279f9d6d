import assert from 'node:assert/strict';
import { once } from 'node:events';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { IptablesReconciler } from '../../agent/apply/iptables/reconciler.ts';
import { IptablesError, type IptablesTools, iptablesTools } from '../../agent/apply/iptables/tools.ts';
import { RefusedError } from '../../agent/apply/reconciler-interface.ts';
import { IPTABLES_CASES } from '../fake/iptables-cases.ts';
import { RULESET, withSets } from '../fake/iptables-ruleset.ts';
import { createNamespace, type Namespace } from '../netns/namespace.ts';
import { kernelSuite } from './kernel-suite.ts';

for (const variant of ['nft', 'legacy'] as const) {
  kernelSuite(`iptables and ipset behave as the fake, iptables-${variant}`, () => {
    let namespace: Namespace;
    let tools: IptablesTools;

    beforeEach(async () => {
      namespace = await createNamespace('iptables');
      tools = iptablesTools(variant, { before: namespace.command([]) });
    });
    afterEach(() => namespace.close());

    for (const { name, run } of IPTABLES_CASES) it(name, () => run(tools));

    it('names the rule that the kernel refused', async () => {
      const sets = [...RULESET.sets.values()];
      const reconciler = new IptablesReconciler(tools);
      await reconciler.apply(RULESET);
      // MASQUERADE is for the table nat: the command doesn't know that, the kernel does.
      const web = [
        '-p tcp -j ACCEPT',
        '-p udp -j MASQUERADE',
        '-p udp -g NODEWALL-INPUT',
        '-p sctp -j ACCEPT',
      ];
      await assert.rejects(reconciler.apply(withSets(sets, web)), (error: RefusedError) => {
        assert.ok(error instanceof RefusedError, String(error));
        assert.equal(error.source?.rule, 'NODEWALL-WEB/1');
        assert.equal(error.lacksLog, false);
        return true;
      });
      await reconciler.apply(RULESET);
      assert.deepEqual(await reconciler.verify(), []);
    });

    it('names the missing feature', async () => {
      // Without a table the legacy variant reads nothing, which it may.
      await new IptablesReconciler(tools).apply(RULESET);
      const lacking = async (before: readonly string[], code: string) => {
        const poor = iptablesTools(variant, { before: namespace.command(before), wait: 1 });
        for (const call of [
          () => poor.save(6),
          () => poor.restore(4, '*filter\n:NODEWALL-A - [0:0]\nCOMMIT\n'),
        ]) {
          await assert.rejects(
            call,
            (error: IptablesError) => error instanceof IptablesError && error.code === code,
          );
        }
      };
      await lacking(['setpriv', '--reuid', '65534', '--clear-groups'], 'NOT_PERMITTED');
      const absent = iptablesTools(variant, { before: ['/nonexistent/nsenter'] });
      await assert.rejects(absent.save(4), (error: IptablesError) => error.code === 'NO_COMMAND');
    });
  });
}

kernelSuite('the lock of xtables', () => {
  it('is waited for, up to the limit', async () => {
    const namespace = await createNamespace('lock');
    const folder = await mkdtemp(join(tmpdir(), 'nodewall-lock-'));
    try {
      const lock = join(folder, 'xtables.lock');
      // Not the machine's own.
      const before = namespace.command(['env', `XTABLES_LOCKFILE=${lock}`]);
      const tools = iptablesTools('legacy', { before, wait: 1 });
      const holder = namespace.spawn(['flock', '-o', lock, 'sh', '-c', 'echo; exec cat']);
      await once(holder.stdout, 'data');
      const restored = tools.restore(4, '*filter\n:NODEWALL-A - [0:0]\nCOMMIT\n');
      await assert.rejects(restored, (error: IptablesError) => error.code === 'LOCKED');
    } finally {
      await namespace.close();
      await rm(folder, { recursive: true });
    }
  });
});
