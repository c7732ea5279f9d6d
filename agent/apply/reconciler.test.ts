import assert from 'node:assert/strict';
import fc from 'fast-check';
import { type FakeKernel, fakeKernel, interrupted, listing } from '../../test/fake/fake-kernel.ts';
import { closing, fromPods, ingress, pod, rulesetOf } from '../../test/fake/node-state.ts';
import { asRuleset, watchVerdicts } from '../../test/fake/steps.ts';
import { toNftError } from '../../test/fake/table.ts';
import { TAMPERING_NAMES, type Tampering, tamper, tampering } from '../../test/fake/third-party.ts';
import { type Scenario, scenario } from '../../test/generate/scenario.ts';
import { cidr, tcp } from '../../test/kernel/manifests.ts';
import { toConfig, toState } from '../../test/properties/pipeline.ts';
import { checkAsync } from '../../test/properties/runs.ts';
import { toPacket } from '../../test/tracer/packet.ts';
import { render } from '../render/render.ts';
import type { Chain, NftRule, Ruleset, Statement } from '../render/ruleset.ts';
import type { VerdictMap } from '../render/verdict-map.ts';
import { type ElementsCommand, elementCount, toBatches } from './plan/command.ts';
import type { CurrentState } from './plan/current-state.ts';
import { isEmptyTransaction, replacement, transaction } from './plan/transaction.ts';
import { ApplyError, NodeRuleReconciler } from './reconciler.ts';

async function assertHolds(kernel: FakeKernel, ruleset: Ruleset): Promise<void> {
  const reference = fakeKernel();
  await reference.transact(replacement(ruleset).swap);
  assert.deepEqual(await listing(kernel), await listing(reference));
}

const SSH = closing('ssh', 22);
const WEB = closing('web', 80, 443);
const BOTH = ingress('both', { name: 'all', action: 'Reject', ports: [tcp(22), tcp(1500)] });
const PODS = ingress('pods', { name: 'in', action: 'Allow', from: [fromPods('a')], ports: [tcp(5432)] });
const NETS = ingress('nets', {
  name: 'in',
  action: 'Drop',
  from: [cidr('10.0.0.0/8'), cidr('192.0.2.0/25')],
  ports: [tcp(1000, 2000)],
});
const OBJECTS = [SSH, WEB, BOTH, PODS, NETS, pod('a', '10.1.0.1')];
const RULESET = rulesetOf(OBJECTS);

