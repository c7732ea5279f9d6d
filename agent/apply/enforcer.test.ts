import assert from 'node:assert/strict';
import type { NodeState } from '../../apis/compiled.ts';
import { DEFAULT_CONFIG } from '../../apis/config.ts';
import { present } from '../../lib/sharing/present.ts';
import { fakeClock } from '../../test/fake/fake-clock.ts';
import { type Call, type FakeKernel, fakeKernel } from '../../test/fake/fake-kernel.ts';
import { closing, nodeState } from '../../test/fake/node-state.ts';
import { toNftError } from '../../test/fake/table.ts';
import { tamper } from '../../test/fake/third-party.ts';
import { policy, tcp } from '../../test/kernel/manifests.ts';
import { renderer } from '../render/render.ts';
import { type Enforced, Enforcer } from './enforcer.ts';
import { envelopeOf } from './envelope.ts';
import { NodeRuleReconciler } from './reconciler.ts';
import { type Applied, FamilyError, RefusedError } from './reconciler-interface.ts';

/** An enforcer with the fake kernel, and everything that it reported. */
function setUp({
  kernel = fakeKernel(),
  lastGood = null,
  settled,
}: {
  kernel?: FakeKernel;
  lastGood?: NodeState | null;
  settled?: (failed: ReadonlyMap<string, Error>) => Promise<boolean>;
} = {}) {
  const clock = fakeClock();
  const said: string[] = [];
  const results: Enforced[] = [];
  const reconciler = new NodeRuleReconciler(kernel);
  const enforcer = new Enforcer({
    reconciler,
    renderer: (canLog) => renderer(DEFAULT_CONFIG, canLog),
    clock,
    lastGood: async () => (lastGood === null ? null : envelopeOf(lastGood)),
    ...present({ settled }),
    events: {
      enforced(result) {
        results.push(result);
        const failed = [...result.failed.keys()].map((key) => ` without ${key}`).join('');
        said.push(`enforced ${policies(result.resolved).join(' ')}${failed}`);
      },
      failed: (_, retryIn) => void said.push(`failed, again in ${retryIn}`),
      unrecorded: () => void said.push('unrecorded'),
      drifted: (differences) => void said.push(`drifted: ${differences.length}`),
    },
  });
  return {
    kernel,
    clock,
    said,
    results,
    enforcer,
    reconciler,
    /** The rules in force: the port of each policy. */
    inForce: () =>
      [...(kernel.table()?.chains.values() ?? [])]
        .flatMap(({ name, rules }) => {
          const policy = /^ingress-\w+-(\w+)-close$/.exec(name)?.[1];
          const port = /dport (\d+)/.exec(rules[0]?.text ?? '')?.[1];
          return policy === undefined || port === undefined ? [] : `${policy}:${port}`;
        })
        .sort(),
    async submit(state: NodeState): Promise<void> {
      enforcer.submit(envelopeOf(state));
      await enforcer.idle();
    },
    async pass(milliseconds: number): Promise<void> {
      clock.pass(milliseconds);
      await enforcer.idle();
    },
  };
}

function policies({ rules }: NodeState): string[] {
  return [...new Set(rules.map(({ source }) => source.policy))].sort();
}

/** Policies by name, each closing a port. */
function state(ports: Readonly<Record<string, number>>): NodeState {
  return nodeState(...Object.entries(ports).map(([name, port]) => closing(name, port)));
}

/** Makes the kernel refuse every rule about this port; `silently`: without naming the line. */
function refusing(port: number, { silently = false } = {}) {
  return ({ lines }: Call) => {
    const operation = lines.findIndex(
      (text) => text.startsWith('add rule ') && text.includes(`dport ${port} `),
    );
    if (operation >= 0) throw toNftError('EINVAL', 'Invalid argument', silently ? {} : { operation });
  };
}

