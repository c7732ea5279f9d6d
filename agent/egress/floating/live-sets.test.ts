import assert from 'node:assert/strict';
import type { Generation } from 'nftables-napi';
import { fakeClock } from '../../../test/fake/fake-clock.ts';
import { FakeElements } from '../../../test/fake/fake-elements.ts';
import { LiveSets } from './live-sets.ts';

const [V4, V6] = ['192.0.2.1', '2001:db8::1'];
const KEYS = { v4: 'c0000201', v6: '20010db8000000000000000000000001' };
const ALL = [`arp live ${KEYS.v4}`, `inet egress-live-v4 ${KEYS.v4}`, `inet egress-live-v6 ${KEYS.v6}`];

describe('LiveSets', () => {
  const parts = () => {
    const clock = fakeClock();
    const kernel = new FakeElements(clock);
    const commits: Readonly<Generation>[] = [];
    const live = new LiveSets({
      netlink: kernel,
      timed: kernel,
      clock,
      committed: (generation) => commits.push(generation),
    });
    return { clock, kernel, live, commits };
  };
  const both = (until: number) => [V4, V6].map((address) => ({ address, until }));

  it('has an address in the sets of both tables, until just before its end', async () => {
    const { clock, kernel, live, commits } = parts();
    assert.deepEqual(await live.add(both(1_000)), []);
    assert.deepEqual(Object.keys(kernel.alive()), ALL);
    for (const left of Object.values(kernel.alive())) assert.ok(left <= 1_000 && left > 950);
    assert.deepEqual(
      (await live.read()).map(({ address, isWhole }) => [address, isWhole]),
      [V4, V6].map((address) => [address, true]),
    );
    assert.equal(commits.length, 1);
    clock.pass(1_000);
    assert.deepEqual(await live.read(), []);
  });

  it('renews what is alive, and nothing that has ended', async () => {
    const { clock, kernel, live } = parts();
    await live.add([{ address: V4, until: 500 }]);
    await live.add([{ address: V6, until: 1_000 }]);
    clock.pass(600);
    assert.deepEqual(await live.renew(both(2_600)), [V4]);
    assert.deepEqual(Object.keys(kernel.alive()), [ALL[2]]);
    clock.pass(1_500);
    assert.deepEqual(Object.keys(kernel.alive()), [ALL[2]]);
  });

  it('ends what only one of its sets has', async () => {
    const { kernel, live } = parts();
    await live.add([{ address: V4, until: 1_000 }]);
    kernel.sets.delete('arp live');
    assert.deepEqual(
      (await live.read()).map(({ isWhole }) => isWhole),
      [false],
    );
    assert.deepEqual(await live.renew([{ address: V4, until: 2_000 }]), [V4]);
    assert.deepEqual(await live.read(), []);
  });

  it('makes nothing alive without the sets, nor when the time is over', async () => {
    const { kernel, live } = parts();
    assert.deepEqual(await live.add([{ address: V4, until: 5 }]), [V4]);
    kernel.sets.delete('arp live');
    await assert.rejects(live.add([{ address: V4, until: 1_000 }]), { code: 'ENOENT' });
    assert.deepEqual(kernel.alive(), {});
  });

  it('lets nothing live beyond its end where the process was stopped on the way to the kernel', async () => {
    const { clock, kernel, live } = parts();
    let stops = [300];
    kernel.before = () => clock.pass(stops.shift() ?? 0);
    assert.deepEqual(await live.add([{ address: V4, until: 1_000 }]), []);
    for (const left of Object.values(kernel.alive())) assert.ok(left <= 700, `${left}`);
    stops = [400];
    assert.deepEqual(await live.renew([{ address: V4, until: 1_400 }]), []);
    for (const left of Object.values(kernel.alive())) assert.ok(left <= 700, `${left}`);
    stops = [600];
    // The deletion has come in time, the addition too late.
    assert.deepEqual(await live.renew([{ address: V4, until: 1_250 }]), [V4]);
    assert.deepEqual(kernel.alive(), {});
  });

  it('deletes what is there, and needs nothing to be there', async () => {
    const { kernel, live } = parts();
    await live.add(both(1_000));
    await live.delete([V4]);
    assert.deepEqual(Object.keys(kernel.alive()), [ALL[2]]);
    await live.delete(['192.0.2.7', V4, V6]);
    assert.deepEqual(kernel.alive(), {});
  });
});
