import assert from 'node:assert/strict';
import { readdirSync, readFileSync } from 'node:fs';
import { Ajv } from 'ajv';
import { openApiSchema } from '../../apis/schema/crd.ts';
import type { CrdSchema } from '../../apis/schema/json-schema.ts';
import { writtenObjects } from '../../test/docs/written-objects.ts';
import { crdFiles, generatedFiles } from './generate.ts';

const KINDS = [
  ...(['ClusterNetworkPolicy', 'ClusterGroup', 'Tier', 'Guardrail'] as const),
  ...(['EgressGateway', 'EgressPolicy', 'ClusterEgressPolicy'] as const),
];

/** Every place of a schema, with its path. */
function* places(schema: CrdSchema, path = ''): Generator<[string, CrdSchema]> {
  yield [path, schema];
  for (const [name, field] of Object.entries(schema.properties ?? {})) {
    yield* places(field, path === '' ? name : `${path}.${name}`);
  }
  if (schema.items !== undefined) yield* places(schema.items, `${path}[]`);
  if (schema.additionalProperties !== undefined) yield* places(schema.additionalProperties, `${path}.*`);
}

/** Ajv's OpenAPI word `nullable` wants a type beside it, which int-or-string has not. */
function withoutNullable(schema: CrdSchema): object {
  return JSON.parse(JSON.stringify(schema), (key, value) => (key === 'nullable' ? undefined : value));
}

describe('deploy/crds', () => {
  it('equals the output of npm run generate', async () => {
    const files = await generatedFiles();
    for (const [path, text] of files) assert.equal(readFileSync(path, 'utf8'), text, 'npm run generate');
    const there = readdirSync(new URL('../../deploy/crds/', import.meta.url)).filter(
      (name) => name !== 'Kustomization',
    );
    assert.deepEqual(
      there.sort(),
      [...crdFiles().keys()].map(({ pathname }) => pathname.split('/').at(-1)).sort(),
    );
  });

  for (const kind of KINDS) {
    const schema = openApiSchema(kind);

    it(`${kind}: describes every field for kubectl explain`, () => {
      const silent = [...places(schema)].filter(
        ([path, { description }]) => path !== 'metadata' && !/(\[\]|\*)$/.test(path) && !description,
      );
      assert.deepEqual(
        silent.map(([path]) => path),
        [],
      );
    });

    it(`${kind}: is structural: has a type everywhere except for free-form fields`, () => {
      for (const [path, { type, ...place }] of places(schema)) {
        const isFree = place['x-kubernetes-int-or-string'] ?? place['x-kubernetes-preserve-unknown-fields'];
        assert.ok(type !== undefined || isFree === true, path);
      }
    });

    it(`${kind}: declares the merge of every object and list, where the API server allows it`, () => {
      for (const [path, place] of places(schema)) {
        // The root's type can't be stated beside a status subresource, that of metadata never.
        if (place.type === 'object' && path !== '' && path !== 'metadata')
          assert.match(place['x-kubernetes-map-type'] ?? '', /^(atomic|granular)$/, path);
        if (place.type === 'array')
          assert.match(place['x-kubernetes-list-type'] ?? '', /^(atomic|map)$/, path);
      }
    });

    it(`${kind}: merges no part of a rule, peer or selector`, () => {
      const granular = [...places(schema)].flatMap(([path, place]) =>
        place['x-kubernetes-map-type'] === 'granular' || place['x-kubernetes-list-type'] === 'map'
          ? [path]
          : [],
      );
      const allowed = [
        'spec',
        'status',
        'status.lastDefinitions',
        'status.conditions',
        'status.conditions[]',
      ];
      assert.deepEqual(
        granular.filter((path) => !allowed.includes(path)),
        [],
      );
    });

    it(`${kind}: accepts what validate accepts`, () => {
      const accepts = new Ajv({ strict: false, allErrors: true }).compile(withoutNullable(schema));
      const valid = writtenObjects().filter(({ raw, isValid }) => raw.kind === kind && isValid);
      assert.ok(valid.length >= 3, `${valid.length}`);
      for (const { from, raw } of valid) {
        // A broken status is no error of validate, and only controllers write one.
        const { status: _, ...object } = raw;
        assert.ok(accepts(object), `${from}: ${JSON.stringify(accepts.errors)}`);
      }
    });
  }

  it('has only defaults that change no rule', () => {
    const defaults = [...places(openApiSchema('ClusterNetworkPolicy'))].flatMap(([path, place]) =>
      place.default === undefined ? [] : [`${path}=${place.default}`],
    );
    assert.deepEqual(defaults, ['spec.tier=application', 'spec.mode=Enforce', 'spec.traffic=Host']);
  });
});