describe('the enforcer', () => {
  it('enforces what is submitted', async () => {
    const { submit, inForce, said, clock, results } = setUp();
    await submit(state({ a: 1, b: 2 }));
    assert.deepEqual(inForce(), ['a:1', 'b:2']);
    await submit(state({ b: 3 }));
    assert.deepEqual(inForce(), ['b:3']);
    assert.deepEqual(said, ['enforced a b', 'enforced b']);
    assert.deepEqual(clock.waiting(), []);
    assert.deepEqual(
      results.map(({ failed }) => failed.size),
      [0, 0],
    );
  });

  it('removes left-overs after each apply, and retries where that fails', async () => {
    let calls = 0;
    const { submit, pass, clock, said } = setUp({ settled: async () => ++calls > 1 });
    await submit(state({ a: 1, b: 2 }));
    assert.equal(calls, 1);
    assert.equal(clock.waiting().length, 1);
    await pass(60_000);
    assert.equal(calls, 2);
    assert.deepEqual(clock.waiting(), []);
    assert.equal(said.length, 2);
  });

  it('names the policies that failed; removes left-overs only once something is in force', async () => {
    const calls: string[][] = [];
    const { submit, kernel, clock, inForce } = setUp({
      settled: async (failed) => calls.push([...failed.keys()]) > 0,
    });
    kernel.intercept(() => {
      throw toNftError('ENOMEM', 'Cannot allocate memory');
    });
    await submit(state({ a: 1, b: 2 }));
    assert.deepEqual([calls, inForce()], [[], []]);
    kernel.intercept(refusing(2));
    await submit(state({ a: 1, b: 2 }));
    assert.deepEqual([calls, inForce()], [[['nodewall.io/b']], ['a:1']]);
    assert.equal(clock.waiting().length, 1, 'the policy is tried again');
  });

  it('makes at most three applies for a burst of states; the newest one wins', async () => {
    const { enforcer, results, inForce } = setUp();
    for (let port = 1; port <= 1000; port++) {
      enforcer.submit(envelopeOf(state({ a: port })));
      // Lets an apply start in the middle of the burst.
      if (port === 500) await Promise.resolve();
    }
    await enforcer.idle();
    assert.ok(results.length <= 3, `${results.length} applies`);
    assert.deepEqual(inForce(), ['a:1000']);
  });

  it('runs one apply at a time', async () => {
    const { enforcer, kernel } = setUp();
    let running = 0;
    kernel.intercept(async () => {
      assert.equal(++running, 1);
      await new Promise((resolve) => setImmediate(resolve));
      running--;
    });
    for (let port = 1; port <= 5; port++) {
      enforcer.submit(envelopeOf(state({ a: port })));
      enforcer.verify();
      await new Promise((resolve) => setImmediate(resolve));
    }
    await enforcer.idle();
  });

  it('does nothing before anything is submitted', async () => {
    const { enforcer, kernel, said } = setUp();
    enforcer.verify();
    await enforcer.idle();
    assert.deepEqual([kernel.calls, said], [[], []]);
  });

  it('starts nothing after it is closed, and leaves the rules', async () => {
    const { enforcer, kernel, inForce, submit, clock } = setUp();
    await submit(state({ a: 1 }));
    kernel.intercept(refusing(2));
    await submit(state({ a: 2 }));
    assert.equal(clock.waiting().length, 1);
    await enforcer.close();
    assert.deepEqual(clock.waiting(), []);
    assert.deepEqual(inForce(), ['a:1']);
  });
});

