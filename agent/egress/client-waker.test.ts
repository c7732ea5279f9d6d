import assert from 'node:assert/strict';
import type { ConntrackEntry } from 'nftables-napi';
import type { Log } from '../../lib/process/log.ts';
import { fakeClock } from '../../test/fake/fake-clock.ts';
import { ClientWaker } from './client-waker.ts';

/** TCP_CONNTRACK_ESTABLISHED. */
const ESTABLISHED = 3;

function connection(port: number, changes: Partial<ConntrackEntry> = {}): ConntrackEntry {
  const [source, destination] = [Uint8Array.of(203, 0, 113, 5), Uint8Array.of(10, 244, 1, 7)];
  const reply = {
    source,
    destination,
    sourcePort: 443,
    destinationPort: port,
    icmpType: null,
    icmpCode: null,
  };
  const ends = { original: reply, reply };
  return {
    family: 4,
    protocol: 6,
    status: 14,
    tcpState: ESTABLISHED,
    mark: 0,
    labels: new Uint8Array(0),
    identity: [],
    ...ends,
    ...changes,
  };
}

function setUp(refuse: () => Error | null = () => null) {
  const clock = fakeClock();
  const lines: string[] = [];
  const sent: number[] = [];
  const open: number[] = [];
  const waker = new ClientWaker({
    clock,
    log: {
      warn: (message: string, fields?: object) => void lines.push(`${message} ${JSON.stringify(fields)}`),
    } as unknown as Log,
    open(family) {
      open.push(family);
      return {
        send(packet) {
          const error = refuse();
          if (error !== null) throw error;
          sent.push(Buffer.from(packet).readUInt16BE(family === 4 ? 22 : 42));
        },
        close: () => void open.splice(open.indexOf(family), 1),
      };
    },
  });
  return { clock, lines, sent, open, waker };
}

describe('clients of connections that are reset', () => {
  it('are woken if the connection is an open one of TCP', () => {
    const { sent, open, waker } = setUp();
    const states = [null, 1, 2, ESTABLISHED, 4, 5, 6, 7, 8, 9];
    waker.wake(states.map((tcpState) => connection(1000 + (tcpState ?? 0), { tcpState })));
    waker.wake([connection(1, { protocol: 17 })]);
    assert.deepEqual(sent, [1003, 1004, 1005, 1006]);
    assert.deepEqual(open, [4]);
    waker.close();
    assert.deepEqual(open, []);
  });

  it('100 at a time, 10 ms apart, and no more than 65,536 wait', () => {
    const { clock, sent, waker } = setUp();
    waker.wake(Array.from({ length: 150 }, (_, i) => connection(i)));
    waker.wake(Array.from({ length: 70_000 }, () => connection(9)));
    assert.equal(sent.length, 100);
    assert.deepEqual(clock.waiting(), [10]);
    clock.pass(9);
    assert.equal(sent.length, 100);
    clock.pass(1);
    assert.deepEqual(sent.slice(0, 151), [...Array.from({ length: 150 }, (_, i) => i), 9]);
    while (clock.waiting().length > 0) clock.pass(10);
    assert.equal(sent.length, 100 + 65_536);
    waker.wake([connection(1)]);
    assert.equal(sent.at(-1), 1);
  });

  it('a packet that is refused is logged once, and the others are sent', () => {
    let refused = 2;
    const { lines, sent, waker } = setUp(() => (refused-- > 0 ? new Error('EHOSTUNREACH') : null));
    waker.wake([1, 2, 3].map((port) => connection(port)));
    assert.deepEqual(sent, [3]);
    assert.equal(lines.length, 1);
    assert.match(lines[0] ?? '', /EHOSTUNREACH/);
  });

  it('are left alone once it is closed', () => {
    const { clock, sent, waker } = setUp();
    waker.wake(Array.from({ length: 150 }, (_, i) => connection(i)));
    waker.close();
    clock.pass(100);
    assert.equal(sent.length, 100);
  });
});
