import assert from 'node:assert/strict';
import { fakeClock } from '../../../test/fake/fake-clock.ts';
import { arpAnnouncements } from './arp-frame.ts';
import { announce, type FrameSocket, probe } from './neighbour-link.ts';

const LINK = { index: 3, mac: Buffer.from('0e0000000001', 'hex') };
const FOREIGN = Buffer.from('020000000009', 'hex');
const ADDRESS = '192.0.2.50';

describe('a link with neighbours', () => {
  const parts = (waiting: Uint8Array[] = []) => {
    const clock = fakeClock();
    const state = { sent: 0, open: 0, isDown: false };
    const open = (index: number): FrameSocket => {
      assert.equal(index, LINK.index);
      state.open++;
      return {
        send() {
          if (state.isDown) throw new Error('Network is down');
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
    const asked = probe({ clock, open }, LINK, ADDRESS, isOwn);
    await pass(clock, 20);
    assert.equal(state.open, 1, 'still listens');
    await pass(clock, 20);
    assert.equal(await asked, null);
    assert.deepEqual(state, { sent: 3, open: 0, isDown: false });
  });

  it('tells the MAC of another host at once', async () => {
    const { clock, state, open } = parts(arpAnnouncements(FOREIGN, ADDRESS));
    assert.deepEqual(await probe({ clock, open }, LINK, ADDRESS, isOwn), FOREIGN);
    assert.equal(state.open, 0);
  });

  it('hears of an address three times at once, and after 1, 2, 4 … 64 seconds, while it is alive', () => {
    const { clock, state, open } = parts();
    announce({ clock, open }, LINK, ADDRESS, () => true);
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
    const stop = announce({ clock, open }, LINK, ADDRESS, () => isAlive);
    state.isDown = true;
    clock.pass(1_000);
    state.isDown = false;
    clock.pass(1_000);
    assert.equal(state.sent, 8);
    isAlive = false;
    clock.pass(2_000);
    assert.deepEqual([state.sent, clock.waiting()], [8, []]);
    isAlive = true;
    stop();
    announce({ clock, open }, LINK, ADDRESS, () => true)();
    assert.deepEqual(clock.waiting(), []);
  });
});