describe('before the first rules', () => {
  function firstSetUp(holdsRules: () => boolean, refuses: (desired: NodeState) => boolean = () => false) {
    const asked: string[] = [];
    const enforced: boolean[] = [];
    const enforcer = new Enforcer<NodeState>({
      reconciler: {
        async apply(desired) {
          asked.push(policies(desired).join(' '));
          if (refuses(desired)) throw new RefusedError('no', { source: null });
          const isEmpty = asked.filter((one) => one === '').length > 1;
          const change = { isEmpty, changesStructure: true };
          return {
            change: { ...change, text: () => '' },
            leftBehind: null,
            enforcedAfter: 0,
            kernelMicroseconds: 0,
          };
        },
        verify: async () => [],
        holdsRules: async () => holdsRules() || asked.length > 0,
      },
      renderer: () => (desired) => desired,
      clock: fakeClock(),
      lastGood: async () => null,
      events: {
        enforced: (result) => void enforced.push(result.change.isEmpty),
        failed: () => void enforced.push(false),
        unrecorded: () => assert.fail(),
        drifted: () => assert.fail(),
      },
      async beforeFirst(track) {
        asked.push('before');
        await track();
        asked.push('after');
      },
    });
    return { enforcer, asked, enforced };
  }

  it('connections are tracked by a state without rules, once', async () => {
    const { enforcer, asked } = firstSetUp(() => false);
    enforcer.submit(envelopeOf(state({ a: 1 })));
    await enforcer.idle();
    enforcer.submit(envelopeOf(state({ a: 2 })));
    await enforcer.idle();
    assert.deepEqual(asked, ['before', '', 'after', 'a', 'a']);
  });

  it('a state without rules is the change that is reported', async () => {
    const { enforcer, enforced } = firstSetUp(() => false);
    enforcer.submit(envelopeOf(state({})));
    await enforcer.idle();
    assert.deepEqual(enforced, [false]);
  });

  it('nothing is done where an earlier run has rules in force', async () => {
    const { enforcer, asked } = firstSetUp(() => true);
    enforcer.submit(envelopeOf(state({ a: 1 })));
    await enforcer.idle();
    assert.deepEqual(asked, ['a']);
  });

  it('a refused policy is still left out alone', async () => {
    const { enforcer, asked } = firstSetUp(
      () => false,
      (desired) => policies(desired).includes('bad'),
    );
    enforcer.submit(envelopeOf(state({ a: 1, bad: 2 })));
    await enforcer.idle();
    assert.deepEqual(asked, ['before', '', 'after', 'a bad', '', 'a', 'a bad', 'a']);
  });
});

it('ends with the reported state in force when the last policy it tried is refused', async () => {
  const asked: string[] = [];
  const done: Applied = {
    change: { isEmpty: false, changesStructure: true, text: () => '' },
    leftBehind: null,
    enforcedAfter: 0,
    kernelMicroseconds: 0,
  };
  const enforced: string[] = [];
  const enforcer = new Enforcer<NodeState>({
    reconciler: {
      async apply(desired) {
        asked.push(policies(desired).join(' '));
        if (policies(desired).includes('bad')) throw new RefusedError('no', { source: null });
        return done;
      },
      verify: async () => [],
      holdsRules: async () => false,
    },
    renderer: () => (desired) => desired,
    clock: fakeClock(),
    lastGood: async () => null,
    events: {
      enforced: (result) => void enforced.push(policies(result.resolved).join(' ')),
      failed: () => assert.fail(),
      unrecorded: () => assert.fail(),
      drifted: () => assert.fail(),
    },
  });
  enforcer.submit(envelopeOf(state({ a: 1, bad: 2 })));
  await enforcer.idle();
  assert.deepEqual(asked, ['a bad', '', 'a', 'a bad', 'a']);
  assert.deepEqual(enforced, ['a']);
});

it('reports the rules of one family as in force, and the failure of the other until it passes', async () => {
  const clock = fakeClock();
  const said: string[] = [];
  let failedFamily: FamilyError | null = new FamilyError(6, new Error('ip6tables: no'));
  const enforcer = new Enforcer<NodeState>({
    reconciler: {
      apply: async () => ({
        change: { isEmpty: false, changesStructure: true, text: () => '' },
        leftBehind: null,
        failedFamily,
        enforcedAfter: 0,
        kernelMicroseconds: 0,
      }),
      verify: async () => [],
      holdsRules: async () => false,
    },
    renderer: () => (desired) => desired,
    clock,
    lastGood: async () => null,
    async settled() {
      said.push('settled');
      return true;
    },
    events: {
      enforced: (result) => void said.push(`enforced ${policies(result.resolved).join(' ')}`),
      failed: (error, retryIn) => void said.push(`${error.message}, again in ${retryIn}`),
      unrecorded: () => assert.fail(),
      drifted: () => assert.fail(),
    },
    // Sessions are kept: the first rules are in force for IPv4.
    beforeFirst: async (track) => void (await track()),
  });
  enforcer.submit(envelopeOf(state({ a: 1 })));
  await enforcer.idle();
  const failure = 'the rules of IPv6 could not be changed: ip6tables: no';
  assert.deepEqual(said.splice(0), ['enforced a', `${failure}, again in 1000`]);
  failedFamily = null;
  clock.pass(1_000);
  await enforcer.idle();
  assert.deepEqual(said, ['enforced a', 'settled']);
});

