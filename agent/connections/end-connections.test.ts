import assert from 'node:assert/strict';
import { type ConntrackEntry, NftError, type TcpSocketName } from 'nftables-napi';
import { compiledRule } from '../../test/fake/node-state.ts';
import type { Denial } from './connection-judge.ts';
import { type EndOptions, endConnections } from './end-connections.ts';

const tuple = (sourcePort: number, destinationPort: number) => ({
  source: Uint8Array.of(10, 0, 0, 1),
  destination: Uint8Array.of(10, 0, 0, 2),
  sourcePort,
  destinationPort,
  icmpType: null,
  icmpCode: null,
});
const entry = (port: number, protocol = 6): ConntrackEntry => ({
  family: 4,
  protocol,
  status: 14,
  tcpState: 3,
  original: tuple(port, 80),
  reply: tuple(80, port),
  mark: 0,
  labels: new Uint8Array(0),
  identity: [],
});

/** Odd source ports are denied. */
function judge(one: ConntrackEntry): Denial | null {
  const denied = (one.original.sourcePort ?? 0) % 2 === 1;
  const flow = { direction: 'ingress', traffic: 'Host' } as Denial['flow'];
  return denied ? { entry: one, flow, rule: compiledRule('r') } : null;
}

function refusal(code: string): NftError {
  return new NftError([{ code, message: code, operation: null }]);
}

async function run(chunks: readonly (readonly ConntrackEntry[])[], changes: Partial<EndOptions> = {}) {
  const calls: string[] = [];
  const portOf = (one: ConntrackEntry) => one.original.sourcePort;
  const summary = await endConnections({
    conntrack: {
      async *entries() {
        yield* chunks;
      },
      async delete(entries) {
        calls.push(`delete ${entries.map(portOf)}`);
        return entries.map(() => null);
      },
    },
    sockets: {
      async destroy(names: readonly TcpSocketName[]) {
        calls.push(`reset ${names.map(({ localPort, remotePort }) => `${localPort}-${remotePort}`)}`);
        return names.map(() => null);
      },
    },
    judge,
    isDryRun: false,
    ended: (denials) => void calls.push(`ended ${denials.map(({ entry: one }) => portOf(one))}`),
    signal: new AbortController().signal,
    ...changes,
  });
  return { calls, summary };
}

describe('a pass over tracked connections', () => {
  it('resets TCP sockets, then deletes entries, chunk by chunk', async () => {
    const { calls, summary } = await run([[entry(1), entry(2), entry(3, 17)], [entry(4)], [entry(5)]]);
    const expected = ['reset 80-1', 'delete 1,3', 'ended 1,3', 'reset 80-5', 'delete 5', 'ended 5'];
    assert.deepEqual(calls, expected);
    assert.deepEqual(summary, { examined: 5, ended: 3, failed: 0, error: null });
  });

  it('touches nothing in a dry run', async () => {
    const { calls, summary } = await run([[entry(1), entry(2)]], { isDryRun: true });
    assert.deepEqual(calls, ['ended 1']);
    assert.equal(summary.ended, 1);
  });

  it('does not count what has ended meanwhile, and counts what the kernel refuses', async () => {
    const answers = ['ENOENT', 'EBUSY', null];
    const { summary, calls } = await run([[entry(1), entry(3), entry(5)]], {
      conntrack: {
        async *entries() {
          yield [entry(1), entry(3), entry(5)];
        },
        delete: async () => answers.map((code) => (code === null ? null : refusal(code))),
      },
    });
    assert.deepEqual([summary.ended, summary.failed, summary.error?.message], [1, 1, 'EBUSY']);
    assert.deepEqual(calls.slice(-1), ['ended 5']);
  });

  it('goes on where the kernel cannot reset sockets, and says so', async () => {
    const sockets = { destroy: async () => [refusal('EOPNOTSUPP')] };
    const { summary } = await run([[entry(1)]], { sockets });
    assert.deepEqual([summary.ended, summary.error?.message], [1, 'EOPNOTSUPP']);
  });

  it('ends between chunks when it is aborted', async () => {
    const stop = new AbortController();
    const ended = () => stop.abort();
    await assert.rejects(run([[entry(1)], [entry(3)]], { signal: stop.signal, ended }), {
      name: 'AbortError',
    });
  });
});
