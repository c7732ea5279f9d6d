import assert from 'node:assert/strict';
import { once } from 'node:events';
import { mkdtemp, rm } from 'node:fs/promises';
import { type AddressInfo, createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setImmediate as nextTurn } from 'node:timers/promises';
import type { NodeState } from '../../apis/compiled.ts';
import { DEFAULT_CONFIG } from '../../apis/config.ts';
import type { Log } from '../../lib/process/log.ts';
import { type FakeClock, fakeClock } from '../../test/fake/fake-clock.ts';
import { closing, nodeState } from '../../test/fake/node-state.ts';
import { type Envelope, envelopeOf } from '../apply/envelope.ts';
import { Guard } from './guard.ts';
import { type GuardFile, guardFile, NO_MEMORY, savedGuardMemory } from './guard-file.ts';
import type { GuardMemory } from './guard-state.ts';
import type { InwardProbes } from './inward-probes.ts';
import type { Probe } from './probes.ts';

const QUIET = { log() {}, info() {}, warn() {}, error() {} } as unknown as Log;
const BEFORE = nodeState(closing('p', 22));
const INTERRUPTED = /^Error: not confirmed: the change was interrupted/;

describe('guarded apply', () => {
  let folder: string;
  let file: GuardFile;
  let probes: readonly Probe[];
  let clock: FakeClock;
  let guard: Guard;
  let sent: Envelope | null;
  let settled: number;
  before(async () => {
    folder = await mkdtemp(join(tmpdir(), 'nodewall-guard-'));
  });
  after(() => rm(folder, { recursive: true, force: true }));
  beforeEach(() => {
    probes = [];
  });
  afterEach(() => guard.close());

  /** An agent starts, with these rules confirmed last. */
  function start(
    wasTried: boolean,
    memory: GuardMemory | null = NO_MEMORY,
    confirmed: NodeState | null = BEFORE,
  ): void {
    clock = fakeClock();
    file = guardFile(folder, QUIET);
    sent = null;
    settled = 0;
    const inward = {
      changing() {},
      ended() {},
      close() {},
      passing: () => [],
      unmade: () => [],
      round: async () => new Map(),
      settled: () => ++settled,
    } as unknown as InwardProbes;
    guard = new Guard({
      node: 'node-0',
      config: { ...DEFAULT_CONFIG, guard: { ...DEFAULT_CONFIG.guard, confirm: 'Manual' } },
      clock: { ...clock, date: () => new Date(clock.now()) },
      log: QUIET,
      file,
      memory,
      confirmed,
      wasTried,
      inward,
      probes: () => probes,
      verify: async () => {},
      isInTime: async () => true,
      controlPlane: () => [],
      next(envelope) {
        sent = envelope;
      },
      resolve: (state) => state,
      events: { save() {}, changed() {}, rolledBack() {} },
    });
  }

  function enforce(): void {
    const envelope = sent;
    sent = null;
    if (envelope !== null) guard.enforced({ ...envelope, envelope });
  }

  /** The submitted states are in force, until nothing more is submitted. */
  async function settle(): Promise<void> {
    for (let i = 0; i < 20; i++) {
      enforce();
      clock.pass(1);
      await guard.idle();
      await nextTurn();
    }
  }

  /** A change is in force, and it is not known yet that it is tried. */
  async function change(...ports: readonly number[]): Promise<void> {
    guard.submit(envelopeOf(ports.length === 0 ? nodeState() : nodeState(closing('p', ...ports))));
    sent = await nextSent();
    enforce();
  }

  /** The next envelope that is passed on to be enforced. */
  async function nextSent(): Promise<Envelope> {
    while (sent === null) await nextTurn();
    const envelope = sent;
    sent = null;
    return envelope;
  }

  describe('a confirmation by hand', () => {
    it('is refused once where the run before had put the change in force, and was killed at once', async () => {
      start(true);
      // An agent of a cluster wants the confirmed state until its controller answers.
      guard.submit(envelopeOf(BEFORE));
      await settle();
      guard.submit(envelopeOf(nodeState(closing('p', 22, 23))));
      await settle();
      await assert.rejects(guard.confirm(), INTERRUPTED);
      assert.deepEqual(await guard.confirm(), ['nodewall.io/p']);
    });

    it('is refused once where the interruption came before it was known that the change is tried', async () => {
      start(false);
      guard.submit(envelopeOf(BEFORE));
      await settle();
      await change(22, 23);
      guard.lost();
      await settle();
      await assert.rejects(guard.confirm(), INTERRUPTED);
      assert.deepEqual(await guard.confirm(), ['nodewall.io/p']);
      // Not for long: the next change has nothing to do with it.
      await change(22, 24);
      await settle();
      assert.deepEqual(await guard.confirm(), ['nodewall.io/p']);
    });

    it('is taken at once of a change that comes while an agent that starts makes its probes', async () => {
      start(false);
      guard.submit(envelopeOf(nodeState(closing('p', 22, 23))));
      await settle();
      assert.deepEqual(await guard.confirm(), ['nodewall.io/p']);
    });

    it('is taken at once of a change after one that was interrupted, and denied nothing', async () => {
      start(true);
      guard.submit(envelopeOf(BEFORE));
      await settle();
      await change();
      await settle();
      await change(22, 23);
      await settle();
      assert.deepEqual(await guard.confirm(), ['nodewall.io/p']);
    });

    it('comes from rules that are in force: before the first ones, nothing is known of probes to the node', async () => {
      start(false, null, null);
      assert.equal(settled, 0);
      guard.submit(envelopeOf(nodeState()));
      assert.equal(settled, 0);
      await settle();
      assert.ok(settled > 0);
    });
  });

  it('counts the probes made before a state, also where a policy of the one before it was refused', async () => {
    start(false);
    guard.submit(envelopeOf(BEFORE));
    await settle();
    probes = [{ kind: 'outward', name: 'fails', attempts: [await closedPort()] }];
    guard.submit(envelopeOf(nodeState(closing('p', 22, 23))));
    const refused = await nextSent();
    // Each has a round of its own.
    clock.pass(1_000);
    guard.submit(envelopeOf(nodeState(closing('p', 22, 24))));
    const tried = await nextSent();
    const replaced = { ...BEFORE };
    guard.enforced({ envelope: refused, plain: replaced, resolved: replaced });
    guard.enforced({ ...tried, envelope: tried });
    await guard.idle();
    await file.flush();
    const { trial } = (await savedGuardMemory(folder)) ?? assert.fail();
    assert.deepEqual(trial?.counted, [], 'it failed just before');
  });
});

/** Nobody listens there. */
async function closedPort() {
  const server = createServer().listen(0, '127.0.0.1');
  await once(server, 'listening');
  const { port } = server.address() as AddressInfo;
  server.close();
  await once(server, 'close');
  return { kind: 'tcp', address: '127.0.0.1', port } as const;
}
