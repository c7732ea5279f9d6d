import assert from 'node:assert/strict';
import { type NewConnection, NftError, type OpenSocket, SOCKET_STATE, type SocketQuery } from 'nftables-napi';
import { keepSessions } from './keep-sessions.ts';

const { established, synSent, newSynReceived, closeWait, lastAck, listen, close } = SOCKET_STATE;
const v4 = (last: number): Uint8Array => Uint8Array.of(10, 0, 0, last);
const mapped = (last: number): Uint8Array =>
  Uint8Array.of(0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 255, 255, 10, 0, 0, last);
const v6 = (last: number): Uint8Array => Uint8Array.of(0xfd, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, last);

let cookies = 0;
interface Socket extends OpenSocket {
  readonly protocol: 6 | 17;
}
function socket(state: number, localPort: number, remotePort: number, more: Partial<Socket> = {}): Socket {
  const ends = { local: v4(1), localPort, remote: v4(2), remotePort };
  return { protocol: 6, state, ...ends, cookie: Uint8Array.of(++cookies, 0, 0, 0, 0, 0, 0, 0), ...more };
}

/** @param later sockets once the kernel tracks */
async function run(before: readonly Socket[], later: readonly Socket[] = [], error: NftError | null = null) {
  let there = before;
  const calls: string[] = [];
  const added: NewConnection[] = [];
  const summary = await keepSessions({
    sockets: {
      async *sockets({ family, protocol, states }: SocketQuery) {
        const width = family === 4 ? 4 : 16;
        yield there.filter(
          (one) => one.protocol === protocol && one.local.length === width && (one.state & states) !== 0,
        );
      },
    },
    conntrack: {
      async add(connections: readonly NewConnection[]) {
        added.push(...connections);
        calls.push(...connections.map(nameOf));
        return connections.map(() => error);
      },
    },
    async track() {
      calls.push('track');
      there = [...before, ...later];
    },
  });
  return { summary, calls, added };
}

function nameOf({
  protocol,
  source,
  sourcePort,
  destination,
  destinationPort,
  isAnswered,
}: NewConnection): string {
  const end = (bytes: Uint8Array, port: number): string => `${bytes.length}.${bytes.at(-1)}:${port}`;
  const way = `${end(source, sourcePort)}>${end(destination, destinationPort)}`;
  return `${protocol} ${way}${isAnswered ? '' : ' unanswered'}`;
}

describe('keepSessions', () => {
  it('has the sessions tracked in the direction in which they began, before anything else is', async () => {
    const ANY = new Uint8Array(16);
    const { calls, summary } = await run([
      socket(listen, 22, 0, { local: ANY, remote: ANY }),
      socket(listen, 80, 0, { local: v4(1), remote: v4(0) }),
      socket(close, 53, 0, { protocol: 17, local: ANY, remote: ANY }),
      socket(established, 22, 40_001),
      socket(established, 80, 40_002),
      // Only another address of this machine is listened at.
      socket(established, 80, 40_003, { local: v4(9) }),
      socket(established, 22, 40_004, { local: mapped(1), remote: mapped(2) }),
      socket(established, 22, 40_005, { local: v6(1), remote: v6(2) }),
      socket(closeWait, 40_006, 2049),
      socket(newSynReceived, 8080, 40_007),
      socket(established, 53, 40_008, { protocol: 17 }),
      socket(established, 40_009, 53, { protocol: 17, local: v6(1), remote: v6(2) }),
    ]);
    assert.deepEqual(calls, [
      '6 4.2:40001>4.1:22',
      '6 4.2:40002>4.1:80',
      '6 4.9:80>4.2:40003',
      '6 4.1:40006>4.2:2049',
      '6 4.2:40007>4.1:8080',
      '6 4.2:40004>4.1:22',
      '6 16.2:40005>16.1:22',
      '17 4.2:40008>4.1:53',
      '17 16.1:40009>16.2:53',
      'track',
    ]);
    assert.deepEqual(summary, { kept: 9, failed: 0, error: null });
  });

  it('looks again once the kernel tracks, for those that began or changed meanwhile', async () => {
    const asked = socket(synSent, 40_001, 22);
    const halfOpen = socket(newSynReceived, 22, 40_002);
    const { calls } = await run(
      [asked, halfOpen],
      [socket(established, 40_003, 22), { ...halfOpen, state: established }],
    );
    assert.deepEqual(calls, [
      '6 4.2:40002>4.1:22',
      'track',
      '6 4.1:40001>4.2:22 unanswered',
      '6 4.1:40003>4.2:22',
      '6 4.1:22>4.2:40002',
    ]);
  });

  it('tracks a session that ends for as long as the kernel would', async () => {
    const { added } = await run([socket(lastAck, 40_001, 22), socket(closeWait, 40_002, 22)]);
    assert.deepEqual(
      added.map(({ tcpState, timeout }) => [tcpState, timeout]),
      [
        [7, 120],
        [3, 432_000],
      ],
    );
  });

  it('counts what the kernel refuses', async () => {
    const detail = { code: 'ENOMEM', message: 'connection: out of memory', operation: null };
    const error = new NftError([detail]);
    const { summary } = await run(
      [socket(established, 40_001, 22), socket(established, 40_002, 22)],
      [],
      error,
    );
    assert.deepEqual(summary, { kept: 0, failed: 2, error });
  });
});
