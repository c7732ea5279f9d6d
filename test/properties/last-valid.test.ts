import assert from 'node:assert/strict';
import fc from 'fast-check';
import { identityOf } from '../../apis/validate/metadata.ts';
import { validateObject } from '../../apis/validate/object.ts';
import { compile } from '../../controller/compile/compile.ts';
import { assemble } from '../../controller/watch/assemble.ts';
import { type LastValidVersions, NO_LAST_VALID } from '../../controller/watch/last-valid-versions.ts';
import { NO_CACHE, parseManifest } from '../../controller/watch/read-file.ts';
import { scenario } from '../generate/scenario.ts';
import { toClusterObjects } from './pipeline.ts';
import { check } from './runs.ts';

/**
 * Few names, so that objects name each other, and both API groups have the same ones; some are
 * invalid by themselves.
 */
interface Written {
  readonly apiVersion: string;
  readonly kind: string;
  readonly metadata: { readonly name: string };
  readonly spec: object;
}

/**
 * A file gets an object, in place of the same one wherever that is; or all that it holds is deleted
 * (null).
 */
interface Edit {
  readonly file: string;
  readonly object: Written | null;
  /** Also where another file has it already: then it is there twice. */
  readonly twice: boolean;
}

const GROUP = fc.constantFrom('a', 'b', 'c');
const groupSpec = fc.oneof(
  fc.constantFrom<object>({ nodeSelector: {} }, { podSelector: {} }, { ipBlocks: [{ cidr: '10.0.0.0/8' }] }),
  fc.constantFrom<object>({}, { ipBlocks: [{ cidr: 'x' }] }),
  fc.array(GROUP, { minLength: 1, maxLength: 2 }).map((childGroups) => ({ childGroups })),
);
const policySpec = fc.record({
  priority: fc.constantFrom(1, 2, 3, 0),
  tier: fc.constantFrom('t', 'u', 'baseline', 'platform'),
  appliedTo: fc
    .oneof(
      fc.constant({ nodeSelector: {} }),
      GROUP.map((group) => ({ group })),
    )
    .map((item) => [item]),
  ingress: fc
    .array(GROUP, { maxLength: 2 })
    .map((groups) => [{ action: 'Drop', from: groups.map((group) => ({ group })), ports: [{ port: 1 }] }]),
});

function written(
  kind: string,
  name: fc.Arbitrary<string>,
  spec: fc.Arbitrary<object>,
): fc.Arbitrary<Written> {
  return fc.record({
    apiVersion: fc.constantFrom('nodewall.io/v1alpha1', 'nodewall.io/v1alpha1', 'crd.antrea.io/v1beta1'),
    kind: fc.constant(kind),
    metadata: name.map((text) => ({ name: text })),
    spec,
  });
}

const OBJECT = fc.oneof(
  written('ClusterGroup', GROUP, groupSpec),
  written('ClusterNetworkPolicy', fc.constantFrom('p', 'q'), policySpec),
  written(
    'Tier',
    fc.constantFrom('t', 'u'),
    fc.constantFrom(5, 6, 300).map((priority) => ({ priority })),
  ),
);
const EDIT = fc.record({
  file: fc.constantFrom('a.yaml', 'b.yaml', 'c.yaml'),
  object: fc.option(OBJECT, { freq: 15 }),
  twice: fc.nat(9).map((drawn) => drawn === 0),
});
/** What happens between two looks at the files, some times over. */
const HISTORY = fc.array(fc.array(EDIT, { minLength: 1, maxLength: 6 }), { minLength: 2, maxLength: 10 });

describe('last valid versions', function () {
  this.timeout(0);

  it('are consistent, and no policy in a file is removed', function () {
    let kept = 0;
    check(
      this,
      400,
      HISTORY,
      (history) => {
        const files: Files = new Map();
        let lastValidVersions: LastValidVersions = NO_LAST_VALID;
        let before: string[] = [];
        for (const edits of history) {
          for (const edit of edits) write(files, edit);
          const contents = [...files].map(([file, objects]) => contentOf(file, objects));
          const now = assemble({ contents, lastValidVersions, unreadable: [], lastValid: () => undefined });
          compile(now.objects);
          const inForce = new Set(now.objects.policies.map(identityOf));
          const held = new Set([...files.values()].flat().map(identity));
          // One of Antrea that is for pods now is not ours any more.
          const notOurs = now.problems
            .filter(({ severity }) => severity === 'notice')
            .map(({ name }) => name);
          for (const one of before) {
            if (!held.has(one) || notOurs.some((name) => one.endsWith(`|${name}`))) continue;
            assert.ok(inForce.has(one), `${one} is out of force: ${JSON.stringify([...files])}`);
            kept++;
          }
          ({ lastValidVersions } = now);
          before = [...inForce];
        }
      },
      () => (kept < 100 ? [`${kept} kept`] : []),
    );
  });
});

type Files = Map<string, Written[]>;

function write(files: Files, { file, object, twice }: Edit): void {
  const objects = files.get(file) ?? [];
  files.set(file, objects);
  if (object === null) objects.length = 0;
  else {
    const same = (other: Written): boolean => identity(other) === identity(object);
    const place = twice ? undefined : [...files.values()].find((list) => list.some(same));
    if (place === undefined) objects.push(object);
    else place[place.findIndex(same)] = object;
  }
}

/** As identityOf writes it. */
function identity({ apiVersion, kind, metadata }: Written): string {
  return `${kind}|${apiVersion.split('/')[0]}||${metadata.name}`;
}

function contentOf(file: string, objects: readonly Written[]) {
  const text = `# ours\n${objects.map((object) => `---\n${JSON.stringify(object)}\n`).join('')}`;
  return parseManifest(file, { bytes: Buffer.from(text) }, NO_CACHE, {}).content;
}

describe('the spec of a policy that is valid', function () {
  this.timeout(0);

  it('is the same policy after it is written as JSON and read', function () {
    check(this, 100, scenario({ size: 20, flows: 0 }), ({ objects }) => {
      for (const policy of toClusterObjects(objects).policies) {
        const { apiGroup, kind, name, uid, generation, spec } = policy;
        const apiVersion = apiGroup === 'nodewall.io' ? 'nodewall.io/v1alpha1' : 'crd.antrea.io/v1beta1';
        const metadata = { name, uid, generation };
        const written = JSON.parse(JSON.stringify({ apiVersion, kind, metadata, spec }));
        assert.deepEqual(validateObject(written).object, policy);
      }
    });
  });
});
