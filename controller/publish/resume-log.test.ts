import assert from 'node:assert/strict';
import type { Audience, Span } from './messages.ts';
import { type LoggedMessage, type LogLimits, ResumeLog } from './resume-log.ts';

const limits: LogLimits = { messages: 3, bytes: 100, names: 100, ownMessages: 1 };

function entry(position: number, audience: Audience, size = 1): LoggedMessage {
  return { position, audience, line: { revision: `e.${position}`, body: Buffer.alloc(size) } };
}

function filled(some: Partial<LogLimits>, ...audiences: readonly (readonly [Audience, number?])[]) {
  const log = new ResumeLog(10, { ...limits, ...some });
  for (const [i, [audience, size]] of audiences.entries()) log.append([entry(11 + i, audience, size)]);
  const since = (position: number, node = 'a') =>
    log.since(position, node)?.map(({ revision }) => revision) ?? null;
  return { log, since };
}

describe('resumeLog', () => {
  const a: Audience = [new Set(['a'])];
  const b: Audience = [new Set(['b']), new Set(['c'])];

  it('returns the messages sent to a node after a position', () => {
    const { since } = filled({}, [a], [b], [null]);
    assert.deepEqual(since(10), ['e.11', 'e.13']);
    assert.deepEqual(since(11), ['e.13']);
    assert.deepEqual(since(11, 'c'), ['e.12', 'e.13']);
    assert.deepEqual(since(13), []);
  });

  it('drops old messages by number, bytes and names', () => {
    assert.equal(filled({}, [a]).since(9), null);
    const many = filled({}, [a], [a], [a], [a]);
    assert.deepEqual([many.since(10), many.since(11)?.length], [null, 3]);
    const large = filled({}, [a, 60], [a, 60]);
    assert.deepEqual([large.since(10), large.since(11)?.length], [null, 1]);
    const span: Span = new Set(['a', 'b', 'c']);
    const shared = filled({ names: 5 }, [[span]], [[span]], [[span]]);
    assert.equal(shared.since(10)?.length, 3, 'a span counts once');
    const others = filled({ names: 5 }, [[span]], [[new Set(span)]]);
    assert.deepEqual([others.since(10), others.since(11)?.length], [null, 1]);
  });

  it('stores nothing if a single message is too large', () => {
    const { since } = filled({}, [a], [a, 200]);
    assert.deepEqual([since(11), since(12)], [null, []]);
  });

  it('leaves out the messages of nodes that get too many in one batch, and keeps those of all others', () => {
    const { log, since } = filled({ messages: 10 }, [null]);
    log.append([entry(12, a), entry(13, null)]);
    assert.equal(since(11)?.length, 2, 'not too many');
    log.append([entry(14, b), entry(15, b), entry(16, [new Set(['b'])]), entry(17, null)]);
    assert.deepEqual(since(10), ['e.11', 'e.12', 'e.13', 'e.17']);
    assert.deepEqual([since(10, 'b'), since(16, 'c')], [null, null], 'part of it would be missing');
    assert.deepEqual([since(17, 'b'), log.reaches(16, 'b')], [[], false]);
  });

  it('does not leave out what many nodes get', () => {
    const { log, since } = filled({ messages: 10 });
    const many = [new Set(['a', ...Array.from({ length: 16 }, (_, i) => `n${i}`)])];
    log.append([entry(11, many), entry(12, many), entry(13, many)]);
    assert.equal(since(10)?.length, 3);
  });

  it('works over many appends', () => {
    const log = new ResumeLog(0, limits);
    // Each batch has two messages too many for the node, and one for all.
    for (let position = 3; position <= 15_000; position += 3)
      log.append([position - 2, position - 1, position].map((at, i) => entry(at, i < 2 ? b : null)));
    assert.deepEqual(
      log.since(14_994, 'a')?.map(({ revision }) => revision),
      ['e.14997', 'e.15000'],
    );
    assert.equal(log.since(14_994, 'b'), null);
    assert.equal(log.since(11_000, 'a'), null);
  });
});
