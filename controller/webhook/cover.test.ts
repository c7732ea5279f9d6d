import assert from 'node:assert/strict';
import fc from 'fast-check';
import type { Service } from '../../apis/compiled.ts';
import type { LabelSelector, LabelSelectorRequirement } from '../../apis/objects.ts';
import { canonicalRequirements, holds } from '../index/selector.ts';
import { selectorCovers, servicesCover } from './cover.ts';

const KEYS = ['a', 'b'];
const VALUES = ['1', '2', '3'];

const requirement: fc.Arbitrary<LabelSelectorRequirement> = fc.oneof(
  fc.record({
    key: fc.constantFrom(...KEYS),
    operator: fc.constantFrom('In' as const, 'NotIn' as const),
    values: fc.subarray(VALUES, { minLength: 1 }),
  }),
  fc.record({
    key: fc.constantFrom(...KEYS),
    operator: fc.constantFrom('Exists' as const, 'DoesNotExist' as const),
  }),
);
const selector: fc.Arbitrary<LabelSelector> = fc.record({
  matchExpressions: fc.array(requirement, { maxLength: 3 }),
});

/** All combinations of labels with these keys and values. */
const LABELS = [undefined, ...VALUES].flatMap((a) =>
  [undefined, ...VALUES].map((b) => ({ ...(a ? { a } : {}), ...(b ? { b } : {}) }) as Record<string, string>),
);

function selects(wanted: LabelSelector, labels: Record<string, string>): boolean {
  return canonicalRequirements(wanted).every((each) => holds(each, labels));
}

const PORTS = [0, 1, 2, 65_535];
const range = fc.tuple(fc.constantFrom(...PORTS), fc.constantFrom(...PORTS)).map(([a, b]) => {
  return [Math.min(a, b), Math.max(a, b)] as const;
});
const service: fc.Arbitrary<Service> = fc.record(
  { protocol: fc.constantFrom('tcp' as const, 'udp' as const), ports: range, sourcePorts: range },
  { requiredKeys: ['protocol'] },
);
const services = fc.array(service, { minLength: 1, maxLength: 4 });

function takes(all: readonly Service[], protocol: string, port: number, source: number): boolean {
  return all.some((each) => {
    if (each.protocol !== protocol || (each.protocol !== 'tcp' && each.protocol !== 'udp')) return false;
    const { ports = [0, 65_535], sourcePorts = [0, 65_535] } = each;
    return ports[0] <= port && port <= ports[1] && sourcePorts[0] <= source && source <= sourcePorts[1];
  });
}

describe('covering', () => {
  it('selectors: true if the narrow one selects nothing else', () => {
    let covered = 0;
    fc.assert(
      fc.property(selector, selector, (wide, narrow) => {
        if (!selectorCovers(wide, narrow)) return;
        covered++;
        for (const labels of LABELS) assert.ok(!selects(narrow, labels) || selects(wide, labels));
      }),
      { numRuns: 2000 },
    );
    assert.ok(covered > 100, `${covered}`);
  });

  it('selectors: each covers itself, and {} all', () => {
    fc.assert(fc.property(selector, (one) => assert.ok(selectorCovers(one, one) && selectorCovers({}, one))));
  });

  it('ports: true exactly if no pair of ports is left over', () => {
    // The points in the middle stand for ranges between the generated ends.
    const points = [0, 1, 2, 3, 65_534, 65_535];
    fc.assert(
      fc.property(services, services, (wide, narrow) => {
        const left = ['tcp', 'udp'].some((protocol) =>
          points.some((port) =>
            points.some(
              (source) => takes(narrow, protocol, port, source) && !takes(wide, protocol, port, source),
            ),
          ),
        );
        assert.equal(servicesCover(wide, narrow), !left);
      }),
      { numRuns: 2000 },
    );
  });
});
