import assert from 'node:assert/strict';
import { type ChildProcess, spawn, spawnSync } from 'node:child_process';
import { readlinkSync } from 'node:fs';
import path from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { LinkSocket, type ReadLink, type RouteEvent, RouteMonitor, RouteSocket } from '../lib/index.ts';
import { inNamespace, ip, ipBatch } from './netns.ts';

const library = path.join(import.meta.dirname, '../lib/index.ts');

/** A process in a network namespace of its own, which lives as long as it does. */
async function otherNamespace(): Promise<ChildProcess & { pid: number }> {
  const child = spawn('unshare', ['-n', 'sleep', '60'], { stdio: 'ignore' });
  const { pid } = child;
  assert.ok(pid !== undefined);
  const own = readlinkSync('/proc/self/ns/net');
  while (readlinkSync(`/proc/${pid}/ns/net`) === own) await sleep(1);
  return Object.assign(child, { pid });
}

/** The kernel's answer in /sys or through ip: read back another way than by the code under test. */
function groupOf(name: string): string {
  return /"group":"(\w+)"/.exec(ip('-j', 'link', 'show', name))?.[1] ?? 'none';
}

function ignoreInterrupted(error: NodeJS.ErrnoException): [] {
  if (error.code !== 'EINTR') throw error;
  return [];
}

const pairs = (count: number): string[] =>
  Array.from({ length: count }, (_, i) => `link add v${i} group 77 type veth peer name w${i}`);