describe('the reconciler', () => {
  it('applies a ruleset; a comparison then finds no difference', async () => {
    const kernel = fakeKernel();
    const reconciler = new NodeRuleReconciler(kernel);
    assert.deepEqual(await reconciler.verify(), [], 'nothing was applied, nothing can differ');
    await reconciler.apply(RULESET);
    await assertHolds(kernel, RULESET);
    assert.deepEqual(await reconciler.verify(), []);
    const before = await kernel.generation();
    assert.ok(isEmptyTransaction((await reconciler.apply(rulesetOf([...OBJECTS].reverse()))).transaction));
    assert.equal(await kernel.generation(), before);
  });

  it('plans without changing the kernel', async () => {
    const kernel = fakeKernel();
    const reconciler = new NodeRuleReconciler(kernel);
    const planned = await reconciler.plan(RULESET);
    assert.deepEqual(kernel.calls, []);
    assert.deepEqual(planned, (await reconciler.apply(RULESET)).transaction);
  });

  it('changes members in one transaction, and reads nothing', async () => {
    const kernel = fakeKernel();
    const reconciler = new NodeRuleReconciler(kernel);
    await reconciler.apply(RULESET);
    const before = kernel.calls.length;
    const reads = { ...kernel.reads };
    await reconciler.apply(rulesetOf([...OBJECTS, pod('a', '10.1.0.2')]));
    await reconciler.apply(RULESET);
    const kinds = kernel.calls
      .slice(before)
      .map(({ commands }) => [...new Set(commands.map(({ kind }) => kind))]);
    assert.deepEqual(kinds, [['addElements'], ['deleteElements']]);
    assert.deepEqual(kernel.reads, reads);
    assert.deepEqual(await reconciler.verify(), []);
  });

  it('reads only the touched objects after a policy edit', async () => {
    const kernel = fakeKernel();
    const asked: string[] = [];
    const watched = {
      ...kernel,
      chains: (names: readonly string[]) => {
        asked.push(...names);
        return kernel.chains(names);
      },
    };
    const reconciler = new NodeRuleReconciler(watched);
    await reconciler.apply(RULESET);
    const { snapshot, elements } = kernel.reads;
    asked.length = 0;
    await reconciler.apply(rulesetOf([...OBJECTS, closing('web', 8080)]));
    assert.deepEqual({ ...kernel.reads, chains: 0 }, { snapshot, elements, chains: 0 });
    const others = asked.filter((name) => /-(ssh|pods|nets|both)-/.test(name));
    assert.deepEqual(others, []);
    assert.ok(asked.some((name) => name.endsWith('-web-close')));
    assert.deepEqual(await reconciler.verify(), []);
  });

  it('reads nothing when there was no other commit', async () => {
    const kernel = fakeKernel();
    const reconciler = new NodeRuleReconciler(kernel);
    await reconciler.apply(RULESET);
    const reads = { ...kernel.reads };
    assert.deepEqual(await reconciler.verify(), []);
    await reconciler.apply(rulesetOf([SSH]));
    assert.deepEqual(await reconciler.verify(), []);
    assert.deepEqual({ ...kernel.reads, chains: reads.chains }, reads);
    kernel.tamper(() => undefined);
    assert.deepEqual(await reconciler.verify(), []);
    assert.equal(kernel.reads.snapshot, reads.snapshot + 1);
    // A foreign change before one of our commits is found too.
    tamper(kernel, { what: 'addsChain', pick: 7 });
    await reconciler.apply(rulesetOf([SSH, WEB]));
    assert.notDeepEqual(await reconciler.verify(), []);
  });

  it('reports the time until all rules are in force', async () => {
    const kernel = fakeKernel();
    const slow = {
      ...kernel,
      async transact(commands: Parameters<typeof kernel.transact>[0]) {
        const committed = await kernel.transact(commands);
        return { ...committed, microseconds: { build: 1, kernel: 10 } };
      },
      async chains(names: readonly string[]) {
        await new Promise((resolve) => setTimeout(resolve, 50));
        return kernel.chains(names);
      },
    };
    const { enforcedAfter, kernelMicroseconds } = await new NodeRuleReconciler(slow).apply(RULESET);
    assert.ok(enforcedAfter < 50, `${enforcedAfter} ms`);
    assert.equal(kernelMicroseconds, 10 * kernel.calls.length);
  });

  it('names the stage and the rule that the kernel refused', async () => {
    const kernel = fakeKernel();
    const reconciler = new NodeRuleReconciler(kernel);
    kernel.intercept(({ lines }) => {
      const operation = lines.findIndex((text) => /^add rule inet nodewall \S+-web-close /.test(text));
      if (operation >= 0) throw toNftError('EINVAL', 'Invalid argument', { operation });
    });
    await assert.rejects(reconciler.apply(RULESET), (error) => {
      assert.ok(error instanceof ApplyError);
      assert.equal(error.stage, 'prepare');
      assert.equal(error.source?.policy, 'web');
      assert.match(error.message, /^rule web\/close: .*\(prepare\).*Invalid argument/);
      return true;
    });
    assert.equal(kernel.table(), null);
  });

  for (const [what, place] of [
    ['no command', {}],
    ['a command of no rule', { operation: 0 }],
    ['a command that is not there', { operation: 100_000 }],
  ] as const) {
    it(`names no rule when the kernel names ${what}`, async () => {
      const kernel = fakeKernel();
      kernel.intercept(() => {
        throw toNftError('ENOMEM', 'Cannot allocate memory', place);
      });
      const reconciler = new NodeRuleReconciler(kernel);
      await assert.rejects(reconciler.apply(RULESET), { name: 'ApplyError', source: null });
    });
  }

  it('continues after a failure in every stage, from the current state', async () => {
    for (let nth = 1; ; nth++) {
      const kernel = fakeKernel();
      await new NodeRuleReconciler(kernel).apply(rulesetOf([SSH, NETS, PODS, pod('a', '10.1.0.9')]));
      const first = kernel.calls.length;
      const reconciler = new NodeRuleReconciler(kernel);
      let isReached = false;
      kernel.intercept(({ number }) => {
        if (number !== first + nth) return;
        isReached = true;
        throw toNftError('ENOBUFS', 'No buffer space available');
      });
      // A garbage collection or a shadow copy that is refused is not an error.
      await reconciler.apply(RULESET).catch((error) => assert.ok(error instanceof ApplyError));
      await reconciler.apply(RULESET);
      await assertHolds(kernel, RULESET);
      assert.deepEqual(await reconciler.verify(), []);
      if (!isReached) {
        assert.ok(nth > 6, `${nth - 1} transactions`);
        return;
      }
    }
  });
});