for (const silently of [false, true]) {
  describe(`a policy that the kernel refuses${silently ? ' without naming it' : ''}`, () => {
    it('is left out and blocks no other policy', async () => {
      const { kernel, submit, inForce, said } = setUp();
      kernel.intercept(refusing(66, { silently }));
      await submit(state({ a: 1, bad: 66, c: 3 }));
      assert.deepEqual(inForce(), ['a:1', 'c:3']);
      assert.deepEqual(said, ['enforced a c without nodewall.io/bad']);
      await submit(state({ a: 1, bad: 66, c: 4, d: 5 }));
      assert.deepEqual(inForce(), ['a:1', 'c:4', 'd:5']);
    });

    it('keeps its last valid version in force', async () => {
      const { kernel, submit, inForce, results } = setUp();
      await submit(state({ a: 1, bad: 2 }));
      kernel.intercept(refusing(66, { silently }));
      await submit(state({ a: 9, bad: 66 }));
      assert.deepEqual(inForce(), ['a:9', 'bad:2']);
      // The reported state is the one in force.
      assert.deepEqual(policies(results.at(-1)?.resolved ?? state({})), ['a', 'bad']);
      await submit(state({ a: 8, bad: 66 }));
      assert.deepEqual(inForce(), ['a:8', 'bad:2']);
    });

    it('is removed when it is deleted', async () => {
      const { kernel, submit, inForce, clock } = setUp();
      await submit(state({ a: 1, bad: 2 }));
      kernel.intercept(refusing(66, { silently }));
      await submit(state({ a: 1, bad: 66 }));
      await submit(state({ a: 1 }));
      assert.deepEqual(inForce(), ['a:1']);
      assert.deepEqual(clock.waiting(), []);
    });

    it('is retried with back-off, and enforced when the kernel accepts it', async () => {
      const { kernel, submit, inForce, clock, pass, said } = setUp();
      kernel.intercept(refusing(66, { silently }));
      await submit(state({ a: 1, bad: 66 }));
      const waits: number[] = [];
      for (let i = 0; i < 9; i++) {
        const [wait = 0, ...more] = clock.waiting();
        assert.deepEqual(more, [], 'one retry at a time');
        waits.push(wait);
        await pass(wait);
      }
      assert.deepEqual(
        waits,
        [1, 2, 4, 8, 16, 32, 60, 60, 60].map((seconds) => 1000 * seconds),
      );
      kernel.intercept(() => undefined);
      await pass(60_000);
      assert.deepEqual(inForce(), ['a:1', 'bad:66']);
      assert.equal(said.at(-1), 'enforced a bad');
      assert.deepEqual(clock.waiting(), []);
      // After a success the back-off starts again from the first wait.
      kernel.intercept(refusing(77, { silently }));
      await submit(state({ a: 1, bad: 77 }));
      assert.deepEqual(clock.waiting(), [1000]);
    });

    it('and a second one: both are left out, the rest is enforced', async () => {
      const { kernel, submit, inForce, results } = setUp();
      const hooks = [refusing(66, { silently }), refusing(77, { silently })];
      kernel.intercept((call) => {
        for (const hook of hooks) hook(call);
      });
      await submit(state({ a: 1, bad: 66, worse: 77, z: 9 }));
      assert.deepEqual(inForce(), ['a:1', 'z:9']);
      assert.deepEqual([...(results.at(-1)?.failed.keys() ?? [])].sort(), [
        'nodewall.io/bad',
        'nodewall.io/worse',
      ]);
    });
  });
}

