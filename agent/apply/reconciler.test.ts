import assert from 'node:assert/strict';
import fc from 'fast-check';
import { asRuleset } from '../../test/fake/asruleset.ts';
import { type FakeKernel, fakeKernel } from '../../test/fake/fakekernel.ts';
import { interrupted } from '../../test/fake/interrupt.ts';
import { listing } from '../../test/fake/listing.ts';
import { closing, fromPods, ingress, pod, rulesetOf } from '../../test/fake/nodestate.ts';
import { checkAsync } from '../../test/fake/property.ts';
import { toNftError } from '../../test/fake/refusal.ts';
import { watchVerdicts } from '../../test/fake/steps.ts';
import { TAMPERING_NAMES, type Tampering, tamper, tampering } from '../../test/fake/stranger.ts';
import { type Scenario, scenario } from '../../test/generate/scenario.ts';
import { cidr, tcp } from '../../test/kernel/manifests.ts';
import { toConfig, toState } from '../../test/properties/pipeline.ts';
import { toPacket } from '../../test/tracer/packet.ts';
import { rulesetText } from '../render/nfttext.ts';
import { render } from '../render/render.ts';
import type { Ruleset } from '../render/ruleset.ts';
import type { Held } from './held.ts';
import { toBatches } from './kernel.ts';
import { ApplyError, NodeRuleReconciler } from './reconciler.ts';
import { isEmpty, transaction } from './transaction.ts';