describe('keys that are removed while the rules around their map change', () => {
  const rule = (statement: Statement, ...matches: NftRule['matches']): NftRule => ({
    matches,
    counter: false,
    statement,
    comment: null,
  });
  const chain = (name: string, fixed: boolean, ...rules: readonly NftRule[]): Chain => ({
    name,
    base: null,
    fixed,
    rules,
    source: null,
    ruleId: null,
  });
  const lookUp = rule({ kind: 'portMap', protocol: 'tcp', field: 'dport', original: false, map: 'm' });
  /** An index of ports with other rules around it. */
  function index(ports: readonly number[], ...around: readonly NftRule[]): Ruleset {
    const base = { type: 'filter', hook: 'input', priority: 0, policy: 'accept' } as const;
    const chains = [
      { ...chain('input', false, rule({ kind: 'jump', chain: 'index' })), base },
      chain('index', false, ...around, lookUp),
      chain('closed', true, rule({ kind: 'drop' })),
    ];
    const map: VerdictMap = {
      name: 'm',
      key: 'port',
      family: null,
      interval: false,
      fixed: false,
      keys: Uint8Array.from(ports.flatMap((port) => [port >> 8, port & 255])),
      targets: new Uint32Array(ports.length),
      verdicts: [{ kind: 'jump', chain: 'closed' }],
    };
    return {
      chains: new Map(chains.map((one) => [one.name, one])),
      sets: new Map(),
      maps: new Map([['m', map]]),
    };
  }
  const open80 = rule(
    { kind: 'accept' },
    { match: 'port', protocol: 'tcp', field: 'dport', ranges: [[80, 80]] },
  );

  it('are never looked up by the new rules', async () => {
    const kernel = fakeKernel();
    const reconciler = new NodeRuleReconciler(kernel);
    // A rule before the map accepts port 80, which the map would drop.
    await reconciler.apply(index([22, 80], open80));
    const seen: string[] = [];
    kernel.onCommit(() => {
      const { chains, maps } = asRuleset(kernel.table());
      const rules = chains.get('index')?.rules ?? [];
      const [name = ''] = rules.flatMap(({ statement }) => ('map' in statement ? statement.map : []));
      seen.push(`${rules.length} ${maps.get(name)?.targets.length}`);
    });
    const { interimRuleset } = await reconciler.apply(index([22]));
    assert.ok(interimRuleset !== null);
    assert.deepEqual([...new Set(seen)], ['2 2', '1 1']);
    await assertHolds(kernel, index([22]));
    assert.deepEqual(await reconciler.verify(), []);
    assert.ok(isEmptyTransaction((await reconciler.apply(index([22]))).transaction));
  });

  it('need no interim ruleset if the rules stay or no key is removed', async () => {
    const kernel = fakeKernel();
    const reconciler = new NodeRuleReconciler(kernel);
    await reconciler.apply(index([22, 80], open80));
    for (const next of [index([22], open80), index([22, 443])]) {
      assert.equal((await reconciler.apply(next)).interimRuleset, null);
      await assertHolds(kernel, next);
    }
  });
});

