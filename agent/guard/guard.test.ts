import assert from 'node:assert/strict';
import { mkdtemp, rm } from 'node:fs/promises';
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
import { guardFile, NO_MEMORY } from './guard-file.ts';
import type { GuardMemory } from './guard-state.ts';
import type { InwardProbes } from './inward-probes.ts';

const QUIET = { log() {}, info() {}, warn() {}, error() {} } as unknown as Log;
const BEFORE = nodeState(closing('p', 22));
const INTERRUPTED = /^Error: not confirmed: the change was interrupted/;

describe('a confirmation by hand', () => {
  let folder: string;
  let clock: FakeClock;
  let guard: Guard;
  let sent: Envelope | null;
  let settled: number;
  before(async () => {
    folder = await mkdtemp(join(tmpdir(), 'nodewall-guard-'));
  });
  after(() => rm(folder, { recursive: true, force: true }));
  afterEach(() => guard.close());

  /** An agent starts, with these rules confirmed last. */
  function start(
    wasTried: boolean,
    memory: GuardMemory | null = NO_MEMORY,
    confirmed: NodeState | null = BEFORE,
  ): void {
    clock = fakeClock();
    sent = null;
    settled = 0;
    const inward = {
      ...{
        changing() {},
        ended() {},
        close() {},
        passing: () => [],
        unmade: () => [],
        round: async () => new Map(),
      },
      settled: () => ++settled,
    } as unknown as InwardProbes;
    guard = new Guard({
      node: 'node-0',
      config: { ...DEFAULT_CONFIG, guard: { ...DEFAULT_CONFIG.guard, confirm: 'Manual' } },
      clock: { ...clock, date: () => new Date(clock.now()) },
      log: QUIET,
      file: guardFile(folder, QUIET),
      ...{ memory, confirmed, wasTried, inward },
      probes: () => [],
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
    while (sent === null) await nextTurn();
    enforce();
  }

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