inNamespace(import.meta.filename, () => {
  afterEach(() => {
    const names = [...ip('-o', 'link').matchAll(/^\d+: ([^:@]+)[:@]/gm)].map(([, name]) => name ?? '');
    const commands = names.filter((name) => name !== 'lo').map((name) => `link set ${name} group 99`);
    // Some may be going already, with the namespace of their peer.
    spawnSync('ip', ['-force', '-b', '-'], { input: commands.join('\n') });
    spawnSync('ip', ['link', 'del', 'group', '99']); // one by one takes 10 ms each
  });

  describe('links', () => {
    let network: RouteSocket;
    let links: LinkSocket;
    beforeEach(() => {
      network = new RouteSocket();
      links = new LinkSocket();
    });
    afterEach(() => Promise.all([network.close(), links.close()]));

    const named = async (name: string): Promise<ReadLink> => {
      const found = (await network.links()).find((link) => link.name === name);
      assert.ok(found, `no ${name}`);
      return found;
    };

    it('are lo in an empty namespace', async () => {
      ip('link', 'set', 'lo', 'down');
      assert.deepEqual(await network.links(), [
        {
          index: 1,
          name: 'lo',
          kind: null,
          group: 0,
          master: null,
          peer: null,
          peerNamespace: null,
          isLoopback: true,
          isUp: false,
          hasQueue: true,
          mtu: 65_536,
          mac: new Uint8Array(6),
          vxlan: null,
        },
      ]);
    });

    it('returns kind, group, master, peer and state', async () => {
      ip('link', 'add', 'br0', 'type', 'bridge');
      ip('link', 'add', 'v0', 'group', '7', 'type', 'veth', 'peer', 'name', 'w0');
      ip('link', 'set', 'v0', 'master', 'br0', 'up');
      ip('link', 'add', 'x0', 'type', 'vxlan', 'id', '1', 'dstport', '4789');
      const [bridge, port, other] = [await named('br0'), await named('v0'), await named('w0')];
      const tunnel = await named('x0');
      assert.deepEqual(
        [bridge, port, other, tunnel].map(({ kind }) => kind),
        ['bridge', 'veth', 'veth', 'vxlan'],
      );
      assert.deepEqual([port.group, port.master, port.peer], [7, bridge.index, other.index]);
      assert.deepEqual([other.group, other.master, other.peer], [0, null, port.index]);
      assert.deepEqual([port.isUp, other.isUp, port.isLoopback], [true, false, false]);
      assert.deepEqual([bridge.peer, tunnel.peer], [null, null]);
      assert.equal(port.peerNamespace, null);
      assert.equal(ip('-o', 'link', 'show', 'v0').split(':')[0], String(port.index));
    });

    it('reports whether what it sends may wait', async () => {
      ip('link', 'add', 'b0', 'type', 'bridge');
      ip('link', 'add', 'b1', 'numtxqueues', '2', 'type', 'bridge');
      const [before, several] = [await named('b0'), await named('b1')];
      ip('link', 'set', 'b0', 'up');
      ip('link', 'set', 'b1', 'up');
      assert.deepEqual([before.hasQueue, several.hasQueue], [true, true]);
      assert.deepEqual([(await named('b0')).hasQueue, (await named('b1')).hasQueue], [false, true]);
    });

    it('reports that a peer is in another namespace', async () => {
      const other = await otherNamespace();
      ip('link', 'add', 'v0', 'type', 'veth', 'peer', 'name', 'w0', 'netns', String(other.pid));
      const { peer, peerNamespace } = await named('v0');
      assert.ok(peer !== null && peer > 0);
      assert.match(ip('netns', 'list-id'), new RegExp(`nsid ${peerNamespace}\\b`));
      other.kill();
    });

    it('returns links by index, or null', async () => {
      ip('link', 'add', 'v0', 'type', 'veth', 'peer', 'name', 'w0');
      const link = await named('v0');
      const some = [link.index + 1000, link.index, 2 ** 31 - 1, link.index];
      assert.deepEqual(await network.linksAt(some), [null, link, null, link]);
      assert.deepEqual(await network.linksAt([]), []);
    });

    it('sets the group of one link, and nothing else of it', async () => {
      ip('link', 'add', 'v0', 'type', 'veth', 'peer', 'name', 'w0');
      ip('link', 'set', 'v0', 'up');
      const before = await named('v0');
      assert.deepEqual(await links.setGroups([{ index: before.index, group: 42 }]), [null]);
      assert.equal(groupOf('v0'), '42');
      assert.deepEqual([groupOf('w0'), groupOf('lo')], ['default', 'default']);
      assert.deepEqual(await named('v0'), { ...before, group: 42 });
      assert.deepEqual(await links.setGroups([{ index: before.index, group: 2 ** 32 - 1 }]), [null]);
      assert.equal((await named('v0')).group, 2 ** 32 - 1);
      assert.deepEqual(await links.setGroups([{ index: before.index, group: 0 }]), [null]);
      assert.equal(groupOf('v0'), 'default');
    });

    it('returns ENODEV for a removed link', async () => {
      ip('link', 'add', 'v0', 'type', 'veth', 'peer', 'name', 'w0');
      const { index } = await named('v0');
      ip('link', 'del', 'v0');
      const [error] = await links.setGroups([{ index, group: 9 }]);
      assert.deepEqual(
        [error?.name, error?.code, error?.message],
        ['NftError', 'ENODEV', `group 9 of link ${index}: No such device`],
      );
    });

    it('sets many groups independently', async () => {
      ipBatch(pairs(3));
      const [a, b] = [await named('v0'), await named('v2')];
      const answers = await links.setGroups([
        { index: a.index, group: 5 },
        { index: 999_999, group: 5 },
        { index: b.index, group: 6 },
      ]);
      assert.deepEqual(
        answers.map((answer) => answer?.code ?? null),
        [null, 'ENODEV', null],
      );
      assert.deepEqual(['v0', 'v1', 'v2'].map(groupOf), ['5', '77', '6']);
      assert.deepEqual(await links.setGroups([]), []);
      const [stale, done] = await links.setGroups([
        { index: 1, group: 9, from: 8 },
        { index: 1, group: 0, from: 0 },
      ]);
      assert.deepEqual([stale?.code, done], ['ESTALE', null]);
    });

    it('never changes a whole group: index 0 is refused before the kernel sees it', async () => {
      await assert.rejects(links.setGroups([{ index: 0, group: 5 }]), RangeError);
      for (const wrong of [-1, 1.5, 2 ** 31, Number.NaN]) {
        await assert.rejects(links.setGroups([{ index: wrong, group: 5 }]), RangeError);
        await assert.rejects(network.linksAt([1, wrong]), RangeError);
      }
      for (const group of [-1, 1.5, 2 ** 32])
        await assert.rejects(links.setGroups([{ index: 1, group }]), RangeError);
      assert.equal(groupOf('lo'), 'default');
    });

    it('lists and sets 1,000', async () => {
      ipBatch(pairs(500));
      const all = await network.links();
      assert.equal(all.length, 1001);
      assert.deepEqual(
        all.map(({ index }) => index),
        all.map(({ index }) => index).sort((a, b) => a - b),
      );
      const veths = all.filter(({ kind }) => kind === 'veth');
      const answers = await links.setGroups(veths.map(({ index }) => ({ index, group: index })));
      assert.ok(answers.every((answer) => answer === null));
      const after = (await network.links()).filter(({ kind }) => kind === 'veth');
      assert.ok(after.every(({ index, group }) => group === index));
    });

    it('lists a consistent state while links are added and removed', async () => {
      // c0 and c1 come and go together; one is read first in a dump and the other last, many
      // messages later.
      const pair = 'link add c0 index 100000 type veth peer name c1 index 50';
      ipBatch(Array.from({ length: 400 }, (_, i) => `link add v${i} index ${1000 + i} type bridge`));
      const commands = `while :; do echo '${pair}'; echo 'link del c0'; done | ip -force -b -`;
      const churn = spawn('sh', ['-c', commands], { stdio: 'ignore', detached: true });
      const { pid } = churn;
      assert.ok(pid !== undefined);
      const seen = new Set<string>();
      try {
        for (let answers = 0; answers < 300; ) {
          const names = (await network.links().catch(ignoreInterrupted)).map(({ name }) => name);
          // On a slow machine every attempt may meet a change.
          if (names.length === 0) continue;
          answers++;
          const pairs = names.filter((name) => name.startsWith('c'));
          assert.equal(names.length - pairs.length, 401);
          seen.add(pairs.join());
        }
      } finally {
        process.kill(-pid);
        await new Promise((resolve) => churn.once('exit', resolve));
      }
      // Never one without the other.
      assert.deepEqual(
        [...seen].filter((pairs) => pairs !== '' && pairs !== 'c1,c0'),
        [],
      );
    });

    it('lists without privileges, but cannot change', () => {
      const text = `import { LinkSocket, RouteSocket } from '${library}'; const links = new LinkSocket(), network = new RouteSocket();
        const [refused] = await links.setGroups([{ index: 1, group: 5 }]);
        process.stdout.write((await network.links()).length + ' ' + refused.code);`;
      const args = ['--bounding-set', '-all', '--inh-caps', '-all', '--reuid', '65534', '--clear-groups'];
      const { stdout, stderr } = spawnSync(
        'setpriv',
        [...args, process.execPath, '--input-type=module', '-e', text],
        { encoding: 'utf8' },
      );
      assert.equal(stdout, '1 EPERM', stderr);
    });
  });

  describe('RouteMonitor of links', () => {
    let events: RouteEvent[];
    let calls: number;
    let monitor: RouteMonitor;
    beforeEach(() => {
      events = [];
      calls = 0;
      monitor = new RouteMonitor({ kinds: ['link'] }, (batch) => {
        calls++;
        events.push(...batch);
      });
    });
    afterEach(() => monitor.close());

    const until = async (holds: () => boolean): Promise<void> => {
      for (let i = 0; !holds() && i < 500; i++) await sleep(10);
      assert.ok(holds(), JSON.stringify(events.slice(-5)));
    };
    /** The links of these events, as present or as removed. */
    const linksIn = (told: readonly RouteEvent[], event: 'present' | 'removed'): ReadLink[] =>
      told.flatMap((it) => (it.event === event && it.object.kind === 'link' ? [it.object.link] : []));
    const last = (name: string): ReadLink | 'removed' | undefined => {
      const found = events.findLast((it) =>
        linksIn([it], it.event as 'present').some((link) => link.name === name),
      );
      return found?.event === 'removed' ? 'removed' : linksIn(found ? [found] : [], 'present')[0];
    };
    const now = (name: string, is: (link: ReadLink) => boolean): Promise<void> =>
      until(() => {
        const link = last(name);
        return typeof link === 'object' && is(link);
      });

    it('reports a new link, each change, and its removal', async () => {
      const network = new RouteSocket();
      ip('link', 'add', 'br0', 'type', 'bridge');
      ip('link', 'add', 'v0', 'type', 'veth', 'peer', 'name', 'w0');
      await now('v0', ({ kind, isUp, group }) => kind === 'veth' && !isUp && group === 0);
      ip('link', 'set', 'v0', 'up');
      await now('v0', ({ isUp }) => isUp);
      ip('link', 'set', 'v0', 'group', '12');
      await now('v0', ({ group }) => group === 12);
      ip('link', 'set', 'v0', 'master', 'br0');
      await now('v0', ({ master }) => master !== null);
      const link = last('v0');
      assert.ok(typeof link === 'object');
      const [read] = await network.linksAt([link.index]);
      assert.deepEqual(link, read);
      // Renaming a link that is up came with Linux 6.x, and the name comes first in one command.
      ip('link', 'set', 'v0', 'down');
      ip('link', 'set', 'v0', 'name', 'v9');
      await now('v9', ({ index }) => index === link.index);
      ip('link', 'del', 'w0');
      await until(() => last('v9') === 'removed' && last('w0') === 'removed');
      await network.close();
    });

    it('reports added and removed addresses if they are among the kinds', async () => {
      const told: RouteEvent[] = [];
      const both = new RouteMonitor({ kinds: ['link', 'address'] }, (batch) => told.push(...batch));
      const isAddress = (it: RouteEvent): boolean => 'object' in it && it.object.kind === 'address';
      const count = (): number => told.filter(isAddress).length;
      const more = async (action: () => void): Promise<void> => {
        const before = count();
        action();
        await until(() => count() > before);
      };
      ip('link', 'add', 'v0', 'type', 'veth', 'peer', 'name', 'w0');
      await more(() => ip('addr', 'add', '192.0.2.1/32', 'dev', 'v0'));
      await more(() => ip('addr', 'add', '2001:db8::1/128', 'dev', 'v0'));
      await more(() => ip('addr', 'del', '192.0.2.1/32', 'dev', 'v0'));
      await more(() => ip('addr', 'del', '2001:db8::1/128', 'dev', 'v0'));
      await both.close();
      assert.ok(linksIn(told, 'present').length > 0);
      assert.ok(!events.some(isAddress));
    });

    it('does not report a port that leaves its bridge as removed', async () => {
      ip('link', 'add', 'br0', 'type', 'bridge');
      ip('link', 'add', 'v0', 'type', 'veth', 'peer', 'name', 'w0');
      ip('link', 'set', 'v0', 'master', 'br0');
      await now('v0', ({ master }) => master !== null);
      ip('link', 'set', 'v0', 'nomaster');
      await now('v0', ({ master }) => master === null);
      await sleep(50);
      assert.deepEqual(linksIn(events, 'removed'), []);
    });

    it('reports that a link moved to another namespace', async () => {
      const other = await otherNamespace();
      ip('link', 'add', 'v0', 'type', 'veth', 'peer', 'name', 'w0');
      ip('link', 'set', 'w0', 'netns', String(other.pid));
      await until(() => last('w0') === 'removed');
      other.kill();
    });

    it('reports all of 200 veth pairs made at once, with both ends', async () => {
      ipBatch(pairs(200));
      // JavaScript sees nothing until ipBatch() is done: the socket keeps it all.
      await until(() => new Set(linksIn(events, 'present').map(({ name }) => name)).size === 400);
      ip('link', 'del', 'group', '77');
      await until(() => linksIn(events, 'removed').length === 400);
      assert.equal(events.filter(({ event }) => event === 'overrun').length, 0);
      assert.ok(calls < 20, `${calls} calls for ${events.length} events`);
    });

    it('reports an overrun, and continues', async () => {
      const told: RouteEvent[] = [];
      const small = new RouteMonitor({ receiveBuffer: 4096, kinds: ['link'] }, (batch) =>
        told.push(...batch),
      );
      ipBatch(pairs(100));
      const isTold = async (holds: (event: RouteEvent) => boolean): Promise<boolean> => {
        for (let i = 0; !told.some(holds) && i < 200; i++) await sleep(10);
        return told.some(holds);
      };
      const overrun = await isTold(({ event }) => event === 'overrun');
      await sleep(50);
      ip('link', 'set', 'v7', 'up');
      const goesOn = await isTold((it) =>
        linksIn([it], 'present').some(({ name, isUp }) => name === 'v7' && isUp),
      );
      await small.close();
      assert.deepEqual([overrun, goesOn], [true, true]);
    });

    it('reports a changed group only if the link is up, as the kernel does', async () => {
      ip('link', 'add', 'v0', 'type', 'veth', 'peer', 'name', 'w0');
      ip('link', 'set', 'v0', 'group', '3');
      await now('w0', () => true);
      await sleep(50);
      assert.notEqual((last('v0') as ReadLink).group, 3);
      ip('link', 'set', 'v0', 'up');
      await now('v0', ({ group }) => group === 3);
    });

    it('reports nothing after close, and can be closed twice', async () => {
      await Promise.all([monitor.close(), monitor.close()]);
      ip('link', 'add', 'v0', 'type', 'veth', 'peer', 'name', 'w0');
      await sleep(50);
      assert.deepEqual(events, []);
      monitor.ref().unref();
    });

    it('rejects wrong options at once', () => {
      assert.throws(() => new RouteMonitor({ receiveBuffer: -1 }, () => {}), RangeError);
      assert.throws(() => new RouteMonitor({ receiveBuffer: 2 ** 31 }, () => {}), RangeError);
      assert.throws(() => new RouteMonitor({ receiveBuffer: '1' as never }, () => {}), TypeError);
      assert.throws(() => new RouteMonitor({}, 'no function' as never), TypeError);
    });

    it('keeps the process alive, unless unref() was called or it was closed', () => {
      const program = (line: string, timeout = 30_000): number | null =>
        spawnSync(
          process.execPath,
          [
            '--input-type=module',
            '-e',
            `import { RouteMonitor } from '${library}'; const monitor = new RouteMonitor({}, () => {}); ${line}`,
          ],
          { timeout },
        ).status;
      assert.equal(program('', 3_000), null);
      assert.equal(program('monitor.unref();'), 0);
      assert.equal(program('await monitor.close();'), 0);
    }).timeout(60_000);
  });
});