describe('a restart', () => {
  it("recognizes an earlier run's rules by digests or shadow copies, and changes nothing", async () => {
    const kernel = fakeKernel();
    const earlier = new NodeRuleReconciler(kernel);
    await earlier.apply(RULESET);
    const remembered = earlier.digests();
    const handles = [...(kernel.table()?.chains.values() ?? [])].map(({ handle }) => handle);
    for (const options of [{ remembered }, {}, { remembered: { refuse: 'other' } }]) {
      const later = new NodeRuleReconciler(kernel, options);
      assert.ok(isEmptyTransaction((await later.apply(RULESET)).transaction));
      const now = [...(kernel.table()?.chains.values() ?? [])].map(({ handle }) => handle);
      assert.deepEqual(now, handles);
      assert.deepEqual(await later.verify(), []);
      assert.deepEqual(later.digests(), remembered);
    }
  });

  it('adds nothing to the kernel, for a comparison neither, if the rules and their digests are there', async () => {
    const kernel = fakeKernel();
    const earlier = new NodeRuleReconciler(kernel);
    await earlier.apply(RULESET);
    const before = await kernel.generation();
    // As an agent saves them.
    const remembered = JSON.parse(JSON.stringify(earlier.digests()));
    await new NodeRuleReconciler(kernel, { remembered }).apply(rulesetOf(OBJECTS));
    assert.equal(await kernel.generation(), before);
  });

  it('writes each chain again that a third party changed, with digests of all', async () => {
    for (const { name } of RULESET.chains.values()) {
      const kernel = fakeKernel();
      const earlier = new NodeRuleReconciler(kernel);
      await earlier.apply(RULESET);
      kernel.tamper(({ chains }) => void chains.get(name)?.rules.pop());
      await new NodeRuleReconciler(kernel, { remembered: earlier.digests() }).apply(RULESET);
      await assertHolds(kernel, RULESET);
    }
  });

  it('writes the chains again whose desired rules changed meanwhile', async () => {
    const kernel = fakeKernel();
    const earlier = new NodeRuleReconciler(kernel);
    await earlier.apply(RULESET);
    const changed = rulesetOf(OBJECTS.slice(1));
    await new NodeRuleReconciler(kernel, { remembered: earlier.digests() }).apply(changed);
    await assertHolds(kernel, changed);
  });

  it('repairs only what a third party changed', async () => {
    const kernel = fakeKernel();
    await new NodeRuleReconciler(kernel).apply(RULESET);
    kernel.tamper(
      ({ chains }) => void [...chains.values()].find(({ name }) => name.endsWith('-web-close'))?.rules.pop(),
    );
    const { transaction: done } = await new NodeRuleReconciler(kernel).apply(RULESET);
    assert.equal(done.rename.length, 1);
    await assertHolds(kernel, RULESET);
  });

  it('changes nothing after lost events', async () => {
    const kernel = fakeKernel();
    const reconciler = new NodeRuleReconciler(kernel);
    await reconciler.apply(RULESET);
    reconciler.invalidate();
    assert.ok(isEmptyTransaction((await reconciler.apply(RULESET)).transaction));
    assert.deepEqual(await reconciler.verify(), []);
  });
});

