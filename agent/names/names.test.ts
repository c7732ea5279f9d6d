import assert from 'node:assert/strict';
import { setImmediate as turn } from 'node:timers/promises';
import { DEFAULT_CONFIG, type NamesConfig } from '../../apis/config.ts';
import { answerPacket, questionPacket } from '../../test/dns/packet.ts';
import { fakeClock } from '../../test/fake/fake-clock.ts';
import type { AnswerListener } from './learner.ts';
import type { Resolution } from './name-entry.ts';
import { watchNames } from './names.ts';

const WALL = 1_700_000_000_000;
const NONE = { kind: 'none', reason: 'ENOTFOUND' } as const;

interface Disk {
  text: string | null;
  fails: boolean;
}

/** The names with all dependencies faked. */
async function watched(config: Partial<NamesConfig> = {}, disk: Disk = { text: null, fails: false }, at = 0) {
  const clock = fakeClock();
  const log: string[] = [];
  const line = (level: string) => (message: string, fields: object) =>
    log.push(`${level} ${message} ${JSON.stringify({ ...fields, stage: undefined })}`);
  const answers = new Map<string, string[]>();
  const asked: string[] = [];
  const source = { listener: null as AnswerListener | null };
  const changes: string[] = [];
  let peers: readonly string[] = [];
  const wall = { ahead: at };
  const names = await watchNames({
    config: { ...DEFAULT_CONFIG.names, ...config },
    clock,
    wallClock: () => WALL + wall.ahead + clock.now(),
    random: () => 0,
    log: { info: line('info'), warn: line('warn'), error: line('error') },
    file: {
      async read() {
        if (disk.fails) throw new Error('EIO');
        return disk.text;
      },
      async write(text) {
        if (disk.fails) throw new Error('EIO');
        disk.text = text;
      },
    },
    lookup: {
      async resolve(name): Promise<Resolution> {
        asked.push(name);
        const found = answers.get(name);
        const records = (found ?? []).map((address) => ({ address, ttl: 30 }));
        return { 4: found === undefined ? NONE : { kind: 'addresses', records }, 6: NONE };
      },
      close() {},
    },
    answers:
      config.learn === false
        ? null
        : (listener) => {
            source.listener = listener;
            return {
              async close() {
                source.listener = null;
              },
            };
          },
    readText: async () => 'nameserver 192.0.2.53',
    reserved: () => ['10.9.9.9'],
    changed: () => changes.push(peers.map((peer) => names.table.addresses(peer).join()).join(' | ')),
  });
  return {
    names,
    clock,
    log,
    answers,
    asked,
    source,
    changes,
    disk,
    wall,
    want(...wanted: readonly string[]) {
      peers = wanted;
      names.want(wanted);
    },
    learn(name: string, ...addresses: readonly string[]) {
      const records = addresses.map((data) => ({ type: 'A' as const, name, ttl: 10, data }));
      const packets = [questionPacket(name), answerPacket(name, records)].map((payload) => ({ payload }));
      source.listener?.({ packets: packets as never, lost: 0 });
    },
    async pass(milliseconds: number) {
      clock.pass(milliseconds);
      await turn();
    },
  };
}

