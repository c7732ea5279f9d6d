import assert from 'node:assert/strict';
import fc from 'fast-check';
import { type Exec, ExecError, Ipset } from 'ipset-ts';
import type { Family } from '../../../lib/net/address.ts';
import { type FakeIptables, fakeIptables } from '../../../test/fake/fake-iptables.ts';
import { IPTABLES_CASES } from '../../../test/fake/iptables-cases.ts';
import { addressSet, iptablesRuleset, RULESET, withSets } from '../../../test/fake/iptables-ruleset.ts';
import { checkAsync } from '../../../test/properties/runs.ts';
import { ipsetDeadline } from '../../dataplane/iptables/iptables-dataplane.ts';
import type { IptablesRuleset } from '../../render/iptables/tables.ts';
import { RefusedError } from '../reconciler-interface.ts';
import { IptablesReconciler } from './reconciler.ts';
import { IptablesError, type IptablesTools, toIptablesError } from './tools.ts';

const NO_TABLE =
  "ip6tables-restore v1.8.9 (legacy): ip6tables-restore: unable to initialize table 'filter'\n\nError occurred at line: 1\n";

describe('the reconciler of iptables', () => {
  for (const { name, run } of IPTABLES_CASES) it(name, () => run(fakeIptables().tools));

  it('learns how another version of iptables prints the rules it wrote', async () => {
    const { tools, restores } = fakeIptables({ shows: (text) => text.replace('--dport 80', '--dport http') });
    const reconciler = new IptablesReconciler(tools);
    await reconciler.apply(RULESET);
    assert.deepEqual(await reconciler.verify(), ['iptables filter: chain NODEWALL-WEB was changed']);
    await reconciler.apply(RULESET);
    assert.deepEqual(await reconciler.verify(), []);
    const before = restores.length;
    assert.ok((await reconciler.apply(RULESET)).change.isEmpty);
    assert.equal(restores.length, before);
    await tools.restore(4, '*filter\n-A NODEWALL-WEB -j DROP\nCOMMIT\n');
    assert.deepEqual(await reconciler.verify(), ['iptables filter: chain NODEWALL-WEB was changed']);
  });

  it("never learns a rule's text from a third party's change", async () => {
    const { tools } = fakeIptables();
    const web = [
      '-p tcp -m tcp --dport 80 -j ACCEPT',
      '-m set --match-set nodewall-services-4 dst,dst -j DROP',
    ];
    const write = (rules: readonly string[]) =>
      tools.restore(
        4,
        `*filter\n:NODEWALL-WEB - [0:0]\n${rules.map((rule) => `-A NODEWALL-WEB ${rule}\n`).join('')}COMMIT\n`,
      );
    let after: readonly string[] | null = null;
    const reconciler = new IptablesReconciler({
      ...tools,
      async restore(family, text) {
        await tools.restore(family, text);
        if (after !== null) await write(after);
      },
    });
    await reconciler.apply(RULESET);
    const opened = web.map((rule) => rule.replace('DROP', 'ACCEPT'));
    const renamed = web.map((rule) => rule.replace('services-4', 'web-4'));
    const moved = web.map((rule) => rule.replace('80', '81'));
    // A third party writes the same change each time, or another one right after the repair.
    for (const [first, second] of [
      [opened, opened],
      [renamed, renamed],
      [opened, moved],
    ] as const) {
      await write(first);
      assert.equal((await reconciler.verify()).length, 1);
      after = second;
      await reconciler.apply(RULESET);
      after = null;
      assert.deepEqual(await reconciler.verify(), ['iptables filter: chain NODEWALL-WEB was changed']);
    }
    await reconciler.apply(RULESET);
    assert.deepEqual(await reconciler.verify(), []);
  });

  it('forgets the printed form of a removed rule', async () => {
    const { tools } = fakeIptables({ shows: (text) => text.replace('--dport 80', '--dport http') });
    const reconciler = new IptablesReconciler(tools);
    const apply = async (ruleset: IptablesRuleset) => {
      await reconciler.apply(ruleset);
      return reconciler.verify();
    };
    assert.equal((await apply(RULESET)).length, 1);
    assert.deepEqual(await apply(RULESET), []);
    assert.deepEqual(await apply(withSets([...RULESET.sets.values()], ['-j DROP'])), []);
    assert.equal((await apply(RULESET)).length, 1);
  });

  it('repairs a restore that ended half-way', async () => {
    const { tools, exec } = fakeIptables();
    const reconciler = new IptablesReconciler(tools);
    await reconciler.apply(RULESET);
    // A third party flushed the chains and destroyed a set that is needed: the known state is
    // wrong, and the failure reveals it.
    await tools.restore(4, '*filter\n:NODEWALL-INPUT - [0:0]\n:NODEWALL-WEB - [0:0]\nCOMMIT\n');
    await exec(['destroy', 'nodewall-web-4']);
    await reconciler.apply(withSets([...RULESET.sets.values()], ['-j DROP']));
    assert.deepEqual(await reconciler.verify(), []);
  });

  it('reports an unknown state when the previous rules cannot be restored', async () => {
    const { tools } = fakeIptables();
    let refusals = 0;
    const reconciler = new IptablesReconciler({
      ...tools,
      async restore(family, text) {
        if (refusals > 0 && family === 4) throw new IptablesError('LOCKED', 'locked');
        if (family === 6) {
          refusals++;
          throw new IptablesError('REFUSED', 'line 3 failed');
        }
        await tools.restore(family, text);
      },
    });
    await assert.rejects(reconciler.apply(RULESET), (error: Error) => {
      assert.ok(!(error instanceof RefusedError) && error.cause instanceof RefusedError);
      assert.equal(error.message, 'line 3 failed; cannot restore the previous rules: locked');
      return true;
    });
    assert.equal(await reconciler.holdsRules(), true);
  });

  it('applies one family when the kernel lacks the other, and both once it has both', async () => {
    const { tools } = fakeIptables();
    let lacking: readonly Family[] = [6];
    const reconciler = new IptablesReconciler({
      ...tools,
      save: async (family) => (lacking.includes(family) ? '' : tools.save(family)),
      async restore(family, text) {
        if (lacking.includes(family)) throw new IptablesError('NO_FAMILY', 'the kernel has no IPv6');
        await tools.restore(family, text);
      },
    });
    const { warning } = await reconciler.apply(RULESET);
    assert.equal(warning, 'no rule for IPv6 is in force: the kernel has no IPv6');
    assert.deepEqual(await reconciler.verify(), []);
    const fewer = withSets([...RULESET.sets.values()], ['-p udp -j DROP']);
    assert.equal((await reconciler.apply(fewer)).warning, warning);
    assert.deepEqual(await reconciler.verify(), []);
    await tools.restore(6, '*filter\n:OTHERS - [0:0]\nCOMMIT\n');
    lacking = [];
    assert.deepEqual(await reconciler.verify(), [
      'ip6tables filter: the jump from INPUT to NODEWALL-INPUT is missing',
      'ip6tables filter: chain NODEWALL-INPUT is missing',
    ]);
    assert.equal((await reconciler.apply(fewer)).warning, null);
    assert.deepEqual(await reconciler.verify(), []);
    const neither = new IptablesReconciler({
      ...tools,
      save: async () => '',
      restore: async () => Promise.reject(toIptablesError('iptables-restore', 2, NO_TABLE)),
    });
    await assert.rejects(neither.apply(RULESET), { code: 'NO_KERNEL_SUPPORT' });
  });

  for (const [what, fails] of [
    ['the command of one family fails', { save: 'Could not open socket: Address family not supported' }],
    ['the table of a family that the kernel has is missing', { restore: NO_TABLE }],
  ] as const satisfies readonly (readonly [string, { save?: string; restore?: string }])[]) {
    it(`applies the other one where ${what}, and says so until it works`, async () => {
      const { tools } = fakeIptables();
      let isBroken = true;
      const { save, restore }: { save?: string; restore?: string } = fails;
      const reconciler = new IptablesReconciler({
        ...tools,
        async save(family) {
          if (isBroken && family === 6 && save !== undefined)
            throw toIptablesError('ip6tables-save', 3, save);
          return await tools.save(family);
        },
        async restore(family, text) {
          if (isBroken && family === 6) throw toIptablesError('ip6tables-restore', 3, restore ?? '');
          await tools.restore(family, text);
        },
      });
      for (let i = 0; i < 2; i++) {
        const { failedFamily } = await reconciler.apply(RULESET);
        assert.match(`${failedFamily}`, /^FamilyError: the rules of IPv6 could not be changed: ip6tables-/);
        assert.equal(failedFamily?.isBare, true, 'nothing of it is known');
        assert.match(await tools.save(4), /-A INPUT -j NODEWALL-INPUT/);
        assert.deepEqual(await reconciler.verify(), []);
      }
      isBroken = false;
      const { warning, failedFamily } = await reconciler.apply(RULESET);
      assert.deepEqual([warning, failedFamily], [null, null]);
      assert.match(await tools.save(6), /-A INPUT -j NODEWALL-INPUT/);
      assert.deepEqual(await reconciler.verify(), []);
    });
  }

  it('holds one family for as long as the command of the other fails, and keeps the deadline', async () => {
    const fake = fakeIptables();
    const { tools } = fake;
    await new IptablesReconciler(tools).apply(RULESET);
    const failing = breakable(fake);
    const reconciler = new IptablesReconciler(failing.tools);
    await reconciler.apply(RULESET);
    failing.six = 'LOCKED';
    const tried = trial(['192.0.2.1']);
    const deadline = ipsetDeadline(tools.ipset, () => reconciler.inForce());
    for (const ruleset of [tried, tried, trial(['192.0.2.1', '192.0.2.9'])]) {
      const { failedFamily } = await reconciler.apply(ruleset);
      assert.deepEqual([failedFamily?.family, failedFamily?.isBare], [6, false]);
      assert.equal(reconciler.inForce(), ruleset);
      assert.deepEqual(await reconciler.verify(), [], 'half of a change is no drift');
      assert.equal(await deadline.move(30_000), true);
      assert.equal(await deadline.isThere(), true);
    }
    // Objects that only rules of before named go, but for those that stay in force.
    const more = addressSet('nodewall-more-4', 4, []);
    const named = withSets(
      [...tried.sets.values(), more],
      ['-m set --match-set nodewall-more-4 src -j DROP'],
    );
    for (const ruleset of [{ ...named, families: { ...named.families, 6: tried.families[6] } }, tried])
      await reconciler.apply(ruleset);
    assert.deepEqual(
      [...(await tools.ipset.names())].sort(),
      [...tried.sets.keys(), 'nodewall-nets-6'].sort(),
    );
    // Another failure in between does not make half of a change a drift.
    failing.ipset = true;
    await assert.rejects(reconciler.apply(trial(['192.0.2.7'])), /interrupted/);
    failing.ipset = false;
    assert.deepEqual(await reconciler.verify(), []);
    failing.six = null;
    assert.equal((await reconciler.apply(tried)).failedFamily, null);
    assert.deepEqual(await reconciler.verify(), []);
    assert.match(await tools.save(6), /trial-deadline/);
    await reconciler.apply(RULESET);
    assert.deepEqual([...(await tools.ipset.names())].sort(), [...RULESET.sets.keys()].sort());
    assert.equal(await deadline.isThere(), false);
  });

  it('holds one family that needs no change after a restart, once the failure of the other lasts', async () => {
    const fake = fakeIptables();
    const { tools } = fake;
    await new IptablesReconciler(tools).apply(RULESET);
    await tools.restore(6, '*filter\n:NODEWALL-INPUT - [0:0]\nCOMMIT\n');
    const failing = breakable(fake);
    const reconciler = new IptablesReconciler(failing.tools);
    failing.six = 'LOCKED';
    await assert.rejects(reconciler.apply(RULESET), { code: 'LOCKED' });
    assert.equal((await reconciler.apply(RULESET)).failedFamily?.family, 6);
    assert.deepEqual(await reconciler.verify(), []);
    failing.six = null;
    assert.equal((await reconciler.apply(RULESET)).failedFamily, null);
    assert.deepEqual(await reconciler.verify(), []);
  });

  it('holds one family where the rules of the other can be read again, but not changed', async () => {
    const fake = fakeIptables();
    const { tools } = fake;
    await new IptablesReconciler(tools).apply(RULESET);
    const failing = breakable(fake);
    const reconciler = new IptablesReconciler(failing.tools);
    failing.six = 'UNKNOWN';
    failing.save = true;
    const tried = trial(['192.0.2.1']);
    assert.equal((await reconciler.apply(tried)).failedFamily?.family, 6);
    failing.save = false;
    assert.deepEqual(await reconciler.verify(), [], 'nobody changed these rules');
    const { failedFamily } = await reconciler.apply(tried);
    assert.deepEqual([failedFamily?.family, failedFamily?.isBare], [6, false], 'it has those of before');
    assert.deepEqual(await reconciler.verify(), []);
    failing.six = null;
    assert.equal((await reconciler.apply(tried)).failedFamily, null);
    assert.deepEqual(await reconciler.verify(), []);
  });

  it('reports a family that fails alone as not changed, if no rule of the other was to change', async () => {
    const failing = breakable(fakeIptables());
    const reconciler = new IptablesReconciler(failing.tools);
    await reconciler.apply(RULESET);
    failing.six = 'LOCKED';
    const { families } = trial([]);
    const changed = { ...RULESET, families: { 4: RULESET.families[4], 6: families[6] } };
    const sets = new Map([...RULESET.sets, [DEADLINES[6].name, DEADLINES[6]]]);
    for (let i = 0; i < 2; i++) {
      await assert.rejects(reconciler.apply({ ...changed, sets }), { code: 'LOCKED' });
      assert.equal(reconciler.inForce(), RULESET);
      assert.deepEqual(await reconciler.verify(), []);
    }
  });

  it('applies nothing where the commands of both families fail', async () => {
    const { tools } = fakeIptables();
    const save = async () => Promise.reject(toIptablesError('iptables-save', 3, 'no'));
    const reconciler = new IptablesReconciler({ ...tools, save });
    await assert.rejects(reconciler.apply(RULESET), { code: 'UNKNOWN' });
    assert.deepEqual(await tools.ipset.names(), []);
  });

  it('leaves no set of a change that failed', async () => {
    const { tools } = fakeIptables();
    const text = 'line 12: CHAIN_ADD failed (Operation not supported): chain INPUT';
    const restore = async () => Promise.reject(toIptablesError('iptables-nft-restore', 4, text));
    await assert.rejects(new IptablesReconciler({ ...tools, restore }).apply(RULESET), /CHAIN_ADD/);
    assert.deepEqual(await tools.ipset.names(), []);
    const reconciler = new IptablesReconciler(tools);
    await reconciler.apply(RULESET);
    const names = await tools.ipset.names();
    assert.ok(names.length > 0);
    const failing = new IptablesReconciler({ ...tools, restore });
    const more = withSets([...RULESET.sets.values(), addressSet('nodewall-new-4', 4, [])], ['-j DROP']);
    await assert.rejects(failing.apply(more), /CHAIN_ADD/);
    assert.deepEqual(await tools.ipset.names(), names);
  });

  it('deletes members of sets even when other changes fail', async () => {
    const { tools } = fakeIptables();
    let code: 'LOCKED' | 'REFUSED' | null = null;
    const reconciler = new IptablesReconciler({
      ...tools,
      async restore(family, text) {
        if (family === 6 && code !== null) throw new IptablesError(code, 'no');
        await tools.restore(family, text);
      },
    });
    const [web4, nets6, services] = RULESET.sets.values();
    assert.ok(web4 !== undefined && nets6 !== undefined && services !== undefined);
    const six = iptablesRuleset({
      filter: { 'NODEWALL-INPUT': ['-j DROP'] },
      jumps: { INPUT: 'NODEWALL-INPUT' },
    });
    const counts = async () =>
      Object.fromEntries((await tools.ipset.save()).map(({ name, entries }) => [name, entries.length]));
    const sets = [
      addressSet('nodewall-web-4', 4, ['192.0.2.1']),
      addressSet('nodewall-nets-6', 6, ['2001:db8::/32']),
      services,
    ];
    for (const [now, web, left] of [
      // IPv4 has its new rules, or no rules of it changed, or the old ones were put back.
      ['LOCKED', '-j DROP', 1],
      ['REFUSED', '-p tcp -m tcp --dport 80 -j ACCEPT', 1],
      ['REFUSED', '-j DROP', 2],
    ] as const) {
      code = null;
      await reconciler.apply(RULESET);
      code = now;
      const changed = withSets(sets, [web]);
      const ruleset = { ...changed, families: { 4: changed.families[4], 6: six.families[6] } };
      const applying = reconciler.apply(ruleset);
      if (now === 'REFUSED') await assert.rejects(applying, /^\w+: no$/);
      else {
        assert.equal((await applying).failedFamily?.family, 6);
        assert.deepEqual(await reconciler.verify(), [], 'half of a change is no drift');
      }
      assert.deepEqual(await counts(), {
        'nodewall-web-4': left,
        'nodewall-nets-6': 3,
        'nodewall-services-4': 2,
      });
    }
  });

  for (const [what, saved] of [
    ['with an unknown type', { stdout: 'create odd hash:odd family inet\nadd odd 1\n' }],
    ['with a name of two lines', { stdout: 'create o\ndd hash:ip family inet\n' }],
    [
      'of a newer ipset',
      // libipset, where the kernel has a later revision of the type.
      { code: 1, stderr: 'ipset v7.17: Kernel-library incompatibility: set odd in kernel has got settype' },
    ],
  ] as const)
    it(`ignores sets of third parties ${what}`, async () => {
      const { tools, exec } = fakeIptables();
      const ipset = new Ipset(async (args, options) => {
        const result = await exec(args, options);
        if (args.join() !== 'save') return result;
        return { ...result, ...saved, stdout: 'stdout' in saved ? saved.stdout + result.stdout : '' };
      });
      const reconciler = new IptablesReconciler({ ...tools, ipset });
      await reconciler.apply(RULESET);
      await tools.ipset.restore([{ op: 'flush', name: 'nodewall-web-4' }]);
      assert.deepEqual(await reconciler.verify(), ['set nodewall-web-4 has different members']);
      await reconciler.apply(RULESET);
      assert.deepEqual(await reconciler.verify(), []);
    });

  it('goes from any state to any other, after any third-party change and any interruption', async function () {
    await checkAsync(this, 150, fc.array(step, { minLength: 1, maxLength: 8 }), async (steps) => {
      const { tools, exec } = fakeIptables();
      let left = Number.POSITIVE_INFINITY;
      const reconciler = new IptablesReconciler(failing(tools, exec, () => left-- <= 0));
      for (const { ruleset, stranger, processes } of steps) {
        if (stranger !== null) await stranger(tools).catch(() => undefined);
        left = processes;
        await reconciler.apply(ruleset).catch((error: Error) => assert.match(error.message, /interrupted/));
        left = Number.POSITIVE_INFINITY;
        await reconciler.verify();
        await reconciler.apply(ruleset);
        assert.deepEqual(await reconciler.verify(), []);
        const fresh = fakeIptables().tools;
        await new IptablesReconciler(fresh).apply(ruleset);
        assert.deepEqual(await contentOf(tools), await contentOf(fresh));
      }
    });
  });
});