describe('a policy whose last valid version is refused now', () => {
  it('is left out, so that the others are enforced', async () => {
    const { kernel, submit, inForce } = setUp();
    await submit(state({ a: 1, bad: 66 }));
    await kernel.transact([{ kind: 'deleteTable' }]);
    kernel.intercept(refusing(66));
    // The first apply finds that the table is gone; the second one knows it.
    await submit(state({ a: 2, bad: 66 }));
    await submit(state({ a: 3, bad: 66 }));
    assert.deepEqual(inForce(), ['a:3']);
  });
});

describe('two policies that the kernel refuses, one of them without naming it', () => {
  it('are both left out', async () => {
    const { kernel, submit, inForce } = setUp();
    const hooks = [refusing(66), refusing(77, { silently: true })];
    kernel.intercept((call) => {
      for (const hook of hooks) hook(call);
    });
    await submit(state({ a: 1, bad: 66, worse: 77, z: 9 }));
    assert.deepEqual(inForce(), ['a:1', 'z:9']);
    await submit(state({ a: 2, bad: 66, worse: 77, z: 9 }));
    assert.deepEqual(inForce(), ['a:2', 'z:9']);
  });
});

describe('a kernel without NFLOG', () => {
  it('enforces every rule, Audit, logged and fqdn rules included, and logs the lack once', async () => {
    const { kernel, submit, said, results } = setUp();
    kernel.intercept(({ lines }) => {
      const operation = lines.findIndex((text) => text.includes(' log prefix '));
      if (operation >= 0) throw toNftError('ENOENT', 'No such file or directory', { operation });
    });
    const recorded = { name: 'close', action: 'Drop', ports: [tcp(22)], enableLogging: true } as const;
    const named = { name: 'name', action: 'Allow', to: [{ fqdn: 'a.example.com' }] } as const;
    const objects = [
      closing('a', 1),
      policy('b', { ingress: [recorded] }),
      policy('c', { egress: [named, { name: 'deny', action: 'Drop' }] }),
      policy('d', { mode: 'Audit', ingress: [{ name: 'try', action: 'Drop' }] }),
    ];
    await submit(nodeState(...objects));
    await submit(nodeState(...objects, closing('e', 5)));
    assert.deepEqual(said, ['unrecorded', 'enforced a b c d', 'enforced a b c d e']);
    assert.deepEqual(
      results.flatMap(({ resolved: { rules } }) => rules.map(({ log }) => log !== null)).filter(Boolean)
        .length,
      4,
      'what is in force still says what should be recorded',
    );
  });
});

describe('a refused policy about services', () => {
  it('keeps its last valid version in force, with the Services it names', async () => {
    const api = {
      apiVersion: 'v1',
      kind: 'Service',
      metadata: { name: 'api', namespace: 'default' },
      spec: { clusterIP: '10.96.0.9', clusterIPs: ['10.96.0.9'], ports: [{ port: 443, protocol: 'TCP' }] },
    };
    const toApi = {
      name: 'close',
      action: 'Drop',
      toServices: [{ name: 'api', namespace: 'default' }],
    } as const;
    const { kernel, submit, results } = setUp();
    await submit(nodeState(api, policy('a', { egress: [toApi] })));
    kernel.intercept(refusing(66));
    await submit(nodeState(api, closing('a', 66)));
    assert.deepEqual(
      results.map(({ resolved: { rules, serviceSets } }) => [rules.length, serviceSets.size]),
      [
        [1, 1],
        [1, 1],
      ],
    );
    assert.deepEqual([...(results[1]?.failed.keys() ?? [])], ['nodewall.io/a']);
  });
});

