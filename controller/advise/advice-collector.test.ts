import assert from 'node:assert/strict';
import { NO_OBJECTS } from '../../apis/objects.ts';
import { seenKind, seenOn } from '../../test/fake/record.ts';
import { AdviceCollector } from './advice-collector.ts';

const PODS = 8;

function collected(count: number, portsOf: (node: number) => readonly number[]): AdviceCollector {
  const collector = new AdviceCollector(NO_OBJECTS, PODS);
  for (let i = 0; i < count; i++) {
    const kinds = portsOf(i).map((port) => seenKind('198.51.100.7', port));
    collector.add(`n-${i}`, seenOn(`n-${i}`, ...kinds), () => null);
  }
  return collector;
}

describe('what is collected for advice', () => {
  const common = Array.from({ length: 9 }, (_, i) => 1_000 + i);

  it('has a bounded number of classes of nodes that serve nearly the same', () => {
    const few = collected(100, (i) => [...common, 2_000 + i]);
    assert.equal(few.classes.length, 100);
    const many = collected(400, (i) => [...common, 2_000 + i]);
    assert.equal(many.classes.length, 128);
    assert.equal(
      many.classes.reduce((sum, { nodes }) => sum + nodes.length, 0),
      400,
    );
    const services = many.classes.flatMap((one) => [...one.uses.values()]);
    assert.equal(
      services.filter(({ seen }) => (seen.service.port ?? 0) >= 2_000).length,
      400,
      'none is lost',
    );
  });

  it('keeps nodes apart that serve something else, however many there are', () => {
    const many = collected(200, (i) => [1_000 + 3 * i, 1_001 + 3 * i, 1_002 + 3 * i]);
    assert.equal(many.classes.length, 200);
  });
});
