import assert from 'node:assert/strict';
import { type LogLimits, ResumeLog } from './resume-log.ts';
import type { Audience, Span } from './spans.ts';

const limits: LogLimits = { messages: 3, bytes: 100, names: 100 };

function filled(some: Partial<LogLimits>, ...audiences: readonly (readonly [Audience, number?])[]) {
  const log = new ResumeLog(10, { ...limits, ...some });
  for (const [i, [audience, size = 1]] of audiences.entries()) {
    const position = 11 + i;
    log.append({ position, audience, line: { revision: `e.${position}`, body: Buffer.alloc(size) } });
  }
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

  it('returns null for left-out messages', () => {
    const { log, since } = filled({}, [null]);
    log.leaveOut(15, new Set(['b']));
    assert.deepEqual([since(10), since(10, 'b'), since(15, 'b')], [['e.11'], null, []]);
  });

  it('works over many appends', () => {
    const log = new ResumeLog(0, limits);
    for (let position = 1; position <= 5000; position++) {
      log.append({ position, audience: null, line: { revision: `e.${position}`, body: Buffer.alloc(1) } });
      log.leaveOut(position, new Set(['b']));
    }
    assert.deepEqual(
      log.since(4998, 'a')?.map(({ revision }) => revision),
      ['e.4999', 'e.5000'],
    );
    assert.equal(log.since(4998, 'b'), null);
    assert.equal(log.since(4000, 'a'), null);
  });
});