describe('a garbage collection that the kernel refuses', () => {
  it('leaves the desired rules in force, and is retried', async () => {
    const { kernel, submit, inForce, pass, clock, said } = setUp();
    await submit(state({ a: 1, b: 3 }));
    kernel.intercept(({ lines }) => {
      if (lines.some((line) => line.startsWith('delete chain ')))
        throw toNftError('EBUSY', 'busy', { operation: 0 });
    });
    await submit(state({ b: 3 }));
    assert.deepEqual(inForce(), ['a:1', 'b:3'], 'the old chain is still there');
    assert.ok(!said.some((line) => line.includes('without')), said.join('; '));
    kernel.intercept(() => undefined);
    await pass(clock.waiting()[0] ?? 0);
    assert.deepEqual(inForce(), ['b:3']);
  });
});

describe('a kernel that refuses everything', () => {
  it('keeps the rules in force, and is retried with back-off', async () => {
    const { kernel, submit, inForce, said, pass, clock } = setUp();
    await submit(state({ a: 1 }));
    kernel.intercept(() => {
      throw toNftError('ENOMEM', 'Cannot allocate memory');
    });
    await submit(state({ a: 2, b: 3 }));
    assert.deepEqual(inForce(), ['a:1']);
    await pass(1000);
    await pass(2000);
    assert.deepEqual(inForce(), ['a:1']);
    // Each retry reports a failure of the whole or of policy a, with increasing back-off.
    for (const line of said.slice(1)) assert.match(line, /failed|enforced a without nodewall.io\/a/);
    assert.deepEqual(clock.waiting(), [4000]);
    kernel.intercept(() => undefined);
    await pass(clock.waiting()[0] ?? 0);
    assert.deepEqual(inForce(), ['a:2', 'b:3']);
    assert.deepEqual(clock.waiting(), []);
  });

  it('is tried at once when a new state is submitted', async () => {
    const { kernel, submit, inForce, clock } = setUp();
    kernel.intercept(() => {
      throw toNftError('ENOMEM', 'Cannot allocate memory');
    });
    await submit(state({ a: 1 }));
    kernel.intercept(() => undefined);
    await submit(state({ a: 2 }));
    assert.deepEqual(inForce(), ['a:2']);
    assert.deepEqual(clock.waiting(), []);
  });
});

describe('a retry that waits', () => {
  it('is not ended by a comparison that finds nothing', async () => {
    const { kernel, submit, enforcer, inForce, clock, pass } = setUp();
    await submit(state({ a: 1 }));
    kernel.intercept(() => {
      throw toNftError('ENOMEM', 'Cannot allocate memory');
    });
    await submit(state({ a: 2 }));
    kernel.intercept(() => undefined);
    enforcer.verify();
    await enforcer.idle();
    await pass(clock.waiting()[0] ?? 0);
    assert.deepEqual(inForce(), ['a:2']);
  });

  it('does not outlive the enforcer', async () => {
    const { kernel, enforcer, clock } = setUp();
    kernel.intercept(() => {
      throw toNftError('ENOMEM', 'Cannot allocate memory');
    });
    enforcer.submit(envelopeOf(state({ a: 1 })));
    await enforcer.close();
    assert.deepEqual(clock.waiting(), []);
  });
});

