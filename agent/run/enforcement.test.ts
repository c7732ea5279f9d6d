import assert from 'node:assert/strict';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setImmediate as nextTurn } from 'node:timers/promises';
import type { AddressSet, NodeState } from '../../apis/compiled.ts';
import { type Config, DEFAULT_CONFIG } from '../../apis/config.ts';
import { formatMembers, toMemberSet } from '../../lib/net/member-set.ts';
import { systemClock, type WallClock } from '../../lib/process/clock.ts';
import type { Log } from '../../lib/process/log.ts';
import { type FakeDns, fakeDns } from '../../test/dns/server.ts';
import { fakeNodeEgress } from '../../test/fake/egress-objects.ts';
import { type FakeClock, fakeClock } from '../../test/fake/fake-clock.ts';
import {
  addressSet,
  closing,
  compiledRule,
  fromSet,
  nodeState,
  stateOf,
} from '../../test/fake/node-state.ts';
import { type Enforced, Enforcer } from '../apply/enforcer.ts';
import { envelopeOf, withResolved } from '../apply/envelope.ts';
import { RefusedError } from '../apply/reconciler-interface.ts';
import type { DataplaneOptions, Running } from '../dataplane/dataplane.ts';
import type { AgentExtension } from '../extension/agent-extension.ts';
import { NO_VRFS } from '../interfaces/vrfs.ts';
import { NO_PLATFORM } from '../platform/watched-platform.ts';
import { AgentLog } from './agent-log.ts';
import type { AgentMetrics } from './agent-metrics.ts';
import { type Enforcement, startEnforcement } from './enforcement.ts';
import type { GuardHooks } from './guarded.ts';
import type { InterfaceGroups } from './interface-groups.ts';
import { type StateStore, stateStore } from './state-store.ts';

const LOG = { log() {}, info() {}, warn() {}, error() {}, debug() {}, isDebugEnabled: () => false };
const WINDOW = 1000 * DEFAULT_CONFIG.guard.window;
const GUARD: GuardHooks = {
  controlPlane: () => [],
  failsafe: () => [],
  nameServers: () => [],
  ownInward: () => [],
  askInward: null,
  changed() {},
};

const NAMED = { names: ['a.test'], members: toMemberSet([], ['10.0.0.1']) };

/** A state with one rule, whose version is its priority, about the addresses of a name. */
function named(priority: number): NodeState {
  const rule = compiledRule('r', { peers: fromSet('named'), priority });
  const sets = ['nodes', 'named'].map((id) => addressSet(id, id === 'named' ? NAMED : {}));
  return stateOf([rule], { addressSets: new Map(sets.map((set) => [set.id, set])) });
}

function addressesOf(state: NodeState | undefined): string {
  return formatMembers(state?.addressSets.get('named')?.members ?? assert.fail()).join();
}

/** Tells versions of rules apart. */
function versionOf(state: NodeState | undefined): string {
  return JSON.stringify(state?.rules.map(({ priority, services }) => [priority, services]));
}