const DEADLINES = {
  4: { ...addressSet('nodewall-trial-deadline-n4', 4, ['0.0.0.0/0']), timeout: 30 },
  6: { ...addressSet('nodewall-trial-deadline-n6', 6, ['::/0']), timeout: 30 },
} as const;

/** Rules that are tried: rules of both families name their deadline. */
function trial(web: readonly string[]): IptablesRuleset {
  const rule = (family: Family) => `-m set ! --match-set ${DEADLINES[family].name} src -j ACCEPT`;
  const [, , services] = RULESET.sets.values();
  assert.ok(services !== undefined);
  const sets = [addressSet('nodewall-web-4', 4, web), services, DEADLINES[4], DEADLINES[6]];
  const six = iptablesRuleset({
    filter: { 'NODEWALL-INPUT': [rule(6)] },
    jumps: { INPUT: 'NODEWALL-INPUT' },
  });
  const { families, ...rest } = withSets(sets, [rule(4)]);
  return { ...rest, families: { 4: families[4], 6: six.families[6] } };
}

interface Breakable {
  readonly tools: IptablesTools;
  /** The failure of ip6tables-restore, and of ip6tables-save if `save`. */
  six: 'LOCKED' | 'UNKNOWN' | null;
  save: boolean;
  /** ipset-restore fails. */
  ipset: boolean;
}