describe('a restart over a table that is in force', () => {
  const before = state({ a: 1, b: 2 });

  /** A kernel with rules of an earlier run. */
  async function inUse(): Promise<FakeKernel> {
    const { kernel, submit } = setUp();
    await submit(before);
    return kernel;
  }

  /** Returns a function for the fewest rules that the index has had since this call. */
  function watchIndex(kernel: FakeKernel): () => number {
    let fewest = Number.POSITIVE_INFINITY;
    kernel.intercept(() => {
      fewest = Math.min(fewest, kernel.table()?.chains.get('ingress')?.rules.length ?? 0);
    });
    return () => fewest;
  }

  it('keeps a refused policy in the version of the last run', async () => {
    const { kernel, submit, inForce } = setUp({ kernel: await inUse(), lastGood: before });
    kernel.intercept(refusing(66));
    await submit(state({ a: 1, b: 66 }));
    assert.deepEqual(inForce(), ['a:1', 'b:2']);
  });

  it('keeps it when the kernel does not name the refused rule', async () => {
    const { kernel, submit, inForce } = setUp({ kernel: await inUse(), lastGood: before });
    kernel.intercept(refusing(66, { silently: true }));
    await submit(state({ a: 3, b: 66 }));
    assert.deepEqual(inForce(), ['a:3', 'b:2']);
  });

  it('changes nothing when no valid version is known', async () => {
    const { kernel, submit, inForce, said } = setUp({ kernel: await inUse() });
    kernel.intercept(refusing(66, { silently: true }));
    await submit(state({ a: 3, b: 66 }));
    assert.deepEqual(inForce(), ['a:1', 'b:2']);
    assert.deepEqual(said, ['failed, again in 1000']);
  });

  it('never removes rules when the table cannot be read', async () => {
    const kernel = await inUse();
    const fewest = watchIndex(kernel);
    let reads = 0;
    const unreadable = {
      ...kernel,
      snapshot: () => {
        if (++reads < 3) throw toNftError('EINTR', 'Interrupted system call');
        return kernel.snapshot();
      },
    };
    const { submit, inForce, pass, clock } = setUp({ kernel: unreadable, lastGood: before });
    await submit(state({ a: 1, b: 3 }));
    assert.deepEqual(inForce(), ['a:1', 'b:2']);
    while (clock.waiting().length > 0) await pass(clock.waiting()[0] ?? 0);
    assert.deepEqual(inForce(), ['a:1', 'b:3']);
    assert.ok(fewest() > 0);
  });
});

describe('a comparison', () => {
  it('runs although an apply is requested meanwhile', async () => {
    const { kernel, submit, enforcer, inForce, said } = setUp();
    await submit(state({ a: 1 }));
    tamper(kernel, { what: 'addsChain', pick: 7 });
    enforcer.verify();
    enforcer.submit(envelopeOf(state({ a: 1 })));
    await enforcer.idle();
    assert.deepEqual(inForce(), ['a:1']);
    assert.ok(
      said.some((line) => line.startsWith('drifted')),
      said.join('; '),
    );
  });
});

describe('a table that a third party changed since', () => {
  it('is read again before a policy counts as failed', async () => {
    const { kernel, submit, inForce, said } = setUp();
    await submit(state({ a: 1, b: 2 }));
    await kernel.transact([{ kind: 'deleteTable' }]);
    await submit(state({ a: 1, b: 3 }));
    assert.deepEqual(inForce(), ['a:1', 'b:3']);
    assert.equal(said.at(-1), 'enforced a b');
  });
});

describe('drift', () => {
  it('is repaired, and the differences are logged', async () => {
    const { kernel, submit, enforcer, inForce, said } = setUp();
    await submit(state({ a: 1, b: 2 }));
    for (const what of ['addsRule', 'renamesChain', 'addsChain', 'deletesElements'] as const) {
      tamper(kernel, { what, pick: 7 });
      enforcer.verify();
      await enforcer.idle();
      assert.match(said.at(-2) ?? '', /^drifted: [1-9]/, what);
      assert.equal(said.at(-1), 'enforced a b');
      assert.deepEqual(inForce(), ['a:1', 'b:2']);
    }
  });

  it('is not reported when there is none', async () => {
    const { submit, enforcer, said, kernel } = setUp();
    await submit(state({ a: 1 }));
    const calls = kernel.calls.length;
    enforcer.verify();
    await enforcer.idle();
    assert.deepEqual(said, ['enforced a']);
    assert.equal(kernel.calls.length, calls);
  });

  it("does not count a policy as failed when a third party's change made the apply fail", async () => {
    const { kernel, submit, said, inForce, pass } = setUp();
    await submit(state({ a: 1 }));
    await kernel.transact([{ kind: 'deleteTable' }]);
    // No event has reported the deletion yet.
    await submit(state({ a: 1, b: 2 }));
    await pass(1000);
    assert.deepEqual(inForce(), ['a:1', 'b:2']);
    assert.equal(said.at(-1), 'enforced a b');
    assert.ok(!said.some((line) => line.includes('without')), said.join('\n'));
  });
});