describe('drift', () => {
  for (const what of TAMPERING_NAMES) {
    it(`${what} is named and repaired`, async () => {
      let touched = 0;
      for (let pick = 0; pick < 12; pick++) {
        const kernel = fakeKernel();
        const reconciler = new NodeRuleReconciler(kernel);
        await reconciler.apply(RULESET);
        const before = JSON.stringify(await listing(kernel));
        tamper(kernel, { what, pick });
        const differences = await reconciler.verify();
        if (JSON.stringify(await listing(kernel)) === before) continue;
        touched++;
        assert.ok(differences.length > 0, `${what} ${pick} was not seen`);
        for (const line of differences) assert.match(line, /^(chain|set|map) \S+ (is|was|has) /);
        await reconciler.apply(RULESET);
        await assertHolds(kernel, RULESET);
        assert.deepEqual(await reconciler.verify(), []);
      }
      assert.ok(touched > 0, 'nothing was ever changed');
    });
  }

  it('a removed table is added again', async () => {
    const kernel = fakeKernel();
    const reconciler = new NodeRuleReconciler(kernel);
    await reconciler.apply(RULESET);
    await kernel.transact([{ kind: 'deleteTable' }]);
    assert.deepEqual(await reconciler.verify(), ['table inet nodewall is missing']);
    await reconciler.apply(RULESET);
    await assertHolds(kernel, RULESET);
  });

  it("is distinguished from nodewall's own changes", async () => {
    const kernel = fakeKernel();
    const reconciler = new NodeRuleReconciler(kernel);
    const generations: number[] = [];
    kernel.onCommit((generation) => generations.push(generation));
    await reconciler.apply(RULESET);
    await reconciler.apply(rulesetOf([SSH]));
    assert.ok(generations.length >= 4);
    for (const generation of generations) assert.ok(reconciler.isOwn(generation), `${generation}`);
    tamper(kernel, { what: 'addsRule', pick: 0 });
    assert.ok(!reconciler.isOwn(await kernel.generation()));
  });

  it("between nodewall's commit and its reading is found", async () => {
    for (let nth = 1; nth <= 5; nth++) {
      const kernel = fakeKernel();
      const reconciler = new NodeRuleReconciler(kernel);
      const own: number[] = [];
      let foreign = 0;
      let count = 0;
      kernel.onCommit((generation) => {
        if (foreign === generation) return;
        own.push(generation);
        if (++count !== nth) return;
        foreign = generation + 1;
        tamper(kernel, { what: 'addsRule', pick: 3 });
      });
      // The change may make the apply itself fail; then the next one reads everything.
      await reconciler.apply(RULESET).catch(() => reconciler.apply(RULESET));
      for (const generation of [...own, foreign].sort((a, b) => a - b)) reconciler.isOwn(generation);
      if ((await reconciler.verify()).length > 0) await reconciler.apply(RULESET);
      await assertHolds(kernel, RULESET);
    }
  });

  it("between nodewall's commit and its reading is found by the next run, too", async () => {
    for (let nth = 1; nth <= 5; nth++) {
      for (let pick = 0; pick < 12; pick++) {
        const kernel = fakeKernel();
        const killed = new NodeRuleReconciler(kernel);
        let count = 0;
        kernel.onCommit(() => {
          if (++count === nth) tamper(kernel, { what: 'addsRule', pick });
        });
        await killed.apply(RULESET).catch(() => killed.apply(RULESET));
        // It was killed before it heard of the change.
        await new NodeRuleReconciler(kernel, { remembered: killed.digests() }).apply(RULESET);
        await assertHolds(kernel, RULESET);
      }
    }
  });
});

describe('any ruleset to any other', function () {
  this.timeout(0);
  const drawn = fc.constantFrom(1, 3, 6, 12).chain((size) => scenario({ size, flows: 15 }));
  const rulesets = ({ objects, node, config }: Scenario) => render(toState(objects, node), toConfig(config));
  const packets = ({ objects, node, config, flows }: Scenario) =>
    flows.flatMap(
      (flow) =>
        toPacket(
          flow as Parameters<typeof toPacket>[0],
          toState(objects, node).nodeAddresses,
          toConfig(config),
        ) ?? [],
    );

  it('ends with exactly that ruleset, after any history', async function () {
    const histories = fc.record({
      from: drawn,
      to: drawn,
      // The transaction that fails, and the changes that a third party makes afterwards.
      failed: fc.option(fc.integer({ min: 1, max: 6 })),
      restarted: fc.boolean(),
      junk: fc.array(tampering, { maxLength: 4 }),
    });
    await checkAsync(this, 60, histories, async ({ from, to, failed, restarted, junk }) => {
      const [before, after] = [rulesets(from), rulesets(to)];
      const kernel = fakeKernel();
      let reconciler = new NodeRuleReconciler(kernel);
      await reconciler.apply(before);
      if (failed !== null) {
        const broken = new NodeRuleReconciler(interrupted(kernel, failed));
        await broken.apply(after).catch((error) => assert.ok(error instanceof ApplyError));
      }
      for (const deed of junk) tamper(kernel, deed);
      if (restarted) reconciler = new NodeRuleReconciler(kernel);
      else await reconciler.verify();
      await reconciler.apply(after);
      await assertHolds(kernel, after);
      assert.deepEqual(await reconciler.verify(), []);
      assert.ok(isEmptyTransaction((await reconciler.apply(after)).transaction));
    });
  });

  it('has no verdict in between that neither ruleset gives', async function () {
    const harmless = [
      'changesType',
      'addsBaseChain',
      'addsCatchAll',
      'setsPolicy',
      'addsOddRange',
    ] as const satisfies readonly Tampering['what'][];
    const deeds = tampering.filter(({ what }) => !harmless.some((one) => one === what));
    const histories = fc.record({
      from: drawn,
      to: drawn,
      restarted: fc.boolean(),
      junk: fc.array(deeds, { maxLength: 2 }),
    });
    let compared = 0;
    let interims = 0;
    await checkAsync(
      this,
      30,
      histories,
      async ({ from, to, restarted, junk }) => {
        const [before, after] = [rulesets(from), rulesets(to)];
        const kernel = fakeKernel();
        let reconciler = new NodeRuleReconciler(kernel);
        await reconciler.apply(before);
        for (const deed of junk) tamper(kernel, deed);
        if (restarted) reconciler = new NodeRuleReconciler(kernel);
        else await reconciler.verify();
        const shadowCopies = [...packets(from), ...packets(to)];
        compared += shadowCopies.length;
        const watch = watchVerdicts(kernel, shadowCopies);
        const { transaction: change, interimRuleset } = await reconciler.apply(after);
        interims += interimRuleset === null ? 0 : 1;
        const changes = [...(interimRuleset === null ? [] : [interimRuleset]), change];
        assert.deepEqual(watch(changes, after).slice(0, 3), []);
        const names = [...asRuleset(kernel.table()).chains.keys()];
        // A base chain is never deleted.
        const wanted = names.filter(
          (name) => !['prerouting', 'forward'].includes(name) || after.chains.has(name),
        );
        assert.deepEqual(wanted.sort(), [...after.chains.keys()].sort());
      },
      () => (compared > 200 ? [] : [`${compared} packets, ${interims} detours`]),
    );
  });
});

