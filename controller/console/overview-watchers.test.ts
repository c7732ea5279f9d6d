import assert from 'node:assert/strict';
import { EventEmitter } from 'node:events';
import type { ServerResponse } from 'node:http';
import type { Overview, OverviewNode } from '../../apis/console.ts';
import { fakeClock } from '../../test/fake/fake-clock.ts';
import { OverviewWatchers, WATCHER_LIMITS } from './overview-watchers.ts';

/** Takes bytes until it is full. */
class FakeResponse extends EventEmitter {
  readonly written: string[] = [];
  isFull = false;
  writableEnded = false;
  destroyed = false;
  writeHead(): void {}
  flushHeaders(): void {}
  write(bytes: Buffer): boolean {
    this.written.push(bytes.toString());
    return !this.isFull;
  }
  end(): void {
    this.writableEnded = true;
    this.emit('close');
  }
  destroy(): void {
    this.destroyed = true;
    this.emit('close');
  }
}

const settled = (): Promise<void> => new Promise((resolve) => setImmediate(resolve));

describe('those who watch the overview', () => {
  const node = (message: string): OverviewNode => ({
    name: 'n',
    phase: 'Failing',
    message,
    reported: null,
    version: null,
    dataplane: null,
  });
  const overview = (message: string): Overview => ({
    time: '',
    revision: message,
    isEnabled: true,
    remark: null,
    nodes: [node(message)],
    policies: [],
    rollouts: [],
    problems: [],
  });
  function bed() {
    const clock = fakeClock();
    const bed_ = { clock, current: overview('a'), computed: 0, fails: false, errors: [] as unknown[] };
    const watchers = new OverviewWatchers({
      async overview() {
        bed_.computed++;
        if (bed_.fails) throw new Error('broken');
        return bed_.current;
      },
      clock,
      failed: (error) => void bed_.errors.push(error),
    });
    const open = (): FakeResponse => {
      const response = new FakeResponse();
      watchers.open(response as unknown as ServerResponse);
      return response;
    };
    /** Passes time until a change was sent. */
    const pass = async (milliseconds: number): Promise<void> => {
      clock.pass(milliseconds);
      await settled();
    };
    return Object.assign(bed_, { watchers, open, pass });
  }
  const kinds = ({ written }: FakeResponse): string[] =>
    written.map((line) =>
      line === '\n' ? '' : `${JSON.parse(line).type} ${JSON.parse(line).nodes?.[0].node.message ?? ''}`,
    );

  it('get the whole, then what changes, and nothing where nothing does', async () => {
    const it = bed();
    const one = it.open();
    await it.pass(0);
    for (const next of [it.current, overview('b'), it.current]) {
      it.current = next;
      it.watchers.changed();
      await it.pass(WATCHER_LIMITS.between);
    }
    assert.deepEqual(kinds(one), ['overview ', 'change b', 'change a']);
  });

  it('get one line for what changed while they did not read', async () => {
    const it = bed();
    const [slow, quick] = [it.open(), it.open()];
    slow.isFull = true;
    await it.pass(WATCHER_LIMITS.between);
    for (const message of ['b', 'c', 'd']) {
      it.current = overview(message);
      it.watchers.changed();
      await it.pass(WATCHER_LIMITS.between);
    }
    assert.deepEqual(kinds(quick), ['overview ', 'change b', 'change c', 'change d']);
    assert.deepEqual(kinds(slow), ['overview ']);
    slow.isFull = false;
    slow.emit('drain');
    await it.pass(WATCHER_LIMITS.between);
    assert.deepEqual(kinds(slow), ['overview ', 'change d']);
  });

  it('are ended if they take nothing for long, and after half an hour', async () => {
    const it = bed();
    const [stuck, well] = [it.open(), it.open()];
    stuck.isFull = true;
    await it.pass(0);
    for (let i = 0; i < 5; i++) await it.pass(WATCHER_LIMITS.heartbeat);
    assert.deepEqual([stuck.destroyed, well.destroyed, it.watchers.count], [true, false, 1]);
    assert.ok(well.written.includes('\n'), 'a sign of life');
    for (let i = 0; i < WATCHER_LIMITS.longest / WATCHER_LIMITS.heartbeat; i++)
      await it.pass(WATCHER_LIMITS.heartbeat);
    assert.deepEqual([well.writableEnded, it.watchers.count], [true, 0]);
  });

  it('cost nothing while there are none', async () => {
    const it = bed();
    it.watchers.changed();
    await it.pass(WATCHER_LIMITS.heartbeat);
    assert.equal(it.computed, 0);
    const one = it.open();
    await it.pass(0);
    one.emit('close');
    const { computed } = it;
    it.watchers.changed();
    await it.pass(10 * WATCHER_LIMITS.heartbeat);
    assert.deepEqual([it.computed, it.clock.waiting()], [computed, []]);
  });

  it('go on after a failure', async () => {
    const it = bed();
    it.fails = true;
    const one = it.open();
    await it.pass(0);
    assert.deepEqual([it.errors.length, one.written], [1, []]);
    it.fails = false;
    it.watchers.changed();
    await it.pass(WATCHER_LIMITS.between);
    assert.deepEqual(kinds(one), ['overview ']);
  });

  it('are bounded in number', () => {
    const it = bed();
    for (let i = 0; i < WATCHER_LIMITS.most; i++) it.open();
    assert.equal(it.watchers.isFull, true);
    it.watchers.close();
    assert.equal(it.watchers.count, 0);
  });
});
