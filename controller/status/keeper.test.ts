import assert from 'node:assert/strict';
import type { NodeReport } from '../../apis/node-report.ts';
import { type ClusterNetworkPolicy, type ClusterObjects, NO_OBJECTS, type Node } from '../../apis/objects.ts';
import type { FailingNode, PolicyStatus } from '../../apis/policy-status.ts';
import { type FakeClock, fakeClock } from '../../test/fake/fake-clock.ts';
import { compiler } from '../compile/compile.ts';
import { Hub } from '../publish/hub.ts';
import type { LoadProblem } from '../watch/source.ts';
import type { AntreaStatus } from './antrea-status.ts';
import { StatusKeeper } from './keeper.ts';

function node(name: string, role = 'worker'): Node {
  return { kind: 'Node', name, labels: { role }, addresses: [`192.0.2.${name.charCodeAt(0)}`] };
}

function policy(generation: number, role = 'worker', name = 'p'): ClusterNetworkPolicy {
  const appliedTo = [{ nodeSelector: { matchLabels: { role } } }];
  const ingress = [{ name: 'r', action: 'Drop', ports: [{ protocol: 'TCP', port: 22 }] }] as const;
  return {
    kind: 'ClusterNetworkPolicy',
    apiGroup: 'nodewall.io',
    name,
    uid: `uid-${name}`,
    generation,
    spec: { priority: 1, appliedTo, ingress },
  };
}

const NODES = [node('a'), node('b')];
const BROKEN: LoadProblem = {
  severity: 'error',
  file: '',
  line: 0,
  kind: 'ClusterNetworkPolicy',
  name: 'p',
  path: 'spec.priority',
  message: 'must be a number',
};

/** The stages from objects to status, with a writer that only records. */
function controller(time: FakeClock) {
  const compile = compiler();
  const hub = new Hub({ gate: true });
  const written: [string, PolicyStatus][] = [];
  const failing: FailingNode[][] = [];
  const troubled: string[] = [];
  const forgotten: string[] = [];
  let clears = 0;
  let last: PolicyStatus | null = null;
  /** Whether the API delivers written statuses at once. */
  const api = { isPrompt: true };
  const antrea = { written: [] as [string, AntreaStatus][], clears: 0 };
  const keeper: StatusKeeper = new StatusKeeper({
    writer: {
      submit(name, uid, status) {
        written.push([name, status]);
        last = status;
        if (api.isPrompt)
          keeper.version(null, {
            apiGroup: 'nodewall.io',
            name,
            uid,
            generation: status.observedGeneration,
            since: 0,
            status,
          });
      },
      forget: (name) => void forgotten.push(name),
      has: () => false,
      clear: async () => void clears++,
    },
    antreaWriter: {
      submit(name, uid, status) {
        antrea.written.push([name, status]);
        const { observedGeneration: generation } = status;
        keeper.version(null, { apiGroup: 'crd.antrea.io', name, uid, generation, since: 0, status });
      },
      forget: () => {},
      has: () => false,
      clear: async () => void antrea.clears++,
    },
    events: {
      failing: (_, nodes) => void failing.push([...nodes]),
      troubled: (node, why) => void troubled.push(`${node}: ${why}`),
      clear: async () => {},
    },
    clock: Object.assign(time, { date: () => new Date(time.now()) }),
  });
  return {
    keeper,
    written,
    failing,
    troubled,
    forgotten,
    clears: () => clears,
    antrea,
    api,
    /** The last status submitted to the writer. */
    last: () => last ?? assert.fail(),
    version(name: string, generation: number, status: PolicyStatus | null = null): void {
      keeper.version(null, {
        apiGroup: 'nodewall.io',
        name,
        uid: `uid-${name}`,
        generation,
        since: 0,
        status,
      });
    },
    publish(objects: Partial<ClusterObjects>, problems: readonly LoadProblem[] = []): void {
      const snapshot = {
        objects: { ...NO_OBJECTS, nodes: NODES, ...objects },
        problems,
        files: 0,
        complete: true,
      };
      const compiled = compile(snapshot.objects);
      hub.publish(compiled);
      keeper.publish(snapshot, compiled, hub.revision);
    },
    report(name: string, more: Partial<NodeReport> = {}): void {
      keeper.report({
        node: name,
        enforced: hub.revision,
        enabled: true,
        failing: [],
        ...more,
      } as unknown as NodeReport);
    },
    /** The statuses written since the last call: phase, nodes. */
    said(): string[] {
      time.pass(250);
      return written
        .splice(0)
        .map(([name, { phase, observedGeneration, currentNodesRealized, desiredNodesRealized }]) => {
          return `${name}@${observedGeneration} ${phase} ${currentNodesRealized}/${desiredNodesRealized}`;
        });
    },
  };
}