function breakable({ tools, exec }: Pick<FakeIptables, 'tools' | 'exec'>): Breakable {
  const fail = (family: Family) => {
    if (family === 6 && broken.six !== null) throw new IptablesError(broken.six, 'no');
  };
  const broken: Breakable = {
    tools: {
      ...tools,
      ipset: new Ipset(async (args, options) => {
        if (broken.ipset && args.includes('restore')) throw new ExecError('TIMEOUT', 'interrupted');
        return await exec(args, options);
      }),
      async save(family) {
        if (broken.save) fail(family);
        return await tools.save(family);
      },
      async restore(family, text) {
        fail(family);
        await tools.restore(family, text);
      },
    },
    six: null,
    save: false,
    ipset: false,
  };
  return broken;
}

const CHAINS = ['NODEWALL-A', 'NODEWALL-B', 'NODEWALL-C', 'NODEWALL-D'] as const;
const SETS = ['nodewall-0', 'nodewall-1', 'nodewall-2'] as const;

/** Chains jump only to later chains, and only to those that exist. */
const rulesets: fc.Arbitrary<IptablesRuleset> = fc
  .record({
    chains: fc.subarray([...CHAINS]),
    rules: fc.array(fc.nat(30), { minLength: 1, maxLength: 12 }),
    members: fc.array(fc.array(fc.nat(5).map((n) => `192.0.2.${n}`)), { minLength: 3, maxLength: 3 }),
    hooks: fc.subarray(['INPUT', 'FORWARD', 'OUTPUT'] as const),
  })
  .map(({ chains, rules, members, hooks }) => {
    const filter: Record<string, string[]> = Object.fromEntries(chains.map((chain) => [chain, []]));
    for (const [i, number] of rules.entries()) {
      const at = number % Math.max(1, chains.length);
      const later = chains[at + 1 + (i % 2)];
      const target = later === undefined || number % 3 === 0 ? 'DROP' : later;
      const match = number % 2 === 0 ? `-m set --match-set ${SETS[number % 3]} src ` : `-p ${number} `;
      filter[chains[at] ?? '']?.push(`${match}-j ${target}`);
    }
    const [first] = chains;
    const jumps = first === undefined ? {} : Object.fromEntries(hooks.map((hook) => [hook, first]));
    const sets = SETS.map((name, i) => addressSet(name, 4, members[i] ?? []));
    const used = sets.filter(({ name }) => JSON.stringify(filter).includes(name));
    return iptablesRuleset({ filter, jumps, sets: used, families: [4] });
  });

