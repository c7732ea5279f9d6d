import assert from 'node:assert/strict';
import { existsSync, mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setImmediate as turn } from 'node:timers/promises';
import type { NflogBatch, NflogPacket } from 'nftables-napi';
import { DEFAULT_CONFIG } from '../../apis/config.ts';
import { type FakeClock, fakeClock } from '../../test/fake/fake-clock.ts';
import { fakePacket, fakeRule, fakeState } from '../../test/fake/record.ts';
import { until } from '../../test/kernel/until.ts';
import type { RuleTotals } from './accounting.ts';
import type { LogRecord } from './record.ts';
import { Recorder } from './recorder.ts';

const NOTHING: RuleTotals = { packets: 0, bytes: 0, lastHit: null, logged: 0, recorded: 0 };
const drop = fakeRule('drop');
const silent = fakeRule('silent', { logged: false });

describe('recorder', function () {
  this.timeout(60_000);
  let folder: string;
  let file: string;
  let said: string[];
  let totals: Map<string, RuleTotals>;
  let hits: string[];
  let lost: number[];
  let opened: number;
  let refusal: (Error & { code: string }) | null;
  let listener: ((batch: NflogBatch) => void) | null;
  let clock: FakeClock;
  let records: Recorder;

  beforeEach(() => {
    folder = mkdtempSync(join(tmpdir(), 'nodewall-recorder-'));
    file = join(folder, 'records.jsonl');
    [said, totals, hits, lost, opened] = [[], new Map(), [], [], 0];
    [refusal, listener] = [null, null];
    clock = fakeClock();
    records = create();
  });
  afterEach(async () => {
    await records.close();
    rmSync(folder, { recursive: true });
  });

  function create(): Recorder {
    const say = (message: string) => said.push(message);
    return new Recorder({
      node: 'node-0',
      config: DEFAULT_CONFIG,
      file,
      interfaces: { nameOf: () => 'eth0', groupOf: () => null },
      counters: { read: async () => undefined, totals: () => totals, hit: (rule) => hits.push(rule) },
      log: { error: say, warn: say, info: say },
      clock,
      lost: (count) => lost.push(count),
      openNflog({ group }, listen) {
        assert.equal(group, 7411);
        assert.equal(listener, null, 'one at a time');
        if (refusal !== null) throw refusal;
        listener = listen;
        opened++;
        return {
          async close() {
            listener = null;
          },
        };
      },
    });
  }
  function receive(packets: readonly NflogPacket[], lost = 0): void {
    assert(listener !== null, 'nobody listens');
    listener({ packets, lost, error: null });
  }
  const lines = (): LogRecord[] => {
    const text = existsSync(file) ? readFileSync(file, 'utf8') : '';
    return text
      .split('\n')
      .filter(Boolean)
      .map((line) => JSON.parse(line));
  };
  /** Reads the counters so many times. */
  async function readings(count: number): Promise<void> {
    for (let i = 0; i < count; i++) {
      clock.pass(1000);
      await turn();
    }
  }
  const untilListening = (wanted: boolean): Promise<number> =>
    until(wanted ? 'it listens' : 'it listens no more', async () => (listener !== null) === wanted);

  it('writes records of others while an outlet is open, without listening to packets', async () => {
    const outlet = await records.outlet();
    assert.equal(listener, null);
    const { log: _, ...record } = { ...fakeRule('drop'), time: '', node: 'node-0' };
    outlet.write(record as unknown as LogRecord);
    records.learn(fakeState(drop));
    assert.notEqual(listener, null);
    outlet.close();
    records.enforced(fakeState(silent));
    await records.close();
    assert.equal(lines().length, 1);
    const again = await records.outlet();
    again.write(record as unknown as LogRecord);
    again.close();
    await records.close();
    assert.equal(lines().length, 2);
  });

  it('opens and writes nothing while no rule is logged', async () => {
    records.learn(fakeState(silent));
    records.enforced(fakeState(silent));
    assert.equal(listener, null);
    records.learn(fakeState(silent, drop));
    assert(listener !== null, 'before it is in force');
    records.enforced(fakeState(silent));
    await untilListening(false);
    assert(!existsSync(file));
  });

  it('writes a line a connection, with the number of records lost before', async () => {
    records.learn(fakeState(drop));
    receive([fakePacket(drop), fakePacket(drop)]);
    receive([], 3);
    receive([fakePacket(drop)], 4);
    receive([fakePacket(drop)]);
    await records.close();
    assert.deepEqual(
      lines().map(({ lost }) => lost),
      [undefined, undefined, 7, undefined],
    );
    assert.deepEqual([hits.length, lost], [4, [3, 4]]);
  });

  it('reports suppressed records with the next record, and the rest at the end', async () => {
    records.learn(fakeState(drop));
    totals = new Map([[drop.id, { ...NOTHING, logged: 50, recorded: 10 }]]);
    receive([fakePacket(drop)]);
    // The number is known after two readings.
    await readings(2);
    receive([fakePacket(drop), fakePacket(drop)]);
    totals = new Map([[drop.id, { ...NOTHING, logged: 60, recorded: 12 }]]);
    await records.close();
    assert.deepEqual(
      lines().map(({ suppressed }) => suppressed),
      [undefined, 40, undefined, 8],
    );
    const { time: _, ...notice } = lines().at(-1) ?? { time: '' };
    assert.deepEqual(notice, {
      node: 'node-0',
      policy: 'p',
      apiGroup: 'nodewall.io',
      tier: 'securityops',
      rule: 'drop',
      ruleIndex: 0,
      label: 'a label',
      direction: 'ingress',
      traffic: 'Host',
      suppressed: 8,
    });
  });

  it('logs once why nothing is recorded, and retries', async () => {
    refusal = Object.assign(new Error('nflog group 7411: Device or resource busy'), { code: 'EBUSY' });
    records.learn(fakeState(drop));
    records.enforced(fakeState(drop));
    assert.equal(said.length, 1);
    assert.match(
      said[0] ?? '',
      /^cannot receive packets for the flow log; nothing is recorded, enforcement continues\. Another program listens to NFLOG group 7411/,
    );
    refusal = null;
    await readings(11);
    assert.deepEqual(said.slice(1), ['receiving packets for the flow log again']);
    receive([fakePacket(drop)]);
    await records.close();
    assert.equal(lines().length, 1);
  });

  it('continues after a rule set without logged rules', async () => {
    for (let i = 0; i < 3; i++) {
      records.learn(fakeState(drop));
      records.enforced(fakeState(drop));
      await untilListening(true);
      receive([fakePacket(drop)]);
      records.enforced(fakeState(silent));
      await untilListening(false);
    }
    await records.close();
    assert.equal(lines().length, 3);
  });

  it('continues if rules are logged again before it has stopped', async () => {
    records.enforced(fakeState(drop));
    records.enforced(fakeState(silent));
    records.learn(fakeState(drop));
    records.enforced(fakeState(drop));
    await until('it listens again', async () => opened === 2);
    receive([fakePacket(drop)]);
    await records.close();
    assert.equal(lines().length, 1);
  });
});