describe('statusKeeper', () => {
  let clock: FakeClock;
  let now: ReturnType<typeof controller>;
  beforeEach(async () => {
    clock = fakeClock();
    now = controller(clock);
    now.keeper.gate(true);
    await now.keeper.lead(true);
    clock.pass(60_000);
  });

  it('writes a status again if the API has another one', () => {
    now.api.isPrompt = false;
    now.version('p', 1);
    now.publish({ policies: [policy(1)] });
    now.said();
    const first = now.last();
    for (const node of ['a', 'b']) now.report(node);
    assert.deepEqual(now.said(), ['p@1 Realized 2/2']);
    const last = now.last();
    // Events of the process's own writes arrive late, and in order.
    now.version('p', 1, first);
    clock.pass(10_000);
    now.version('p', 1, last);
    clock.pass(60_000);
    assert.deepEqual(now.said(), []);
    now.version('p', 1, { ...last, currentNodesRealized: 7 });
    clock.pass(30_000);
    assert.deepEqual(now.said(), ['p@1 Realized 2/2']);
  });

  it('sets Failed while a node is silent, and Realized when it reports again', async () => {
    now.version('p', 1);
    now.publish({ policies: [policy(1)] });
    now.report('a');
    now.report('b');
    assert.deepEqual(now.said(), ['p@1 Realized 2/2']);
    clock.pass(150_000);
    now.report('a');
    clock.pass(45_000);
    assert.deepEqual(now.said(), ['p@1 Failed 1/2']);
    assert.deepEqual(
      now.failing.map((nodes) => nodes.map(({ node: name }) => name)),
      [['b']],
    );
    now.report('b');
    assert.deepEqual(now.said(), ['p@1 Realized 2/2']);
    await now.keeper.lead(false);
    clock.pass(600_000);
    assert.deepEqual(now.said(), []);
  });

  it('follows a policy from Pending to Realized, through an edit, to other nodes', () => {
    now.version('p', 1);
    now.publish({ policies: [policy(1)] });
    assert.deepEqual(now.said(), ['p@1 Pending 0/2']);
    now.report('a');
    assert.deepEqual(now.said(), ['p@1 Realizing 1/2']);
    now.report('b');
    assert.deepEqual(now.said(), ['p@1 Realized 2/2']);
    now.report('b');
    assert.deepEqual(now.said(), []);
    now.version('p', 2);
    // The objects are still the previous ones: no status can be computed for either version.
    assert.deepEqual(now.said(), []);
    now.publish({ policies: [policy(2)] });
    assert.deepEqual(now.said(), ['p@2 Pending 0/2']);
    now.report('a');
    now.report('b');
    assert.deepEqual(now.said(), ['p@2 Realized 2/2']);
    const policies = [policy(2)];
    now.publish({ policies, nodes: [node('a'), node('b', 'other')] });
    assert.deepEqual(now.said(), ['p@2 Realized 1/1']);
    now.publish({ policies, nodes: [node('a', 'other'), node('b', 'other')] });
    assert.deepEqual(now.said(), ['p@2 NoNodes 0/0']);
  });

  it('gives the reason why a version is left out, and the version enforced instead', () => {
    const [valid] = [policy(1)];
    now.version('p', 1);
    now.publish({ policies: [valid] });
    now.report('a');
    now.report('b');
    assert.deepEqual(now.said(), ['p@1 Realized 2/2']);
    now.version('p', 2);
    now.publish({ policies: [valid] }, [BROKEN]);
    // The problems could be those of the previous version.
    assert.deepEqual(now.said(), []);
    clock.pass(1_000);
    const [, status] = now.written[0] ?? [];
    assert.equal(status?.enforcedGeneration, 1);
    assert.deepEqual(status.problems, ['spec.priority: must be a number']);
    assert.deepEqual(now.said(), ['p@2 Invalid 2/2']);
    now.version('q', 1);
    now.publish({ policies: [valid] }, [BROKEN, { ...BROKEN, name: 'q' }]);
    clock.pass(250);
    clock.pass(1_000);
    assert.deepEqual(now.said(), ['q@1 Invalid 0/0']);
  });

  it('does not keep the problems of the previous version', () => {
    now.version('p', 1);
    now.publish({ policies: [] }, [BROKEN]);
    clock.pass(250);
    clock.pass(1_000);
    assert.deepEqual(now.said(), ['p@1 Invalid 0/0']);
    now.version('p', 2);
    assert.deepEqual(now.said(), []);
    now.publish({ policies: [policy(2)] });
    clock.pass(1_000);
    assert.deepEqual(now.said(), ['p@2 Pending 0/2']);
  });

  it('names failing nodes, and writes an event when they begin to fail', () => {
    now.version('p', 1);
    now.publish({ policies: [policy(1)] });
    const failing = [
      { apiGroup: 'nodewall.io', policy: 'p', generation: 1, rule: 'r', reason: 'no memory' },
    ] as const;
    now.report('a', { failing });
    now.report('b');
    assert.deepEqual(now.said(), ['p@1 Failed 1/2']);
    now.report('b', { failing });
    assert.deepEqual(now.said(), ['p@1 Failed 0/2']);
    now.report('a');
    now.report('b');
    assert.deepEqual(now.said(), ['p@1 Realized 2/2']);
    now.report('a', { failing });
    assert.deepEqual(now.said(), ['p@1 Failed 1/2']);
    assert.deepEqual(
      now.failing.map((nodes) => nodes.map(({ node }) => node)),
      [['a'], ['b'], ['a']],
    );
  });

  it('names a node that is off or cannot follow, and writes one event on the Node when that begins', () => {
    now.version('p', 1);
    now.publish({ policies: [policy(1)] });
    now.report('a');
    now.report('b');
    assert.deepEqual(now.said(), ['p@1 Realized 2/2']);
    now.report('a', { off: 'by hand', enforced: null });
    now.report('b', { viewError: '3 rules are held' });
    assert.deepEqual(now.said(), ['p@1 Failed 0/2']);
    assert.deepEqual(now.last().failingNodes, [
      { node: 'a', reason: 'nodewall is off on the node (nodewall off): by hand' },
      { node: 'b', reason: 'the agent cannot follow the controller: 3 rules are held' },
    ]);
    now.report('a', { off: 'by hand', enforced: null });
    now.report('a');
    now.report('b');
    assert.deepEqual(now.said(), ['p@1 Realized 2/2']);
    now.report('a', { off: '', enforced: null });
    assert.deepEqual(now.said(), ['p@1 Failed 1/2']);
    assert.deepEqual(now.troubled, [
      'a: nodewall is off on the node (nodewall off): by hand',
      'b: the agent cannot follow the controller: 3 rules are held',
      'a: nodewall is off on the node (nodewall off)',
    ]);
  });

  it('sets Disabled while the gate is off', () => {
    now.version('p', 1);
    now.publish({ policies: [policy(1)] });
    now.report('a');
    now.report('b');
    assert.deepEqual(now.said(), ['p@1 Realized 2/2']);
    now.keeper.gate(false);
    assert.deepEqual(now.said(), ['p@1 Disabled 0/0']);
    now.keeper.gate(true);
    assert.deepEqual(now.said(), ['p@1 Realized 2/2']);
  });

  it('does not write unchanged statuses, foreign policies and deleted ones', () => {
    const antrea = { ...policy(1), apiGroup: 'crd.antrea.io' as const };
    now.publish({ policies: [antrea] });
    assert.deepEqual(now.said(), []);
    now.publish({ policies: [policy(1)] });
    now.version('p', 1);
    assert.deepEqual(now.said(), ['p@1 Pending 0/2']);
    now.keeper.version(
      { apiGroup: 'nodewall.io', name: 'p', uid: 'uid-p', generation: 1, since: 0, status: null },
      null,
    );
    now.publish({ policies: [] });
    assert.deepEqual([now.said(), now.forgotten], [[], ['p']]);
  });

  describe('of policies of crd.antrea.io', () => {
    const version = (generation: number, status: AntreaStatus | null = null): void => {
      const uid = 'uid-p';
      const apiGroup = 'crd.antrea.io';
      now.keeper.version(null, { apiGroup, name: 'p', uid, generation, since: 0, status });
    };
    const antrea = (generation: number) => ({ ...policy(generation), apiGroup: 'crd.antrea.io' as const });
    /** The statuses written since the last call. */
    const said = (): AntreaStatus[] => {
      clock.pass(250);
      return now.antrea.written.splice(0).map(([, status]) => status);
    };
    const phases = (): string[] => {
      return said().map((status) => {
        const { phase, observedGeneration, currentNodesRealized, desiredNodesRealized } = status;
        return `${phase}@${observedGeneration} ${currentNodesRealized}/${desiredNodesRealized}`;
      });
    };

    it('writes nothing unless no controller of Antrea runs, and then what Antrea would', () => {
      version(1);
      assert.equal(now.keeper.hasAntreaPolicies, true);
      now.publish({ policies: [antrea(1), policy(1)] });
      assert.deepEqual(phases(), []);
      now.keeper.setAntreaAbsent(true);
      const [first] = said();
      assert.deepEqual(first, {
        phase: 'Realizing',
        observedGeneration: 1,
        currentNodesRealized: 0,
        desiredNodesRealized: 2,
        conditions: [{ type: 'Realizable', status: 'True', lastTransitionTime: '1970-01-01T00:01:00Z' }],
      });
      now.report('a');
      assert.deepEqual(phases(), ['Realizing@1 1/2']);
      now.report('b');
      assert.deepEqual(phases(), ['Realized@1 2/2']);
      assert.deepEqual(now.said(), [], 'nothing of the policy of nodewall.io, which the API does not have');
    });

    it('stops, and drops what waits, when a controller of Antrea begins to run', () => {
      now.keeper.setAntreaAbsent(true);
      version(1);
      now.publish({ policies: [antrea(1)] });
      assert.deepEqual(phases(), ['Realizing@1 0/2']);
      now.keeper.setAntreaAbsent(false);
      assert.equal(now.antrea.clears, 1);
      for (const node of ['a', 'b']) now.report(node);
      version(1, { ...said()[0], phase: 'Realized' } as AntreaStatus);
      clock.pass(60_000);
      assert.deepEqual(phases(), []);
      now.keeper.setAntreaAbsent(true);
      assert.deepEqual(phases(), ['Realized@1 2/2']);
    });

    it('tells a failure apart from one of the policy of the same name of nodewall.io', () => {
      now.keeper.setAntreaAbsent(true);
      version(1);
      now.version('p', 1);
      now.publish({ policies: [antrea(1), policy(1)] });
      said();
      now.said();
      const rule = { policy: 'p', rule: 'r', reason: 'no', generation: 1 };
      now.report('a', { failing: [{ apiGroup: 'crd.antrea.io', ...rule }] });
      now.report('b');
      const [status] = said();
      assert.equal(status?.phase, 'Failed');
      assert.deepEqual(
        status?.conditions.map(({ type, message }) => [type, message]),
        [
          ['Realizable', undefined],
          ['RealizationFailure', 'Failed Nodes count 1: "a":"no"'],
        ],
      );
      assert.deepEqual(now.failing, [], 'Antrea has no such Events');
      assert.deepEqual(now.said(), ['p@1 Realized 2/2']);
    });

    it('says why a version is not realizable, and when the gate is off', () => {
      now.keeper.setAntreaAbsent(true);
      version(2);
      now.version('p', 1);
      now.publish({ policies: [policy(1)] }, [{ ...BROKEN, apiGroup: 'crd.antrea.io' }]);
      clock.pass(2_000);
      const [status] = said();
      assert.equal(status?.phase, 'Pending');
      assert.deepEqual(
        status?.conditions.map(({ type, status: value, message }) => [type, value, message]),
        [['Realizable', 'False', 'Generation 2 is left out: spec.priority: must be a number']],
      );
      assert.deepEqual(now.said(), ['p@1 Pending 0/2'], 'the problem is not of this one');
      now.publish({ policies: [antrea(2)] });
      assert.deepEqual(phases(), ['Realizing@2 0/2']);
      now.keeper.gate(false);
      assert.deepEqual(
        said().map(({ phase, conditions }) => [phase, conditions[0]?.reason]),
        [['Pending', 'Disabled']],
      );
    });
  });

  it('does not write as standby, and withdraws no status in the first minute of leading', async () => {
    now.version('p', 1);
    now.publish({ policies: [policy(1)] });
    now.report('a');
    now.report('b');
    clock.pass(250);
    const status = now.written.splice(0).at(-1)?.[1] ?? null;
    await now.keeper.lead(false);
    assert.equal(now.clears(), 1);
    now.report('a', { enforced: null });
    now.report('b', { enforced: null });
    now.version('p', 1, status);
    assert.deepEqual(now.said(), []);
    await now.keeper.lead(true);
    assert.deepEqual(now.said(), []);
    now.report('a');
    assert.deepEqual(now.said(), []);
    for (let second = 0; second < 58; second++) clock.pass(1_000);
    assert.deepEqual(now.said(), []);
    for (let second = 0; second < 3; second++) clock.pass(1_000);
    assert.deepEqual(now.said(), ['p@1 Realizing 1/2']);
    now.report('b');
    assert.deepEqual(now.said(), ['p@1 Realized 2/2']);
  });
});