describe('watchNames', () => {
  it('reports the first change at once, and many changes ten times a second', async () => {
    const { want, learn, changes, pass } = await watched();
    want('*.a.test');
    learn('x.a.test', '192.0.2.1');
    assert.deepEqual(changes, ['192.0.2.1']);
    for (let i = 0; i < 200; i++) {
      learn(`n${i}.a.test`, `10.0.0.${i}`);
      await pass(1);
    }
    assert.equal(changes.length, 3);
    assert.equal(changes.at(-1)?.split(',').length, 201);
    await pass(1000);
    assert.equal(changes.length, 3);
  });

  it('never learns loopback, link-local and reserved addresses for a wildcard, and logs that', async () => {
    const { want, learn, names, log, pass } = await watched();
    want('*.a.test');
    learn('x.a.test', '127.0.0.1', '169.254.169.254', '0.0.0.0', '10.9.9.9', '192.0.2.1');
    assert.deepEqual(names.table.addresses('*.a.test'), ['192.0.2.1']);
    await pass(1000);
    assert.match(log.join('\n'), /warn wildcards learn no loopback .*"x\.a\.test: 10\.9\.9\.9"/);
    await names.close();
  });

  it('reports nothing when an answer changes nothing', async () => {
    const { want, learn, changes, pass } = await watched();
    want('*.a.test');
    for (let i = 0; i < 5; i++) {
      learn('x.a.test', '192.0.2.1');
      await pass(5000);
    }
    assert.deepEqual(changes, ['192.0.2.1']);
  });

  it('resolves names without a wildcard, and removes expired addresses', async () => {
    const { want, answers, changes, pass, names } = await watched({ keep: 60 });
    answers.set('a.test', ['192.0.2.1']);
    want('a.test');
    await pass(0);
    assert.deepEqual(changes, ['192.0.2.1']);
    answers.set('a.test', ['192.0.2.2']);
    await pass(30_000);
    await pass(100);
    assert.deepEqual(changes, ['192.0.2.1', '192.0.2.1,192.0.2.2']);
    for (let i = 0; i < 12; i++) await pass(5_000);
    assert.deepEqual(changes.slice(2), ['192.0.2.2']);
    await names.close();
  });

  it('sends no query and reads no answers before a name is wanted and after the last one is removed', async () => {
    const { want, answers, source, clock, names, pass, disk } = await watched();
    assert.deepEqual(clock.waiting(), []);
    answers.set('a.test', ['192.0.2.1']);
    want('a.test');
    assert.notEqual(source.listener, null);
    await pass(0);
    want();
    assert.equal(source.listener, null);
    for (let i = 0; i < 20; i++) await pass(60_000);
    assert.deepEqual(clock.waiting(), []);
    assert.match(disk.text ?? '', /^\{"saved":\d+\}\n$/);
    await names.close();
  });

  it('is settled when every name was asked for and every change was reported', async () => {
    const { want, answers, names, changes, pass } = await watched();
    for (const name of ['a.test', 'b.test']) answers.set(name, ['192.0.2.1']);
    want('a.test', 'b.test', 'c.test');
    const settled = names.settled();
    await pass(0);
    await settled;
    assert.equal(changes.at(-1), '192.0.2.1 | 192.0.2.1 | ');
  });

  it('keeps its addresses over a restart, and asks again', async () => {
    const first = await watched();
    first.answers.set('a.test', ['192.0.2.1']);
    first.want('a.test', '*.b.test');
    await first.pass(0);
    first.learn('x.b.test', '192.0.2.2');
    await first.pass(1000);
    // From here on, a kill -9 loses nothing.
    const second = await watched({}, first.disk, 3_600_000);
    second.want('*.b.test');
    second.want('a.test', '*.b.test');
    assert.deepEqual(second.names.table.addresses('a.test'), ['192.0.2.1']);
    assert.deepEqual(second.names.table.addresses('*.b.test'), ['192.0.2.2']);
    await second.pass(0);
    assert.deepEqual(second.asked, ['a.test']);
    await second.pass(1000);
    assert.match(second.log.join('\n'), /warn names no longer resolve.*"a.test: ENOTFOUND"/);
    assert.deepEqual(second.names.table.addresses('a.test'), ['192.0.2.1']);
    await first.names.close();
    await second.names.close();
  });

  it('keeps its addresses when the wall clock is stepped a day, also over a restart', async () => {
    const day = 86_400_000;
    for (const ahead of [day, -day]) {
      const first = await watched({ keep: 60 });
      first.answers.set('a.test', ['192.0.2.1']);
      first.want('a.test', '*.b.test');
      await first.pass(0);
      first.learn('x.b.test', '192.0.2.2');
      first.wall.ahead = ahead;
      await first.pass(30_000);
      assert.deepEqual(first.names.table.addresses('*.b.test'), ['192.0.2.2']);
      await first.names.close();
      const second = await watched({ keep: 60 }, first.disk, ahead + 31_000);
      second.want('a.test', '*.b.test');
      assert.deepEqual(second.names.table.addresses('a.test'), ['192.0.2.1'], `${ahead}`);
      assert.deepEqual(second.names.table.addresses('*.b.test'), ['192.0.2.2'], `${ahead}`);
      // Not longer than the monotonic clock says.
      await second.pass(61_000);
      await second.pass(2_000);
      assert.deepEqual(second.names.table.addresses('*.b.test'), [], `${ahead}`);
      await second.names.close();
    }
  });

  it('continues when the disk fails, logs it once, and saves when the disk works again', async () => {
    const { want, learn, log, disk, pass, names } = await watched({}, { text: 'rubbish', fails: false });
    assert.match(log.join('\n'), /error cannot read the saved FQDN cache/);
    disk.fails = true;
    want('*.a.test');
    learn('x.a.test', '192.0.2.1');
    for (let i = 0; i < 5; i++) await pass(10_000);
    assert.equal(log.filter((one) => one.startsWith('error cannot save')).length, 1);
    assert.deepEqual(names.table.addresses('*.a.test'), ['192.0.2.1']);
    disk.fails = false;
    await pass(10_000);
    assert.match(disk.text ?? '', /x\.a\.test/);
    await names.close();
  });

  it('logs that wildcards cannot be learnt, and that answers were lost', async () => {
    const off = await watched({ learn: false });
    off.want('a.test', '*.a.test');
    assert.match(off.log.join('\n'), /warn fqdn peers with a wildcard match nothing.*\["\*\.a\.test"\]/);
    const { want, source, log, pass } = await watched();
    want('*.a.test');
    for (let i = 0; i < 100; i++) {
      source.listener?.({ packets: [], lost: 10 });
      await pass(1000);
    }
    const lines = log.filter((line) => line.includes('DNS answers were lost, they arrived too fast'));
    assert.equal(lines.length, 2);
    assert.match(lines[1] ?? '', /"lost":6\d\d/);
  });

  it('logs a thousand names that stop resolving in one line', async () => {
    const { want, answers, log, pass } = await watched();
    const all = Array.from({ length: 1000 }, (_, i) => `n${i}.test`);
    for (const name of all) answers.set(name, ['192.0.2.1']);
    want(...all);
    for (let i = 0; i < 20; i++) await pass(100);
    answers.clear();
    await pass(30_000);
    for (let i = 0; i < 20; i++) await pass(100);
    const lines = log.filter((line) => line.includes('names no longer resolve'));
    assert.equal(lines.length, 1, lines.join('\n'));
    assert.match(lines[0] ?? '', /"count":1000/);
  });
});
