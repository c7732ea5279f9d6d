import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import path from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { Monitor, type MonitorEvent, Netlink, Nftables } from '../lib/index.ts';
import { inNamespace, nft } from './netns.ts';

const library = path.join(import.meta.dirname, '../lib/index.ts');

inNamespace(import.meta.filename, () => {
  describe('Monitor', () => {
    let events: MonitorEvent[];
    let monitor: Monitor;
    let netlink: Netlink;
    beforeEach(() => {
      events = [];
      monitor = new Monitor({ family: 'inet', table: 't' }, (event) => events.push(event));
      netlink = new Netlink();
    });
    afterEach(async () => {
      await Promise.all([monitor.close(), netlink.close()]);
      nft('flush', 'ruleset');
    });

    /** Waits until there are so many events, and a little longer for those there should not be. */
    const expectEvents = async (count: number): Promise<MonitorEvent[]> => {
      for (let i = 0; events.length < count && i < 500; i++) await sleep(10);
      await sleep(50);
      assert.equal(events.length, count, JSON.stringify(events));
      return events;
    };

    it('reports a foreign change, with the process', async () => {
      nft(
        'add table inet t; add chain inet t c; add set inet t s { type ipv4_addr; elements = { 10.0.0.1, 10.0.0.2 } }; add rule inet t c accept',
      );
      const [event] = await expectEvents(1);
      assert.ok(event?.kind === 'change');
      assert.equal(event.generation, await netlink.generation());
      assert.equal(event.processName, 'nft');
    });

    it("reports its own process's changes, one event a commit", async () => {
      const context = new Nftables();
      await context.run('add table inet t\nadd set inet t s { type ipv4_addr; }');
      const generation = await netlink.generation();
      const set = { family: 'inet', table: 't', set: 's', keyLength: 4 } as const;
      const batch = await netlink.batch([{ op: 'add', ...set, keys: Uint8Array.of(10, 0, 0, 1) }]);
      await context.close();
      const generations = (await expectEvents(2)).map((event) => event.kind === 'change' && event.generation);
      assert.deepEqual(generations, [generation, batch.generation.after]);
    });

    it('ignores elements of quiet sets, and nothing else', async () => {
      await monitor.close();
      const tell = (event: MonitorEvent): number => events.push(event);
      monitor = new Monitor({ family: 'inet', table: 't', quietSets: ['live'] }, tell);
      nft('add table inet t; add set inet t live { type ipv4_addr; }; add set inet t s { type ipv4_addr; }');
      nft('add element inet t live { 10.0.0.1 }');
      nft('delete element inet t live { 10.0.0.1 }; add element inet t live { 10.0.0.1 }');
      nft('add element inet t live { 10.0.0.2 }; add element inet t s { 10.0.0.2 }');
      const third = await netlink.generation();
      nft('delete set inet t live');
      const generations = (await expectEvents(3)).map((event) => event.kind === 'change' && event.generation);
      assert.deepEqual(generations.slice(1), [third, third + 1]);
    });

    it('ignores other tables and families', async () => {
      nft('add table inet other; add chain inet other t');
      nft('add table ip t; add chain ip t c');
      await expectEvents(0);
      nft('add table inet t');
      await expectEvents(1);
    });

    it('ignores failed transactions', async () => {
      const context = new Nftables();
      await assert.rejects(context.run('add table inet t\nadd rule inet t none accept'));
      await context.close();
      await expectEvents(0);
    });

    it('makes one event of 100,000 elements', async () => {
      nft('add table inet t; add set inet t s { type ipv4_addr; }');
      const keys = new Uint8Array(400_000);
      const view = new DataView(keys.buffer);
      for (let i = 0; i < 100_000; i++) view.setUint32(i * 4, i);
      await netlink.batch([{ op: 'add', family: 'inet', table: 't', set: 's', keyLength: 4, keys }]);
      await expectEvents(2);
    });

    it('reports an overrun, and continues', async () => {
      const told: MonitorEvent[] = [];
      const small = new Monitor({ family: 'inet', table: 't', receiveBuffer: 4096 }, (event) =>
        told.push(event),
      );
      try {
        nft('add table inet t; add set inet t s { type ipv4_addr; }');
        const keys = new Uint8Array(400_000);
        const view = new DataView(keys.buffer);
        for (let i = 0; i < 100_000; i++) view.setUint32(i * 4, i);
        // A reader that is fast just then keeps up: once more.
        for (let i = 0; !told.some(({ kind }) => kind === 'overrun') && i < 100; i++) {
          const op = i % 2 === 0 ? 'add' : 'delete';
          await netlink.batch([{ op, family: 'inet', table: 't', set: 's', keyLength: 4, keys }]);
          await sleep(10);
        }
        assert.ok(told.some(({ kind }) => kind === 'overrun'));
        // Waiting events may end in another overrun; later ones are reported.
        const first = await netlink.generation();
        const isTold = () => told.some((event) => event.kind === 'change' && event.generation > first);
        for (let i = 0; !isTold() && i < 200; i++) {
          nft(`add chain inet t after-${i}`);
          await sleep(10);
        }
        assert.ok(isTold());
      } finally {
        await small.close();
      }
    });

    it('reports nothing after close, and can be closed twice', async () => {
      await Promise.all([monitor.close(), monitor.close()]);
      nft('add table inet t');
      await expectEvents(0);
      monitor.ref().unref();
    });

    it('rejects wrong options at once', () => {
      const wrong = (options: object): Monitor => new Monitor(options as never, () => {});
      assert.throws(() => wrong({ family: 'ipx', table: 't' }), TypeError);
      assert.throws(() => wrong({ family: 'inet', table: 7 }), TypeError);
      assert.throws(() => wrong({ family: 'inet', table: '' }), RangeError);
      assert.throws(() => wrong({ family: 'inet', table: 't', receiveBuffer: -1 }), RangeError);
      assert.throws(() => new Monitor({ family: 'inet', table: 't' }, 'no function' as never), TypeError);
    });

    const program = (line: string, timeout = 30_000): number | null =>
      spawnSync(
        process.execPath,
        [
          '--input-type=module',
          '-e',
          `import { Monitor } from '${library}';
          const monitor = new Monitor({ family: 'inet', table: 't' }, () => {}); ${line}`,
        ],
        { timeout, encoding: 'utf8' },
      ).status;

    it('keeps the process alive, unless unref() was called or it was closed', () => {
      assert.equal(program('', 3_000), null);
      assert.equal(program('monitor.unref();'), 0);
      assert.equal(program('await monitor.close();'), 0);
      assert.equal(program('process.exit(3);'), 3);
    }).timeout(60_000);
  });
});