describe('batches', () => {
  /**
   * The state after a restart, with this many ports: every chain is renamed, so every port gets
   * another target.
   */
  function afterRestart(ports: number): { current: CurrentState; desired: Ruleset } {
    const policies = Array.from({ length: ports / 16 }, (_, i) =>
      closing(`p${i}`, ...Array.from({ length: 16 }, (_, port) => 3 * (16 * i + port) + 1)),
    );
    const desired = rulesetOf(policies);
    const chains = [...desired.chains].map(([name, { base }]) => [name, { base, rules: null }] as const);
    const maps = [...desired.maps].map(([name, map]) => [name, { ...map, fixed: false }] as const);
    const handles = [...desired.chains.keys()].map((name, i) => [name, i] as const);
    return {
      current: {
        table: true,
        dormant: false,
        chains: new Map(chains),
        sets: desired.sets,
        maps: new Map(maps),
        handles: new Map(handles),
      },
      desired,
    };
  }

  it('never remove a port that a later batch adds again', () => {
    for (const ports of [160, 4000, 20_000]) {
      const { current, desired } = afterRestart(ports);
      const { members, swap, withdraw } = transaction(current, desired);
      assert.deepEqual([members, withdraw], [[], []]);
      const keys = (kind: ElementsCommand['kind']) =>
        swap.flatMap((one) =>
          one.kind === kind && one.keyLength === 2
            ? [`${one.set} ${Buffer.from(one.keys).toString('hex')}`]
            : [],
        );
      assert.ok(keys('addElements').length > 0);
      assert.deepEqual(keys('deleteElements'), keys('addElements'));
    }
  });

  it('hold a limited number of elements, in order, without loss', async () => {
    const pods = (count: number, second: number) =>
      Array.from({ length: count }, (_, i) => pod('a', `10.${second}.${i >> 8}.${i & 255}`));
    const before = rulesetOf([PODS, ...pods(200, 1)]);
    const after = rulesetOf([PODS, ...pods(20_000, 2)]);
    const kernel = fakeKernel();
    const reconciler = new NodeRuleReconciler(kernel);
    await reconciler.apply(before);
    const { members, withdraw } = await reconciler.plan(after);
    assert.deepEqual(
      toBatches(members).map((batch) => batch.map((one) => elementCount(one as ElementsCommand))),
      [[8192], [8192], [3616]],
    );
    assert.equal(toBatches(withdraw).length, 1);
    await reconciler.apply(after);
    const sizes = [...(kernel.table()?.sets.values() ?? [])].map(({ elements }) => elements.size);
    assert.ok(sizes.includes(20_000), sizes.join(' '));
    await assertHolds(kernel, after);
  });
});
