import assert from 'node:assert/strict';
import { once } from 'node:events';
import { type OverviewChange, type OverviewLine, overviewPolicyKey } from '../../apis/console.ts';
import { sampleOverview, samplePolicy } from '../../test/console/sample-cluster.ts';
import { fakeClock } from '../../test/fake/fake-clock.ts';
import { ApiError } from './api.ts';
import { type LiveConnection, LiveOverview, streamLines, withChange } from './live-overview.ts';

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

function errorOf({ connection }: { readonly connection: LiveConnection }): string {
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

async function lines(chunks: readonly Uint8Array[], longest?: number): Promise<string[]> {
  const stream = ReadableStream.from(chunks) as ReadableStream<Uint8Array>;
  return await Array.fromAsync(streamLines(stream, longest));
}

describe('lines of a stream', () => {
  it('are the same wherever it is cut, inside characters too', async () => {
    const bytes = Buffer.from('{"a":"é"}\n\n{"b":"🧱"}\nrest');
    for (let size = 1; size <= bytes.length; size++) {
      const chunks: Uint8Array[] = [];
      for (let i = 0; i < bytes.length; i += size) chunks.push(bytes.subarray(i, i + size));
      assert.deepEqual(await lines(chunks), ['{"a":"é"}', '', '{"b":"🧱"}'], `chunks of ${size}`);
    }
  });

  it('are bounded', async () => {
    await assert.rejects(lines([Buffer.from('aaa'), Buffer.from('aaa')], 5), /longer than 5/);
    assert.deepEqual(await lines([Buffer.from('aaa\naa'), Buffer.from('aa\n')], 5), ['aaa', 'aaaa']);
  });

  it('are UTF-8', async () => {
    await assert.rejects(lines([Buffer.from([0xff, 10])]), TypeError);
  });
});

const CHANGE: OverviewChange = { time: '2026-11-26T15:00:00Z', revision: '9000' };

describe('a change of the overview', () => {
  it('replaces what it has, and leaves the rest the same objects', () => {
    const [first, second, third] = OVERVIEW.policies;
    const policy = { ...samplePolicy(1, 4), generation: 7 };
    const after = withChange(OVERVIEW, { ...CHANGE, policies: [policy], isEnabled: false });
    assert.equal(after.time, CHANGE.time);
    assert.equal(after.isEnabled, false);
    assert.equal(after.nodes, OVERVIEW.nodes);
    assert.equal(after.problems, OVERVIEW.problems);
    assert.deepEqual(after.policies, [first, policy, third]);
    assert.equal(after.policies[0], first);
    assert.notEqual(second, policy);
  });

  it('replaces nodes by their index and name', () => {
    const [node = assert.fail()] = OVERVIEW.nodes;
    const off = { ...node, phase: 'Off' } as const;
    const after = withChange(OVERVIEW, { ...CHANGE, nodes: [{ index: 0, node: off }] });
    assert.deepEqual(after.nodes[0], off);
    assert.equal(after.nodes[1], OVERVIEW.nodes[1]);
    assert.throws(
      () => withChange(OVERVIEW, { ...CHANGE, nodes: [{ index: 1, node: off }] }),
      /node 1 is not cp-01/,
    );
  });

  it('adds, removes and moves policies by their order', () => {
    const added = samplePolicy(7, 4);
    const [first, second] = OVERVIEW.policies.map(overviewPolicyKey);
    const order = [overviewPolicyKey(added), second ?? '', first ?? ''];
    const after = withChange(OVERVIEW, { ...CHANGE, policies: [added], order });
    assert.deepEqual(after.policies.map(overviewPolicyKey), order);
    assert.throws(() => withChange(OVERVIEW, { ...CHANGE, policies: [added] }), /without a place/);
    assert.throws(() => withChange(OVERVIEW, { ...CHANGE, order: ['nodewall.io/none'] }), /no policy/);
  });
});
