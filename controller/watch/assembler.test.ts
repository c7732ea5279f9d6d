import assert from 'node:assert/strict';
import fc from 'fast-check';
import type { ClusterObject } from '../../apis/objects.ts';
import { assemble } from './assemble.ts';
import { type Assembler, assembler } from './assembler.ts';
import type { FileContent } from './content.ts';
import { keepObjects } from './keep-objects.ts';
import { NO_LAST_VALID } from './last-valid-versions.ts';
import { NO_CACHE, parseManifest } from './read-file.ts';

const API = 'nodewall.io/v1alpha1';
const policy = (name: string, spec: object = {}): object => {
  const whole = { priority: 5, appliedTo: [{ nodeSelector: {} }], ...spec };
  return { apiVersion: API, kind: 'ClusterNetworkPolicy', metadata: { name }, spec: whole };
};
const toService = { egress: [{ action: 'Drop', toServices: [{ name: 'web', namespace: 'shop' }] }] };
/** Specs for a policy of one name, valid and invalid. */
const SPECS: readonly object[] = [
  {},
  {},
  { priority: 6 },
  { priority: 7 },
  toService,
  { tier: 'own' },
  { tier: 'none' },
  { appliedTo: [{ group: 'nodes' }] },
  { priority: 'high' },
];
const OTHERS: readonly object[] = [
  { apiVersion: API, kind: 'Tier', metadata: { name: 'own' }, spec: { priority: 9 } },
  { apiVersion: API, kind: 'ClusterGroup', metadata: { name: 'nodes' }, spec: { nodeSelector: {} } },
  { apiVersion: 'v1', kind: 'Node', metadata: { name: 'one' } },
  { apiVersion: 'v1', kind: 'Service', metadata: { name: 'web', namespace: 'shop' }, spec: {} },
  {
    apiVersion: API,
    kind: 'EgressGateway',
    metadata: { name: 'out' },
    spec: { nodeSelector: { matchLabels: { a: 'b' } } },
  },
  {
    apiVersion: API,
    kind: 'ClusterEgressPolicy',
    metadata: { name: 'all' },
    spec: { appliedTo: [{ podSelector: {} }], gateway: 'out' },
  },
];

interface Write {
  readonly file: string;
  /** Null: the file is deleted. */
  readonly objects: readonly object[] | null;
  readonly broken: boolean;
}

const POLICY = fc
  .tuple(fc.constantFrom('a', 'b', 'c', 'd', 'e', 'f', 'g', 'h'), fc.constantFrom(...SPECS))
  .map(([name, spec]) => policy(name, spec));
const WRITE: fc.Arbitrary<Write> = fc.oneof(
  {
    weight: 8,
    arbitrary: fc.record({
      file: fc.constantFrom('1.json', '2.json', '3.json', '4.json'),
      objects: fc.option(fc.array(POLICY, { maxLength: 2 }), { freq: 6 }),
      broken: fc.integer({ min: 0, max: 15 }).map((n) => n === 0),
    }),
  },
  {
    weight: 1,
    arbitrary: fc.record({
      file: fc.constant('others.json'),
      objects: fc.subarray([...OTHERS]),
      broken: fc.constant(false),
    }),
  },
);

describe('assembler', () => {
  it('gives the same result as assembling everything, and keeps unchanged lists', () => {
    const seen = { edits: 0, others: 0 };
    fc.assert(
      fc.property(fc.array(WRITE, { minLength: 4, maxLength: 14 }), (writes) => replay(writes, seen)),
      { numRuns: 400 },
    );
    assert.ok(seen.edits > 100 && seen.others > 100, JSON.stringify(seen));
  });
});

const LISTED = ['tiers', 'groups', 'policies', 'egressGateways', 'egressPolicies'] as const;

function replay(writes: readonly Write[], seen: { edits: number; others: number }): void {
  const next: Assembler = assembler();
  const files = new Map<string, FileContent>();
  const good = new Map<string, FileContent>();
  let lastValidVersions = NO_LAST_VALID;
  let objects: ReturnType<typeof assemble>['objects'] | null = null;
  write({ file: 'others.json', objects: OTHERS, broken: false });
  for (const one of writes) {
    write(one);
    const input = {
      contents: [...files.values()],
      lastValidVersions,
      unreadable: [],
      lastValid: (): ClusterObject | undefined => undefined,
    };
    const whole = assemble(input);
    const assembled = next(input);
    assert.deepEqual(assembled.objects, whole.objects);
    assert.deepEqual(assembled.problems, whole.problems);
    assert.deepEqual(assembled.lastValidVersions, whole.lastValidVersions);
    for (const kind of LISTED) {
      const [now, then] = [assembled.objects[kind], objects?.[kind] ?? []];
      const same = now.length === then.length && now.every((object, i) => object === then[i]);
      if (objects !== null && same) assert.equal(now, then, kind);
    }
    if (next.evaluatedAll()) seen.others++;
    else seen.edits++;
    ({ lastValidVersions, objects } = assembled);
  }

  function write({ file, objects: written, broken }: Write): void {
    if (written === null) {
      files.delete(file);
      good.delete(file);
      return;
    }
    const text = written.map((object) => JSON.stringify(object)).join('\n');
    const read = {
      bytes: Buffer.from(broken ? '{' : text === '' ? '{"apiVersion":"v1","kind":"List","items":[]}' : text),
    };
    const content = keepObjects(
      parseManifest(file, read, NO_CACHE, { egress: true }).content,
      good.get(file) ?? null,
    );
    if (!content.broken) good.set(file, content);
    files.set(file, content);
  }
}
