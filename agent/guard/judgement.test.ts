import assert from 'node:assert/strict';
import type { NodeState } from '../../apis/compiled.ts';
import { DEFAULT_CONFIG, type FailsafeEntry } from '../../apis/config.ts';
import type { Log } from '../../lib/process/log.ts';
import { closing, fromPods, ingress, nodeState, pod } from '../../test/fake/node-state.ts';
import { policy } from '../../test/kernel/manifests.ts';
import type { Trial } from './guard-state.ts';
import {
  deadlineAfter,
  Judgement,
  type JudgementOptions,
  type StateVerdict,
  TrialDeadline,
} from './judgement.ts';
import type { Probe } from './probes.ts';

const NOTHING = nodeState();
const OLD = policy('old', {
  egress: [{ name: 'out', action: 'Drop', ports: [{ protocol: 'TCP', port: 25 }] }],
});
const [ONE, TWO] = [nodeState(closing('a', 1)), nodeState(closing('a', 1), closing('b', 2))];

describe('the judgement of a state in force', () => {
  let confirmed: NodeState | null;
  let done: { readonly state: NodeState; readonly verdict: StateVerdict }[];
  let passed: () => Promise<readonly string[]>;
  let failed: readonly string[];
  let errors: string[];

  beforeEach(() => {
    [confirmed, done, errors, failed] = [NOTHING, [], [], []];
    passed = async () => ['api-server'];
  });

  function create(parts: Partial<JudgementOptions> = {}): Judgement {
    return new Judgement({
      node: 'n',
      config: DEFAULT_CONFIG,
      log: { error: (message: string) => void errors.push(message) } as unknown as Log,
      probes: () => [],
      resolve: (state) => state,
      confirmed: () => confirmed,
      before: async () =>
        new Map([
          ...(await passed()).map((name): [string, null] => [name, null]),
          ...failed.map((name): [string, string] => [name, 'no answer']),
        ]),
      done: ({ plain: state }, verdict) => void done.push({ state, verdict }),
      ...parts,
    });
  }
  function inForce(judgement: Judgement, state: NodeState): void {
    assert.equal(judgement.applied({ plain: state, resolved: state, round: null }), true);
    judgement.begin();
  }
  const keys = () => done.map(({ verdict }) => verdict.changes.map(({ key }) => key));

  it('is that it is tried if it denies more, with the probes that passed before', async () => {
    const judgement = create();
    inForce(judgement, ONE);
    assert.equal(done.length, 0, 'in a later turn');
    assert.deepEqual(
      judgement.changes.map(({ key }) => key),
      ['nodewall.io/a'],
    );
    await judgement.running;
    const [{ state, verdict } = assert.fail()] = done;
    assert.equal(state, ONE);
    assert.deepEqual([verdict.isTried, verdict.passed], [true, ['api-server']]);
    assert.deepEqual([judgement.running, judgement.changes], [null, []]);
  });

  it('is that it is confirmed if it denies less, and asks for no probe', async () => {
    confirmed = ONE;
    passed = () => assert.fail('not asked for');
    const judgement = create();
    inForce(judgement, NOTHING);
    await judgement.running;
    assert.deepEqual([done[0]?.verdict.isTried, done[0]?.verdict.passed], [false, []]);
    assert.deepEqual(keys(), [['nodewall.io/a']]);
  });

  it('counts a probe that nobody made before, and not one that failed or that confirmed rules deny', async () => {
    const probe = (name: string, port: number): Probe => ({
      kind: 'outward',
      name,
      attempts: [{ kind: 'tcp', address: '192.0.2.9', port }],
    });
    failed = ['fails'];
    confirmed = nodeState(OLD);
    const probes = [probe('unmade', 80), probe('fails', 80), probe('api-server', 443), probe('denied', 25)];
    const judgement = create({ probes: () => [...probes, { kind: 'inward', name: 'ssh', flow: null }] });
    inForce(judgement, nodeState(OLD, closing('a', 1)));
    await judgement.running;
    assert.deepEqual(done[0]?.verdict.passed, ['api-server', 'unmade']);
  });

  it('counts a probe that failed by chance just before, if the change denies it and it passed the last time', async () => {
    const probe = (name: string, port: number): Probe => ({
      kind: 'outward',
      name,
      attempts: [{ kind: 'tcp', address: '192.0.2.9', port }],
    });
    confirmed = NOTHING;
    const probes = [probe('api-server', 443), probe('mail', 25), probe('other', 80)];
    const judgement = create({ probes: () => probes });
    const counted = async (state: NodeState, passing: readonly string[]): Promise<readonly string[]> => {
      passed = async () => passing;
      failed = probes.map(({ name }) => name).filter((name) => !passing.includes(name));
      inForce(judgement, state);
      await judgement.running;
      return done.at(-1)?.verdict.passed ?? [];
    };
    assert.deepEqual(await counted(nodeState(OLD), ['api-server']), ['api-server'], 'it never passed');
    await counted(ONE, ['api-server', 'mail', 'other']);
    confirmed = ONE;
    const denies = nodeState(OLD, closing('a', 1));
    assert.deepEqual(await counted(denies, ['api-server']), ['api-server', 'mail']);
    assert.deepEqual(await counted({ ...denies }, ['api-server']), ['api-server'], 'it failed the last time');
    await counted(TWO, ['api-server', 'mail', 'other']);
    confirmed = denies;
    const more = nodeState(OLD, closing('a', 1), closing('b', 2));
    assert.deepEqual(await counted(more, ['api-server']), ['api-server'], 'the confirmed rules deny it too');
  });

  it('is of the newest state only', async () => {
    const judgement = create();
    inForce(judgement, ONE);
    const asked = Promise.withResolvers<void>();
    const answer = Promise.withResolvers<readonly string[]>();
    passed = () => {
      asked.resolve();
      return answer.promise;
    };
    await asked.promise;
    inForce(judgement, TWO);
    answer.resolve([]);
    await judgement.running;
    for (let turn = 0; turn < 3; turn++) await new Promise(setImmediate);
    assert.deepEqual(
      done.map(({ state }) => state),
      [TWO],
    );
    assert.deepEqual(keys(), [['nodewall.io/a', 'nodewall.io/b']]);
  });

  it('is made again if another state was confirmed meanwhile', async () => {
    const judgement = create();
    inForce(judgement, TWO);
    passed = async () => {
      confirmed = ONE;
      return [];
    };
    await judgement.running;
    assert.deepEqual(keys(), [['nodewall.io/b']]);
  });

  it('is that it is tried, with a log message, if the difference cannot be computed', async () => {
    const judgement = create({
      resolve() {
        throw new Error('bug');
      },
    });
    inForce(judgement, ONE);
    await judgement.running;
    assert.equal(done[0]?.verdict.isTried, true);
    assert.deepEqual(errors, ['internal error; the rules in force are tried. Please report it']);
  });

  it('is not asked for by a repair, which has the same state in force', async () => {
    const judgement = create();
    inForce(judgement, ONE);
    await judgement.running;
    assert.equal(judgement.applied({ plain: ONE, resolved: { ...ONE }, round: null }), false);
    assert.notEqual(judgement.inForce?.resolved, ONE, 'with other addresses');
  });

  it('finds the sets that have a probe’s address otherwise, once for a state', () => {
    const policy = ingress('p', { name: 'r', action: 'Drop', from: [fromPods('db')] });
    confirmed = nodeState(policy, pod('db', '10.0.0.1'));
    const now = nodeState(policy, pod('db', '10.0.0.1'), pod('db', '10.0.0.2'));
    let asked = 0;
    const attempts = [{ kind: 'tcp', address: '10.0.0.2', port: 1 }] as const;
    const judgement = create({
      probes() {
        asked++;
        return [{ kind: 'outward', name: 'db', attempts }];
      },
    });
    assert.equal(judgement.touched(now).length, 1);
    assert.equal(judgement.touched(now).length, 1);
    assert.equal(asked, 1);
    confirmed = now;
    assert.deepEqual(judgement.touched(now), [], 'against another confirmed state');
  });
});