describe('the enforcement of an agent', () => {
  let stateDir: string;
  let dns: FakeDns;
  let clock: FakeClock;
  let saved: StateStore;
  let localPods: AddressSet | null;
  let podsMoved: () => void;
  let enforcement: Enforcement;
  /** The states that the kernel had, and what was said of them. */
  let kernel: NodeState[];
  let results: Enforced[];
  let drift: string[];
  let verify: () => Promise<void>;
  let isRefused: (state: NodeState) => boolean;
  let extension: AgentExtension | null;
  /** The hook that the dataplane got. */
  let hook: unknown;

  beforeEach(async () => {
    stateDir = await mkdtemp(join(tmpdir(), 'nodewall-enforcement-'));
    dns = await fakeDns({ 'a.test': { A: ['192.0.2.1'] } });
    [localPods, podsMoved, kernel, results, drift, isRefused] = [null, () => {}, [], [], [], () => false];
    extension = null;
  });
  afterEach(async () => {
    await enforcement.close();
    await saved.close();
    await dns.close();
    await rm(stateDir, { recursive: true });
  });

  /** The real enforcer over a kernel that holds states. */
  function run({ enforcer: parts, extension: given }: DataplaneOptions): Running {
    hook = given;
    const enforcer = new Enforcer<NodeState>({
      ...parts,
      renderer: () => (state) => state,
      reconciler: {
        async apply(state) {
          if (isRefused(state)) throw new RefusedError('no', { source: state.rules[0]?.source ?? null });
          const isEmpty = state === kernel.at(-1);
          if (!isEmpty) kernel.push(state);
          return {
            change: { isEmpty, changesStructure: !isEmpty, text: () => '' },
            leftBehind: null,
            enforcedAfter: 0,
            kernelMicroseconds: 0,
          };
        },
        verify: async () => drift.splice(0),
        holdsRules: async () => true,
      },
    });
    verify = async () => {
      enforcer.verify();
      await enforcer.idle();
    };
    return {
      enforcer,
      counts: { async readAll() {}, async readSome() {} },
      owners: () => null,
      bootFiles: () => () => ({}),
      digests: () => ({}),
      deadline: { check: async () => true, isLeft: async () => false, async close() {} },
      watch: () => async () => {},
    };
  }

  /** @param time names need that of the machine; null: the clock of the test */
  async function start(guard: GuardHooks | null, time: WallClock | null = null): Promise<void> {
    clock = fakeClock();
    const log = LOG as unknown as Log;
    saved = stateStore({ stateDir, node: null, log });
    const config: Config = {
      ...DEFAULT_CONFIG,
      names: { ...DEFAULT_CONFIG.names, servers: [dns.server], learn: false },
    };
    const interfaces: Pick<InterfaceGroups, 'localPods' | 'vrfs' | 'platform' | 'nodeHas'> = {
      async nodeHas() {},
      vrfs: NO_VRFS,
      platform: NO_PLATFORM,
      localPods: {
        now: () => localPods,
        listen(changed) {
          podsMoved = changed;
          return () => {};
        },
      },
    };
    enforcement = await startEnforcement({
      options: { node: 'node-0', stateDir, once: true },
      config,
      log,
      saved,
      guard,
      flows: null,
      extension: { publicKey: null, open: async () => extension },
      dataplanes: { chosen: { name: 'nftables', run }, others: [], all: [] },
      interfaces: interfaces as InterfaceGroups,
      clock: time ?? { ...clock, date: () => new Date(clock.now()) },
      reports: new AgentLog('node-0', log),
      metrics: new Proxy({}, { get: () => () => {} }) as AgentMetrics,
      apiServer: () => [],
      enforced: (result) => void results.push(result),
      failed: (error) => assert.fail(error),
    });
  }

  async function settle(): Promise<void> {
    for (let i = 0; i < 5; i++) {
      await enforcement.idle();
      await nextTurn();
    }
  }

  async function submit(state: NodeState): Promise<void> {
    enforcement.submit(envelopeOf(state, { received: state, revision: 'r' }));
    await settle();
  }

  async function restart(guard: GuardHooks): Promise<void> {
    await enforcement.close();
    await saved.close();
    [kernel, results] = [[], []];
    await start(guard);
  }

  it('gives the kernel what each layer adds, and answers with what was wanted', async () => {
    localPods = addressSet('local-pods');
    await start(GUARD, systemClock);
    const state = named(1);
    const received = named(2);
    enforcement.submit(envelopeOf(state, { received, revision: 'e.1' }));
    await settle();
    const inForce = kernel.at(-1);
    assert.equal(addressesOf(inForce), '10.0.0.1,192.0.2.1');
    assert.equal(inForce?.localPods, localPods);
    assert.notEqual(kernel[0]?.deadline, undefined, 'rules that may be tried have a deadline');
    const { envelope, plain, resolved } = results.at(-1) ?? assert.fail();
    assert.deepEqual([envelope.wanted, envelope.received, envelope.revision], [state, received, 'e.1']);
    for (const one of [envelope.wanted, plain]) assert.equal(one, state, 'the same object');
    assert.equal(envelope.received, received);
    assert.equal(resolved, inForce);
  });

  it('gives an extension its place: in the dataplane, before the pods, and at the end', async () => {
    const seen: string[] = [];
    const egress = fakeNodeEgress();
    const one: AgentExtension = {
      dataplane: { open: () => assert.fail() },
      layer: async (next) => ({
        submit: (envelope) => next(withResolved(envelope, { ...envelope.resolved, egress })),
        enforced: () => void seen.push('layer'),
        close: async () => void seen.push('layer closed'),
      }),
      start: async () => void seen.push(`started, ${kernel.length} in force`),
      async join() {},
      viewed() {},
      enforced: ({ resolved }) => void seen.push(resolved.egress === egress ? 'enforced' : 'without'),
      connections: () => ({
        enforced: () => false,
        drifted: (differences) => void seen.push(...differences),
        rechecks: () => false,
        async recheck() {},
        flush: async () => null,
        policies: () => new Set(),
        reset: () => assert.fail(),
        close: () => void seen.push('connections closed'),
      }),
      async leave() {},
      close: async () => void seen.push('closed'),
    };
    extension = one;
    await start(null, systemClock);
    assert.equal(hook, one.dataplane);
    assert.equal(enforcement.extension, one);
    await submit(named(1));
    assert.equal(kernel.at(-1)?.egress, egress);
    drift.push('chain egress-steer is missing');
    await verify();
    await enforcement.close();
    const first = seen.splice(0, 3);
    assert.deepEqual(first, ['started, 0 in force', 'enforced', 'layer']);
    assert.ok(seen.includes('chain egress-steer is missing'));
    assert.deepEqual(seen.slice(-3), ['layer closed', 'connections closed', 'closed']);
  });

  it('saves without guarded apply what is in force, without what the node adds', async () => {
    localPods = addressSet('local-pods');
    await start(null, systemClock);
    await submit(named(1));
    assert.equal(addressesOf(kernel.at(-1)), '10.0.0.1,192.0.2.1');
    await saved.flush();
    const last = (await saved.readState()) ?? assert.fail();
    assert.equal(addressesOf(last), '10.0.0.1');
    assert.deepEqual([last.localPods, last.nameServers, last.deadline], [undefined, undefined, undefined]);
  });

  it('has the last version of a refused policy in force with its addresses, and saves it without', async () => {
    localPods = addressSet('local-pods');
    await start(null, systemClock);
    const [first, second] = [named(1), named(2)];
    await submit(first);
    isRefused = (state) => versionOf(state) === versionOf(second);
    await submit(second);
    const { envelope, plain, resolved, failed } = results.at(-1) ?? assert.fail();
    assert.equal(failed.size, 1);
    assert.equal(envelope.wanted, second);
    assert.deepEqual([plain, resolved].map(versionOf), [versionOf(first), versionOf(first)]);
    assert.deepEqual([plain, resolved].map(addressesOf), ['10.0.0.1', '10.0.0.1,192.0.2.1']);
    assert.deepEqual([plain.localPods, plain.nameServers], [undefined, undefined]);
    assert.equal(resolved.localPods, localPods);
  });

  it('has a policy that is refused at a start in the version that was saved, with its addresses', async () => {
    await start(null, systemClock);
    await submit(named(1));
    await enforcement.close();
    await saved.close();
    await start(null, systemClock);
    isRefused = (state) => versionOf(state) === versionOf(named(2));
    await submit(named(2));
    const { plain, resolved } = results.at(-1) ?? assert.fail();
    assert.deepEqual([plain, resolved].map(versionOf), [versionOf(named(1)), versionOf(named(1))]);
    assert.deepEqual([plain, resolved].map(addressesOf), ['10.0.0.1', '10.0.0.1,192.0.2.1']);
  });

  it('changes by itself when pods move, and nothing is tried anew', async () => {
    await start(GUARD);
    const state = nodeState(closing('a', 1));
    await submit(state);
    const deadline = kernel.at(-1)?.deadline;
    assert.notEqual(deadline, undefined);
    localPods = addressSet('local-pods');
    podsMoved();
    await settle();
    assert.equal(kernel.at(-1)?.localPods, localPods);
    assert.equal(kernel.at(-1)?.deadline, deadline);
    assert.equal(kernel.at(-1)?.rules, state.rules, 'the same object: only members are compared');
    const { envelope, plain } = results.at(-1) ?? assert.fail();
    assert.deepEqual([envelope.wanted === state, plain === state, envelope.revision], [true, true, 'r']);
  });

  it('confirms what is tried, takes the deadline back, and saves it then', async () => {
    await start(GUARD);
    const state = nodeState(closing('a', 1));
    await submit(state);
    await saved.flush();
    assert.equal(await saved.readState(), null);
    clock.pass(WINDOW);
    await settle();
    assert.deepEqual([kernel.length, kernel.at(-1)?.deadline], [2, undefined]);
    assert.equal(results.at(-1)?.resolved, state, 'nothing is added any more');
    await saved.flush();
    assert.equal(versionOf((await saved.readState()) ?? undefined), versionOf(state));
  });

  it('rolls a lost change back at once, and still says that the new version is wanted', async () => {
    await start(GUARD);
    const [first, second] = [nodeState(closing('a', 1)), nodeState(closing('a', 2))];
    await submit(first);
    clock.pass(WINDOW);
    await settle();
    await submit(second);
    assert.equal(versionOf(kernel.at(-1)), versionOf(second));
    const applied = kernel.length;
    drift.push('a chain is gone');
    await verify();
    assert.equal(versionOf(kernel[applied]), versionOf(first), 'the tried rules are not put back first');
    const rolledBack = results.filter(({ envelope }) => envelope.wanted === second);
    assert.ok(rolledBack.some(({ plain }) => versionOf(plain) === versionOf(first)));
  });

  it('begins after an interruption with the confirmed rules, and then tries the change again', async () => {
    await start(GUARD);
    const [first, second] = [nodeState(closing('a', 1)), nodeState(closing('a', 2))];
    await submit(first);
    clock.pass(WINDOW);
    await settle();
    await submit(second);
    await restart(GUARD);
    await submit(second);
    assert.equal(versionOf(kernel[0]), versionOf(first));
    assert.equal(kernel[0]?.deadline, undefined);
    assert.equal(results[0]?.envelope.wanted, second);
    for (let i = 0; i < 40 && versionOf(kernel.at(-1)) !== versionOf(second); i++) {
      clock.pass(1_000);
      await settle();
    }
    assert.equal(versionOf(kernel.at(-1)), versionOf(second));
    assert.notEqual(kernel.at(-1)?.deadline, undefined);
  });
});