async function assertHolds(kernel: FakeKernel, ruleset: Ruleset): Promise<void> {
  const reference = fakeKernel();
  await reference.commands.run(rulesetText(ruleset));
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
  it('makes the kernel hold a ruleset, and then nothing differs', async () => {
    const kernel = fakeKernel();
    const reconciler = new NodeRuleReconciler(kernel);
    assert.deepEqual(await reconciler.verify(), [], 'nothing was applied, nothing can differ');
    await reconciler.apply(RULESET);
    await assertHolds(kernel, RULESET);
    assert.deepEqual(await reconciler.verify(), []);
    const before = kernel.generation();
    assert.ok(isEmpty((await reconciler.apply(rulesetOf([...OBJECTS].reverse()))).transaction));
    assert.equal(kernel.generation(), before);
  });

  it('plans without a change', async () => {
    const kernel = fakeKernel();
    const reconciler = new NodeRuleReconciler(kernel);
    const planned = await reconciler.plan(RULESET);
    assert.deepEqual(kernel.calls, []);
    assert.deepEqual(planned, (await reconciler.apply(RULESET)).transaction);
  });

  it('changes members by netlink alone', async () => {
    const kernel = fakeKernel();
    const reconciler = new NodeRuleReconciler(kernel);
    await reconciler.apply(RULESET);
    const before = kernel.calls.length;
    await reconciler.apply(rulesetOf([...OBJECTS, pod('a', '10.1.0.2')]));
    assert.deepEqual(
      kernel.calls.slice(before).map(({ kind }) => kind),
      ['batch'],
    );
    assert.deepEqual(await reconciler.verify(), []);
  });

  it('names the stage and the rule that the kernel refused', async () => {
    const kernel = fakeKernel();
    const reconciler = new NodeRuleReconciler(kernel);
    kernel.intercept(({ lines }) => {
      const line = lines.findIndex((text) => /^add rule inet nodewall \S+-web-close /.test(text)) + 1;
      if (line > 0) throw toNftError('EINVAL', 'Invalid argument', { line });
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
    ['no line', {}],
    ['a line of no rule', { line: 1 }],
    ['a line that is not there', { line: 100_000 }],
  ] as const) {
    it(`blames nobody where the kernel names ${what}`, async () => {
      const kernel = fakeKernel();
      kernel.intercept(() => {
        throw toNftError('ENOMEM', 'Cannot allocate memory', place);
      });
      const reconciler = new NodeRuleReconciler(kernel);
      await assert.rejects(reconciler.apply(RULESET), { name: 'ApplyError', source: null });
    });
  }

  it('takes up after a failure in every stage, from what the kernel then holds', async () => {
    for (let nth = 1; ; nth++) {
      const kernel = fakeKernel();
      await new NodeRuleReconciler(kernel).apply(rulesetOf([SSH, NETS]));
      const first = kernel.calls.length;
      const reconciler = new NodeRuleReconciler(kernel);
      kernel.intercept(({ number }) => {
        if (number === first + nth) throw toNftError('ENOBUFS', 'No buffer space available');
      });
      // A sweep that is refused is no failure, but said.
      const failed = await reconciler.apply(RULESET).then(
        ({ unswept }) => unswept !== null,
        () => true,
      );
      await reconciler.apply(RULESET);
      await assertHolds(kernel, RULESET);
      assert.deepEqual(await reconciler.verify(), []);
      if (!failed) {
        assert.ok(nth > 5, `${nth - 1} stages`);
        return;
      }
    }
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

  it('a table that is gone is made again', async () => {
    const kernel = fakeKernel();
    const reconciler = new NodeRuleReconciler(kernel);
    await reconciler.apply(RULESET);
    await kernel.commands.run('delete table inet nodewall\n');
    assert.deepEqual(await reconciler.verify(), ['table inet nodewall is gone']);
    await reconciler.apply(RULESET);
    await assertHolds(kernel, RULESET);
  });

  it('is told from what changes of our own', async () => {
    const kernel = fakeKernel();
    const reconciler = new NodeRuleReconciler(kernel);
    const generations: number[] = [];
    kernel.onCommit((generation) => generations.push(generation));
    await reconciler.apply(RULESET);
    await reconciler.apply(rulesetOf([SSH]));
    assert.ok(generations.length > 4);
    for (const generation of generations) assert.ok(reconciler.isOwn(generation), `${generation}`);
    tamper(kernel, { what: 'addsRule', pick: 0 });
    assert.ok(!reconciler.isOwn(kernel.generation()));
  });

  it('between a commit of ours and the look at it is seen', async () => {
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
});

describe('any ruleset to any other', function () {
  this.timeout(30_000);
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

  it('ends with exactly that, whatever happened before', async function () {
    const histories = fc.record({
      from: drawn,
      to: drawn,
      // The transaction that fails, and what somebody does afterwards.
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
      assert.ok(isEmpty((await reconciler.apply(after)).transaction));
    });
  });

  it('has no verdict on the way that is neither of both', async function () {
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
    await checkAsync(this, 30, histories, async ({ from, to, restarted, junk }) => {
      const [before, after] = [rulesets(from), rulesets(to)];
      const kernel = fakeKernel();
      let reconciler = new NodeRuleReconciler(kernel);
      await reconciler.apply(before);
      for (const deed of junk) tamper(kernel, deed);
      if (restarted) reconciler = new NodeRuleReconciler(kernel);
      else await reconciler.verify();
      const change = await reconciler.plan(after);
      const probes = [...packets(from), ...packets(to)];
      compared += probes.length;
      const known = [before, after, STRANGERS];
      const wrong = watchVerdicts(kernel, { change, desired: after, known }, probes);
      await reconciler.apply(after);
      assert.deepEqual(wrong.slice(0, 3), []);
      assert.deepEqual(
        [...asRuleset(kernel.table(), known).chains.keys()].sort(),
        [...after.chains.keys()].sort(),
      );
    });
    if (process.env.NODEWALL_PATH === undefined) assert.ok(compared > 200, `${compared} packets`);
  });
});

/** What strangers add (test/fake/stranger.ts): the tracer has to know it. */
const STRANGERS: Ruleset = {
  chains: new Map([
    [
      'stranger',
      {
        name: 'stranger',
        base: null,
        fixed: false,
        source: null,
        ruleId: null,
        rules: [
          { matches: [], counter: false, statement: { kind: 'drop' }, comment: null },
          { matches: [], counter: false, statement: { kind: 'jump', chain: 'x' }, comment: null },
        ],
      },
    ],
  ]),
  sets: new Map(),
  maps: new Map(),
};

describe('batches', () => {
  /** A restart with so many ports: every chain is moved aside, so every port gets another target. */
  function afterRestart(ports: number): { held: Held; desired: Ruleset } {
    const policies = Array.from({ length: Math.ceil(ports / 16) }, (_, i) =>
      ingress(`p${i}`, { name: 'r', action: 'Drop', ports: [tcp(1 + 16 * i, 16 + 16 * i)] }),
    );
    const desired = rulesetOf(policies);
    const chains = [...desired.chains].map(([name, { base }]) => [name, { base, known: null }] as const);
    const maps = [...desired.maps].map(
      ([name, { entries }]) => [name, { isPortMap: true, entries }] as const,
    );
    return {
      held: { table: true, chains: new Map(chains), sets: desired.sets, maps: new Map(maps) },
      desired,
    };
  }

  it('never take a port away that comes back in another', () => {
    for (const ports of [16, 4000, 5000, 20_000]) {
      const { held, desired } = afterRestart(ports);
      const change = transaction(held, desired);
      assert.ok(
        change.maps.some(({ removed, added }) => removed.length === added.length && added.length >= ports),
      );
      for (const batch of toBatches(change)) {
        const [removed, added] = (['delete', 'add'] as const).map((op) =>
          batch.flatMap((one) =>
            one.op === op && 'keys' in one && one.set.includes('-ports-')
              ? Buffer.from(one.keys).toString('hex')
              : [],
          ),
        );
        assert.deepEqual(removed, added);
      }
    }
  });

  it('hold so many elements at most, in order, none lost', async () => {
    const pods = (count: number, second: number) =>
      Array.from({ length: count }, (_, i) => pod('a', `10.${second}.${i >> 8}.${i & 255}`));
    const before = rulesetOf([PODS, ...pods(200, 1)]);
    const after = rulesetOf([PODS, ...pods(20_000, 2)]);
    const kernel = fakeKernel();
    const reconciler = new NodeRuleReconciler(kernel);
    await reconciler.apply(before);
    const batches = toBatches(await reconciler.plan(after));
    assert.ok(batches.length === 3 || batches.length === 4, `${batches.length}`);
    await reconciler.apply(after);
    const set = [...(kernel.table()?.sets.values() ?? [])].find(
      ({ name }) => /^peers-.*-v4$/.test(name) && name !== '',
    );
    assert.ok(set !== undefined);
    const sizes = [...(kernel.table()?.sets.values() ?? [])].map(({ elements }) => elements.size);
    assert.ok(sizes.includes(20_000), sizes.join(' '));
  });

  it('of no change are none', () => {
    assert.deepEqual(toBatches({ members: [], maps: [] }), []);
  });
});
