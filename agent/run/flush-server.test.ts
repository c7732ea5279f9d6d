import assert from 'node:assert/strict';
import { once } from 'node:events';
import { mkdtempSync, rmSync, statSync } from 'node:fs';
import { connect, type Socket } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { text } from 'node:stream/consumers';
import { createLog } from '../../lib/process/log.ts';
import type { PassOptions, ResetPass } from './established.ts';
import { FlushServer, flushSocket, requestLine } from './flush-server.ts';

const SUMMARY = { examined: 5, ended: 1, failed: 0, error: null };
const RECORD = { time: '', node: 'n', verdict: 'Drop' } as never;

const RESET = {
  protocol: 'tcp',
  src: '10.0.0.1',
  srcPort: 1,
  dst: '10.0.0.2',
  dstPort: 2,
  steered: true,
} as const;

describe('the server of nodewall flush', () => {
  const stateDir = mkdtempSync(join(tmpdir(), 'nodewall-flush-'));
  let asked: PassOptions[] = [];
  let flush = async (options: PassOptions): Promise<typeof SUMMARY> => {
    asked.push(options);
    await options.ended?.(RECORD);
    return SUMMARY;
  };
  const log = createLog({ logLevel: 'error' });
  const resetEgress = async ({ policy, ended, isDryRun }: ResetPass) => {
    assert.equal(isDryRun, true);
    if (policy !== 'shop/bank') throw new Error('no egress policy');
    await ended(RESET);
    return SUMMARY;
  };
  const established = { flush: (one: PassOptions) => flush(one), resetEgress };
  const server = new FlushServer({ node: 'n', stateDir, log, established, guard: null });
  before(() => server.listen());
  after(async () => {
    await server.close();
    rmSync(stateDir, { recursive: true });
  });
  beforeEach(() => {
    asked = [];
  });

  async function open(request: string): Promise<Socket> {
    const socket = connect(flushSocket(stateDir));
    await once(socket, 'connect');
    socket.write(request);
    return socket;
  }
  const ask = async (request: string): Promise<object[]> =>
    (await text(await open(request))).split('\n').flatMap((line) => (line === '' ? [] : JSON.parse(line)));
  const request = (fields: object = {}): string =>
    `${JSON.stringify({ isDryRun: true, by: 'root', node: null, ...fields })}\n`;

  it('is for the owner alone', () => {
    assert.equal(statSync(flushSocket(stateDir)).mode & 0o777, 0o600);
  });

  it('asks for the connections of an egress policy', async () => {
    const [connection, done] = await ask(request({ egressPolicy: 'shop/bank' }));
    assert.deepEqual(connection, { kind: 'reset', connection: RESET });
    assert.deepEqual(done, { kind: 'done', node: 'n', ...SUMMARY });
    assert.deepEqual(await ask(request({ egressPolicy: 'x' })), [
      { kind: 'error', message: 'no egress policy' },
    ]);
    assert.deepEqual(asked, []);
  });

  it('answers with connections, then with the sum', async () => {
    const answers = await ask(request());
    assert.deepEqual(answers, [
      { kind: 'connection', record: RECORD },
      { kind: 'done', node: 'n', ...SUMMARY },
    ]);
    assert.deepEqual([asked[0]?.isDryRun, asked[0]?.cause], [true, { reason: 'flush', by: 'root' }]);
  });

  it('is asked for connections whose records match; an agent that knows no filter would refuse', async () => {
    const only = 'src=10.0.0.0%2F8&port=22';
    const line = requestLine({ isDryRun: false, by: 'root', node: null, only, egressPolicy: null });
    assert.equal(JSON.parse(line).isDryRun, undefined);
    assert.equal((await ask(line)).length, 2);
    const [{ isDryRun, only: test } = assert.fail()] = asked;
    assert.equal(isDryRun, false);
    const record = { src: '10.0.0.7', dstPort: 22 };
    assert.deepEqual([test?.(record), test?.({ ...record, dstPort: 23 })], [true, false]);
    const whole = requestLine({ isDryRun: true, by: 'root', node: null, only: null, egressPolicy: null });
    assert.equal(JSON.parse(whole).isDryRun, true);
    await ask(whole);
    assert.deepEqual([asked[1]?.isDryRun, asked[1]?.only], [true, undefined]);
  });

  it('refuses what is not a request, what is too long, and another Node', async () => {
    for (const [bad, message] of [
      ['{}\n', /not a valid request/],
      ['x\n', /JSON/],
      [request({ only: 'place=here' }), /place=here is no parameter/],
      [`${'x'.repeat(5_000)}\n`, /longer than 4096/],
      [request({ node: 'other' }), /is that of Node n, not of other/],
    ] as const) {
      const [answer] = (await ask(bad)) as { kind: string; message: string }[];
      assert.equal(answer?.kind, 'error');
      assert.match(answer?.message ?? '', message);
    }
    assert.deepEqual(asked, []);
  });

  it('ends the pass of a caller that goes away', async () => {
    const before = flush;
    const started = Promise.withResolvers<void>();
    const aborted = new Promise<void>((resolve) => {
      flush = async ({ signal }) => {
        signal.addEventListener('abort', () => resolve());
        started.resolve();
        return await new Promise(() => undefined);
      };
    });
    const socket = await open(request());
    await started.promise;
    socket.destroy();
    await aborted;
    flush = before;
  });
});
