import assert from 'node:assert/strict';
import { setImmediate as turn } from 'node:timers/promises';
import { formatMembers } from '../../lib/net/member-set.ts';
import { fakeClock } from '../../test/fake/fake-clock.ts';
import { WatchedLocalPods } from './local-pods.ts';

const line = (device: string, last: number): string =>
  `fd0000000000000000000000000000${last.toString(16).padStart(2, '0')} 80 ${'0'.repeat(32)} 00 ${'0'.repeat(32)} 00000400 00000001 00000000 00000001 ${device}\n`;

describe('WatchedLocalPods', () => {
  let clock: ReturnType<typeof fakeClock>;
  let ipv6: string;
  let interfaces: Set<string>;
  let failure: Error | null;
  let looks: number;
  let unreadable: string[];
  let changes: number;
  let pods: WatchedLocalPods;
  const members = (): string[] => formatMembers(pods.now()?.members ?? assert.fail('not known'));
  async function pass(milliseconds: number): Promise<void> {
    clock.pass(milliseconds);
    await turn();
  }

  beforeEach(async () => {
    clock = fakeClock();
    ipv6 = line('cali1', 1);
    interfaces = new Set(['cali1']);
    failure = null;
    looks = 0;
    unreadable = [];
    changes = 0;
    pods = new WatchedLocalPods({
      async read() {
        looks++;
        if (failure !== null) throw failure;
        return { ipv4: '', ipv6 };
      },
      interfaces: () => interfaces,
      clock,
      unreadable: ({ message }) => unreadable.push(message),
    });
    pods.listen(() => changes++);
  });

  it('knows nothing before the first read', async () => {
    assert.equal(pods.now(), null);
    await pods.refresh();
    assert.deepEqual([members(), changes], [['fd00::1'], 1]);
  });

  it('is the same object until its members change, by routes or by interfaces', async () => {
    await pods.refresh();
    const before = pods.now();
    ipv6 = ipv6.replace('00000001 00000000 00000001', '00000002 00000007 00000001');
    await pods.refresh();
    assert.equal(pods.now(), before);
    ipv6 += line('cali2', 2);
    await pods.refresh();
    assert.equal(pods.now(), before);
    interfaces.add('cali2');
    await pods.refresh();
    assert.deepEqual([members(), changes], [['fd00::1', 'fd00::2'], 2]);
    ipv6 = '';
    await pods.refresh();
    assert.deepEqual([members(), changes], [[], 3]);
  });

  it('reads again soon after links change, three times, then every 5 s', async () => {
    await pods.refresh();
    pods.watch();
    for (const pause of [100, 400, 1500, 5000, 5000]) {
      assert.deepEqual(clock.waiting(), [pause]);
      await pass(pause);
    }
    assert.equal(looks, 6);
    pods.linksChanged();
    assert.deepEqual(clock.waiting(), [100]);
    await pass(100);
    assert.deepEqual(clock.waiting(), [400]);
  });

  it('reads although links change all the time', async () => {
    pods.watch();
    for (let i = 0; i < 100; i++) {
      pods.linksChanged();
      await pass(10);
    }
    assert.equal(looks, 10);
  });

  it('keeps its state while routes cannot be read, and logs it once', async () => {
    await pods.refresh();
    failure = new Error('no');
    await pods.refresh();
    await pods.refresh();
    assert.deepEqual([members(), unreadable], [['fd00::1'], ['no']]);
    failure = null;
    await pods.refresh();
    failure = new Error('again');
    await pods.refresh();
    assert.deepEqual(unreadable, ['no', 'again']);
  });

  it('stops when closed', async () => {
    pods.watch();
    clock.pass(100);
    pods.close();
    await turn();
    assert.deepEqual(clock.waiting(), []);
    pods.linksChanged();
    assert.deepEqual(clock.waiting(), []);
  });
});
