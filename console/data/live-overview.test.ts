import assert from 'node:assert/strict';
import { once } from 'node:events';
import type { OverviewLine } from '../../apis/console.ts';
import { sampleOverview, samplePolicy } from '../../test/console/sample-cluster.ts';
import { fakeClock } from '../../test/fake/fake-clock.ts';
import { ApiError } from './api.ts';
import { type Connection, LiveOverview } from './live-overview.ts';

const OVERVIEW = sampleOverview({ nodes: 4, policies: 3 });
const WHOLE: OverviewLine = { type: 'overview', overview: OVERVIEW };

/** A server whose streams the test writes. */
class Streams {
  readonly signals: AbortSignal[] = [];
  refusal: ApiError | null = null;
  #writer: ReadableStreamDefaultController<Uint8Array> | null = null;

  readonly open = async (signal: AbortSignal): Promise<ReadableStream<Uint8Array>> => {
    this.signals.push(signal);
    if (this.refusal !== null) throw this.refusal;
    return new ReadableStream<Uint8Array>({
      start: (writer) => {
        this.#writer = writer;
        signal.addEventListener('abort', () => writer.error(signal.reason));
      },
    });
  };

  write(line: OverviewLine | ''): void {
    this.#writer?.enqueue(Buffer.from(`${line === '' ? '' : JSON.stringify(line)}\n`));
  }

  end(): void {
    this.#writer?.close();
  }
}

function started() {
  const clock = fakeClock();
  const streams = new Streams();
  const live = new LiveOverview({ open: streams.open, clock, random: () => 1 });
  const changed = (): Promise<unknown> => once(live, 'change');
  live.start();
  return { clock, streams, live, changed };
}

function errorOf({ connection }: { readonly connection: Connection }): string {
  return connection.kind === 'waiting' ? connection.error.message : '';
}

describe('the live overview', () => {
  it('shows the first document, then changes', async () => {
    const { streams, live, changed, clock } = started();
    assert.equal(live.connection.kind, 'connecting');
    streams.write(WHOLE);
    await changed();
    assert.deepEqual(live.overview, OVERVIEW);
    assert.deepEqual(live.connection, { kind: 'live' });
    const policy = { ...samplePolicy(0, 4), generation: 9 };
    streams.write({ type: 'change', time: '2026-11-26T15:00:00Z', revision: '1', policies: [policy] });
    await changed();
    assert.deepEqual(live.overview?.policies[0], policy);
    clock.pass(5_000);
    assert.equal(
      new Date(live.now()).toISOString(),
      '2026-11-26T15:00:05.000Z',
      'the time of the server goes on',
    );
    live.stop();
    await new Promise(setImmediate);
    assert.deepEqual(clock.waiting(), [], 'nothing is left to wait for');
    assert.equal(streams.signals[0]?.aborted, true);
  });

  it('begins again with longer and longer waits, and keeps what it had', async () => {
    const { clock, streams, live, changed } = started();
    streams.write(WHOLE);
    await changed();
    streams.refusal = new ApiError(403, 'no right to get overviews');
    streams.end();
    await changed();
    const waits: number[] = [];
    for (let i = 0; i < 7; i++) {
      const { connection } = live;
      if (connection.kind !== 'waiting') assert.fail(connection.kind);
      waits.push(connection.seconds);
      if (i > 0) assert.equal(connection.error.status, 403);
      const again = changed();
      clock.pass(connection.seconds * 1000);
      await again;
    }
    assert.deepEqual(waits, [1, 2, 4, 8, 16, 30, 30]);
    assert.deepEqual(live.overview, OVERVIEW);
    streams.refusal = null;
    live.start();
    await new Promise(setImmediate);
    streams.write(WHOLE);
    await changed();
    assert.equal(live.connection.kind, 'live');
    live.stop();
  });

  it('goes on at once where a server ends a stream that lasted', async () => {
    const { clock, streams, live, changed } = started();
    streams.write(WHOLE);
    await changed();
    clock.pass(60_000);
    streams.end();
    await new Promise(setImmediate);
    assert.equal(streams.signals.length, 2);
    assert.deepEqual(live.connection, { kind: 'live' });
    live.stop();
  });

  it('takes signs of life, and leaves a server that is silent', async () => {
    const { clock, streams, live, changed } = started();
    streams.write(WHOLE);
    await changed();
    for (let i = 0; i < 4; i++) {
      clock.pass(70_000);
      streams.write('');
      await new Promise(setImmediate);
    }
    assert.equal(live.connection.kind, 'live');
    const lost = changed();
    clock.pass(75_000);
    await lost;
    assert.match(errorOf(live), /silent for too long/);
    assert.equal(streams.signals[0]?.aborted, true);
    live.stop();
  });

  it('asks for a whole document where a change does not fit', async () => {
    const { clock, streams, live, changed } = started();
    streams.write(WHOLE);
    await changed();
    const lost = changed();
    streams.write({ type: 'change', time: OVERVIEW.time, revision: '1', order: ['nodewall.io/none'] });
    await lost;
    assert.equal(live.connection.kind, 'waiting');
    assert.equal(streams.signals[0]?.aborted, true, 'the stream is left');
    clock.pass(1_000);
    assert.equal(streams.signals.length, 2);
    live.stop();
  });
});
