import assert from 'node:assert/strict';
import type { IncomingMessage } from 'node:http';
import { PassThrough } from 'node:stream';
import type { NodeReport } from '../../apis/node-report.ts';
import { type FakeClock, fakeClock } from '../../test/fake/fake-clock.ts';
import { type ControllerClient, ControllerError } from './controller-client.ts';
import { Reporter } from './reporter.ts';

const REPORT: NodeReport = {
  node: 'node-0',
  revision: 'e.1',
  enforced: 'e.1',
  enabled: true,
  failing: [],
  policies: 1,
  hostAddresses: [],
  version: '0',
  dataplane: 'nftables',
  time: '2026-01-01T00:00:00Z',
};

describe('a reporter', () => {
  let clock: FakeClock;
  let sent: { at: number; path: string; body: unknown }[];
  let outcome: () => Promise<IncomingMessage>;
  let told: (Error | null)[];
  let reports: Reporter;
  const client: ControllerClient = {
    request({ path, body }) {
      sent.push({ at: clock.now(), path, body });
      return outcome();
    },
    close() {},
  };
  const accepted = async () => new PassThrough() as unknown as IncomingMessage;
  /** Advances the time second by second, and waits for the resulting actions. */
  async function pass(seconds: number): Promise<void> {
    for (let i = 0; i < seconds; i++) {
      clock.pass(1000);
      for (let turn = 0; turn < 5; turn++) await new Promise((resolve) => setImmediate(resolve));
    }
  }
  const times = () => sent.map(({ at }) => at / 1000);

  beforeEach(() => {
    clock = fakeClock();
    sent = [];
    told = [];
    outcome = accepted;
    const done = (error: Error | null) => void told.push(error);
    reports = new Reporter({ node: 'node-0', client, clock, random: () => 1, report: () => REPORT, done });
  });
  afterEach(() => reports.close());

  it('reports at start, and about once a minute', async () => {
    await pass(140);
    assert.deepEqual(times(), [1, 67, 133]);
    assert.equal(sent[0]?.path, '/apis/controlplane.nodewall.io/v1alpha1/nodeviews/node-0/status');
    assert.deepEqual(sent[0]?.body, REPORT);
    assert.deepEqual(told, [null, null, null]);
  });

  it('combines many changes into one report, soon or later', async () => {
    await pass(10);
    for (let i = 0; i < 100; i++) reports.changed(i > 0);
    await pass(5);
    assert.deepEqual(times(), [1, 11]);
    for (let i = 0; i < 100; i++) reports.changed(false);
    await pass(20);
    assert.deepEqual(times(), [1, 11, 25]);
  });

  it('sends at most one report a second', async () => {
    for (let i = 0; i < 30; i++) {
      for (let part = 0; part < 10; part++) {
        clock.pass(100);
        reports.changed(true);
        await new Promise((resolve) => setImmediate(resolve));
      }
    }
    for (let i = 1; i < sent.length; i++) assert.ok((times()[i] ?? 0) - (times()[i - 1] ?? 0) >= 1);
    assert.ok(sent.length > 10);
  });

  it('retries with back-off until the report is accepted', async () => {
    outcome = () => Promise.reject(new ControllerError('the controller refused (503)', { status: 503 }));
    await pass(100);
    assert.deepEqual(times(), [1, 2, 4, 8, 16, 32, 62, 92]);
    outcome = accepted;
    await pass(30);
    assert.equal(told.at(-1), null);
    assert.equal(told.filter((error) => error !== null).length, 8);
  });

  it('sends a change during a report after that report', async () => {
    let finish: () => void = () => {};
    outcome = () =>
      new Promise((resolve) => {
        finish = () => resolve(new PassThrough() as unknown as IncomingMessage);
      });
    await pass(2);
    reports.changed(true);
    await pass(5);
    assert.deepEqual(times(), [1], 'one at a time');
    finish();
    await pass(2);
    assert.equal(sent.length, 2);
    finish();
  });

  it('does not wait for a report when it is closed', async () => {
    await pass(3);
    await reports.close();
    reports.changed(true);
    await pass(100);
    assert.deepEqual(times(), [1]);
    assert.deepEqual(clock.waiting(), []);
  });
});
