import assert from 'node:assert/strict';
import { fakeClock } from '../../../test/fake/fake-clock.ts';
import { arpAnnouncements } from './conflict-frames.ts';
import { announce, type FrameSocket, probe } from './neighbour-link.ts';

const LINK = { index: 3, mac: Buffer.from('0e0000000001', 'hex') };
const FOREIGN = Buffer.from('020000000009', 'hex');
const ADDRESS = '192.0.2.50';

describe('a link with neighbours', () => {
  const parts = (waiting: Uint8Array[] = []) => {
    const clock = fakeClock();
    const state = { sent: 0, open: 0, isDown: false, full: 0 };
    const open = (index: number): FrameSocket => {
      assert.equal(index, LINK.index);
      state.open++;
      return {
        send() {
          if (state.isDown) throw new Error('Network is down');
          if (state.full > 0) {
            state.full--;
            throw Object.assign(new Error('No buffer space available'), { code: 'ENOBUFS' });
          }
          state.sent++;
        },
        receive: () => waiting.splice(0),
        close: () => void state.open--,
      };
    };
    return { clock, state, open };
  };
  const pass = async (clock: ReturnType<typeof fakeClock>, milliseconds: number): Promise<void> => {
    for (let i = 0; i < milliseconds; i++) {
      clock.pass(1);
      await Promise.resolve();
    }
  };
  const isOwn = (mac: Uint8Array): boolean => mac[0] === 0x0e;

  it('is asked three times; without an answer nobody has the address', async () => {
    const { clock, state, open } = parts(arpAnnouncements(LINK.mac, ADDRESS));
    const asked = probe({ clock, open }, LINK, [ADDRESS], isOwn);
    await pass(clock, 20);
    assert.equal(state.open, 1, 'still listens');
    await pass(clock, 20);
    assert.deepEqual(await asked, new Map());
    assert.deepEqual(state, { sent: 3, open: 0, isDown: false, full: 0 });
  });

  it('is asked three times though its queue is full for a while, and refused where it stays full', async () => {
    const { clock, state, open } = parts();
    state.full = 5;
    const asked = probe({ clock, open }, LINK, [ADDRESS], isOwn);
    await pass(clock, 60);
    assert.deepEqual(await asked, new Map());
    assert.deepEqual(state, { sent: 3, open: 0, isDown: false, full: 0 });
    state.full = Number.POSITIVE_INFINITY;
    const refused = assert.rejects(probe({ clock, open }, LINK, [ADDRESS], isOwn), /the link is saturated/);
    await pass(clock, 1_100);
    await refused;
    assert.equal(state.open, 0);
  });

  it('is listened to as long after it took the first question, as if its queue had been free', async () => {
    for (const isFull of [0, 5]) {
      const waiting: Uint8Array[] = [];
      const { clock, state, open } = parts(waiting);
      state.full = isFull;
      const asked = probe({ clock, open }, LINK, [ADDRESS], isOwn);
      for (let i = 0; i < 100 && state.sent === 0; i++) await pass(clock, 1);
      await pass(clock, 15);
      waiting.push(...arpAnnouncements(FOREIGN, ADDRESS));
      await pass(clock, 40);
      assert.deepEqual(await asked, new Map([[ADDRESS, FOREIGN]]), `refused ${isFull} times`);
    }
  });

  it('hears of an address later where its queue is full at first', () => {
    const { clock, state, open } = parts();
    state.full = 3;
    announce({ clock, open }, LINK, [ADDRESS], () => true);
    assert.equal(state.sent, 0);
    clock.pass(1_000);
    assert.equal(state.sent, arpAnnouncements(LINK.mac, ADDRESS).length);
  });

  it('tells the MAC of another host at once', async () => {
    const { clock, state, open } = parts(arpAnnouncements(FOREIGN, ADDRESS));
    const found = await probe({ clock, open }, LINK, ['192.0.2.49', ADDRESS], isOwn);
    assert.deepEqual(found, new Map([[ADDRESS, FOREIGN]]));
    assert.equal(state.open, 0);
  });

  it('hears of an address three times at once, and after 1, 2, 4 … 64 seconds, while it is alive', () => {
    const { clock, state, open } = parts();
    announce({ clock, open }, LINK, [ADDRESS], () => true);
    const counts = [state.sent];
    for (const seconds of [1, 1, 2, 4, 8, 16, 32, 100]) {
      clock.pass(seconds * 1_000);
      counts.push(state.sent);
    }
    assert.deepEqual(counts, [6, 8, 10, 12, 14, 16, 18, 20, 20]);
    assert.deepEqual([clock.waiting(), state.open], [[], 0]);
  });

  it('hears no more of what is not alive or was stopped, and later of what was down', () => {
    const { clock, state, open } = parts();
    let isAlive = true;
    const stop = announce({ clock, open }, LINK, [ADDRESS], () => isAlive);
    state.isDown = true;
    clock.pass(1_000);
    state.isDown = false;
    clock.pass(1_000);
    assert.equal(state.sent, 8);
    isAlive = false;
    clock.pass(2_000);
    assert.deepEqual([state.sent, clock.waiting()], [8, []]);
    isAlive = true;
    stop(ADDRESS);
    announce({ clock, open }, LINK, [ADDRESS], () => true)(ADDRESS);
    assert.deepEqual(clock.waiting(), []);
  });

  it('takes one socket for all addresses of a protocol, and hears no more of one that was stopped', async () => {
    const { clock, state, open } = parts();
    const most = { open: 0 };
    const counted: typeof open = (index) => {
      const socket = open(index);
      most.open = Math.max(most.open, state.open);
      return socket;
    };
    const addresses = ['192.0.2.50', '192.0.2.51', '2001:db8::50'];
    const asked = probe({ clock, open: counted }, LINK, addresses, isOwn);
    await pass(clock, 40);
    await asked;
    assert.deepEqual([most.open, state], [2, { sent: 9, open: 0, isDown: false, full: 0 }]);
    const stop = announce({ clock, open: counted }, LINK, addresses, (address) => address !== '192.0.2.51');
    assert.equal(state.sent, 9 + 3 * (2 + 2 + 1));
    clock.pass(1_000);
    assert.equal(state.sent, 24 + 2 + 1);
    stop('192.0.2.50');
    clock.pass(1_000);
    assert.equal(state.sent, 27 + 1);
    stop('2001:db8::50');
    assert.deepEqual([clock.waiting(), most.open, state.open], [[], 2, 0]);
  });
});