const strangers: readonly ((tools: IptablesTools) => Promise<unknown>)[] = [
  ({ restore }) => restore(4, '*filter\n:NODEWALL-A - [0:0]\nCOMMIT\n'),
  ({ restore }) =>
    restore(4, '*filter\n:NODEWALL-E - [0:0]\n-A NODEWALL-E -j NODEWALL-B\n-A INPUT -j NODEWALL-E\nCOMMIT\n'),
  ({ restore }) => restore(4, '*filter\n-D INPUT -j NODEWALL-A\nCOMMIT\n'),
  ({ restore }) => restore(4, '*filter\n-A INPUT -j NODEWALL-B\n-A OUTPUT -j NODEWALL-B\nCOMMIT\n'),
  ({ ipset }) => ipset.restore([{ op: 'flush', name: 'nodewall-1' }]),
  ({ ipset }) => ipset.restore([{ op: 'destroy', name: 'nodewall-0' }]),
  ({ ipset }) => ipset.restore([{ op: 'create', set: { name: 'nodewall-tmp-0', type: 'hash:net' } }]),
  ({ ipset }) => ipset.restore([{ op: 'create', set: { name: 'nodewall-2', type: 'hash:ip', timeout: 5 } }]),
];

const step = fc.record({
  ruleset: rulesets,
  stranger: fc.option(fc.constantFrom(...strangers)),
  processes: fc.nat(8),
});