const API_SERVER: FailsafeEntry = { protocol: 'tcp', ports: [6443, 6443], peers: ['192.0.2.1'] };
const probe = (name: string, port: number): Probe => ({
  kind: 'outward',
  name,
  attempts: [{ kind: 'tcp', address: '192.0.2.1', port }],
});
const PROBES = [probe('backup', 1), probe('mirror', 2)];
const CONFIRMED = nodeState(closing('a', 80));
const CHANGED = nodeState(closing('a', 81));
const WIDER = nodeState(closing('a', 80), ingress('b', { action: 'Allow' }));
const trialOf = (...counted: readonly string[]): Trial => ({ counted: new Set(counted) }) as unknown as Trial;

describe('the deadline of a state', () => {
  let touched: readonly string[];
  let deadline: TrialDeadline;
  beforeEach(() => {
    touched = [];
    deadline = new TrialDeadline({
      config: DEFAULT_CONFIG,
      probes: () => PROBES,
      controlPlane: () => [API_SERVER],
      touched: () => touched,
    });
  });
  const portsOf = ({ deadline: it }: NodeState) => it?.flows.map(({ dstPort }) => dstPort);

  it('is there once the state may be tried: before it is known whether it is, and which probes count', () => {
    const before = deadline.over(CHANGED, { confirmed: CONFIRMED, trial: null });
    assert.deepEqual([before.deadline?.milliseconds, before.deadline?.entries], [30_000, [API_SERVER]]);
    assert.deepEqual(portsOf(before), [1, 2]);
    const tried = deadline.over(CHANGED, { confirmed: CONFIRMED, trial: trialOf('mirror') });
    assert.deepEqual(portsOf(tried), [2]);
    assert.equal(deadline.over(CHANGED, { confirmed: CONFIRMED, trial: trialOf('mirror') }), tried);
  });

  it('is not there for confirmed rules, nor for those that can only allow more, unless they are tried', () => {
    const over = (state: NodeState, confirmed: NodeState | null, trial: Trial | null = null) =>
      deadline.over(state, { confirmed, trial });
    assert.equal(over(CONFIRMED, CONFIRMED), CONFIRMED);
    assert.equal(over(CONFIRMED, CONFIRMED, trialOf('backup')), CONFIRMED, 'as after a rollback');
    assert.equal(over(WIDER, CONFIRMED), WIDER);
    assert.deepEqual(portsOf(over(WIDER, CONFIRMED, trialOf('backup'))), [1]);
    assert.equal(over(nodeState(), null).deadline, undefined);
    assert.notEqual(over(CONFIRMED, null).deadline, undefined);
    touched = ['a set with a probe’s address'];
    assert.notEqual(over({ ...CONFIRMED }, CONFIRMED).deadline, undefined);
  });

  it('is twice failAfter, and so that a node is back within a minute', () => {
    assert.deepEqual(
      [1, 15, 20.2, 600].map((failAfter) => deadlineAfter({ failAfter })),
      [20_000, 30_000, 41_000, 45_000],
    );
  });
});