/** From some process on, no process is started any more. */
function failing(tools: IptablesTools, exec: Exec, isOver: () => boolean): IptablesTools {
  const check = () => {
    if (isOver()) throw new IptablesError('TIMEOUT', 'interrupted');
  };
  const ipset = new Ipset(async (...call) => {
    if (isOver()) throw new ExecError('TIMEOUT', 'interrupted');
    return exec(...call);
  });
  return {
    ...tools,
    ipset,
    async save(family) {
      check();
      return tools.save(family);
    },
    async restore(family, text) {
      check();
      return tools.restore(family, text);
    },
  };
}

/**
 * Rules in the order of each chain, and members sorted; without counters, and without the empty
 * chains that rules of third parties keep.
 */
async function contentOf({ save, ipset }: IptablesTools) {
  const rules = (await save(4)).split('\n').filter((line) => /^\[|^:NODE/.test(line));
  const sets = (await ipset.save()).map(({ name, type, entries }) => [name, type, [...entries].sort()]);
  const chainOf = (line: string) => line.split(' ').at(line.startsWith(':') ? 0 : 2) ?? '';
  return {
    rules: rules.sort((a, b) => (chainOf(a) < chainOf(b) ? -1 : Number(chainOf(a) > chainOf(b)))),
    sets: sets.sort(),
  };
}
