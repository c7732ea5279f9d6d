import assert from 'node:assert/strict';
import Ajv from 'ajv';
import fc from 'fast-check';
import { stringify } from 'yaml';
import { EGRESS_GATEWAY_SCHEMA } from '../../apis/schema/egress-gateway.ts';
import { CLUSTER_EGRESS_POLICY_SCHEMA, EGRESS_POLICY_SCHEMA } from '../../apis/schema/egress-policy.ts';
import { asFields, checkSchema, type JsonSchema } from '../../apis/schema/json-schema.ts';
import { CLUSTER_GROUP_SCHEMA } from '../../apis/validate/group.ts';
import { validateObject } from '../../apis/validate/object.ts';
import { CLUSTER_NETWORK_POLICY_SCHEMA } from '../../apis/validate/policy.ts';
import { findings, formatProblem, hasError } from '../../apis/validate/problem.ts';
import { TIER_SCHEMA } from '../../apis/validate/tier.ts';
import { SPIDERNET } from '../../cli/migrate/spidernet.ts';
import { assemble } from '../../controller/watch/assemble.ts';
import { checkBytes } from '../../controller/watch/files.ts';
import { NO_LAST_VALID } from '../../controller/watch/last-valid-versions.ts';
import { NO_CACHE, parseManifest } from '../../controller/watch/read-file.ts';
import type { LoadProblem } from '../../controller/watch/source.ts';
import { cases } from '../properties/runs.ts';
import { checkEgressInvariants, checkInvariants } from './invariants.ts';
import { EGRESS_SEED, SEED, SPIDERNET_SEED } from './seed.ts';

const YAML = SEED.map((object) => stringify(object)).join('---\n');
const JSON_TEXT = JSON.stringify({ apiVersion: 'v1', kind: 'List', items: SEED }, null, 1);

/** No input of this size may take longer (milliseconds of CPU; they take 1 to 20). */
const LONGEST = 2000;

interface Outcome {
  readonly objects: Parameters<typeof checkInvariants>[0];
  readonly problems: readonly LoadProblem[];
}

/** Reads as an agent would, and holds the result to what is promised of any. */
function read(name: string, bytes: Buffer): Outcome {
  const start = process.cpuUsage();
  const { content } = parseManifest(name, checkBytes(bytes), NO_CACHE, { egress: true });
  const outcome = assemble({
    contents: [content],
    lastValidVersions: NO_LAST_VALID,
    unreadable: [],
    lastValid: () => undefined,
  });
  const took = process.cpuUsage(start).user / 1000;
  assert.ok(took < LONGEST, `took ${took} ms`);
  checkInvariants(outcome.objects);
  checkEgressInvariants(outcome.objects);
  for (const problem of outcome.problems) {
    const line = formatProblem(problem);
    assert.ok(problem.message !== '', line);
    assert.ok(problem.line >= 1 || /UTF|is empty/.test(problem.message), line);
    assert.doesNotMatch(line, /\p{Cc}/u);
    assert.ok(line.length < 2000, line);
  }
  return outcome;
}

const names = fc.constantFrom('a.yaml', 'a.json');
const isEmpty = ({ objects }: Outcome): boolean => Object.values(objects).every((list) => list.length === 0);

/** Words that mean something to YAML, JSON or a policy. */
const word = fc.constantFrom(
  ...[
    '- ',
    '? ',
    ': ',
    ':',
    '\n',
    '\n  ',
    '\n    ',
    '  ',
    '---\n',
    '...\n',
    '#',
    '|\n',
    '>-\n',
    '"',
    "'",
    '{',
    '}',
    '[',
    ']',
    ',',
  ],
  ...[
    '&a ',
    '*a',
    '<<: *a',
    '!!str ',
    '!x ',
    '%YAML 1.1\n',
    '\t',
    '\r\n',
    '\ufeff',
    '\\',
    '~',
    'null',
    '.nan',
    '0x1F',
    '1e999',
  ],
  ...[
    'apiVersion: nodewall.io/v1alpha1',
    'kind: Tier',
    'kind: List',
    'items:',
    'spec:',
    'metadata:',
    'name: a',
    'priority: 1',
  ],
);

/** What may stand in place of a value. */
const oddValue = fc.oneof(
  fc.constantFrom<unknown>(
    null,
    true,
    0,
    -1,
    65536,
    1e308,
    0.5,
    '',
    'x',
    '::1/129',
    '10.0.0.1/8',
    [],
    {},
    [null],
    [[]],
    [{}],
  ),
  fc.constantFrom<unknown>(
    '__proto__',
    'constructor',
    'Pass',
    'Audit',
    'NodePort',
    'baseline',
    'all',
    'web',
    '*.*.com',
    'In',
    'kube-system',
    '224.0.0.1',
    'a\nb',
    '\ud800',
    '０',
  ),
  // Not fast-check's `binary`, which makes a table of all characters: seconds.
  fc.string({ unit: fc.nat(0x10ffff).map((code) => String.fromCodePoint(code)), maxLength: 20 }),
  fc.jsonValue({ maxDepth: 3 }) as fc.Arbitrary<unknown>,
);

/** Where to change an object (fractions choose the way down), how, and to what. */
const mutation = fc.record({
  way: fc.array(fc.nat(50), { minLength: 1, maxLength: 9 }),
  how: fc.constantFrom('replace', 'remove', 'rename', 'copy'),
  value: oddValue,
  key: fc.constantFrom(
    '__proto__',
    'endport',
    'group',
    'fqdn',
    'childGroups',
    'interfaceGroup',
    'scope',
    'nodeSelector',
    'podSelector',
    'x',
    '',
    'port',
    'name',
  ),
});
type Mutation = typeof mutation extends fc.Arbitrary<infer T> ? T : never;

function mutate(root: unknown, { way, how, value, key }: Mutation): void {
  let at = root as Record<string, unknown>;
  for (const [index, step] of way.entries()) {
    const keys = Object.keys(at);
    const name = keys[step % Math.max(1, keys.length)];
    if (name === undefined) return;
    const next = at[name];
    if (index < way.length - 1 && typeof next === 'object' && next !== null) {
      at = next as Record<string, unknown>;
      continue;
    }
    const list: unknown[] | null = Array.isArray(at) ? at : null;
    if (how === 'replace') at[name] = value;
    else if (how === 'copy') list?.push(structuredClone(next));
    else if (list === null) {
      delete at[name];
      // Defined, since assigning to __proto__ makes no field of that name.
      const field = { value: next, enumerable: true, configurable: true, writable: true };
      if (how === 'rename') Object.defineProperty(at, key, field);
    }
    return;
  }
}

function spoilt(mutations: readonly Mutation[], seed = SEED): unknown[] {
  const objects = structuredClone([...seed]);
  for (const each of mutations) mutate(objects, each);
  return objects;
}

describe('fuzzing of manifests', function () {
  this.timeout(0);
  // mocha makes it infinite; the YAML parser makes an Error per mistake, at any depth.
  const { stackTraceLimit } = Error;
  before(() => {
    Error.stackTraceLimit = 10;
  });
  after(() => {
    Error.stackTraceLimit = stackTraceLimit;
  });

  it('handles the unchanged seed', () => {
    for (const outcome of [read('a.yaml', Buffer.from(YAML)), read('a.json', Buffer.from(JSON_TEXT))]) {
      // The one about SSH.
      assert.deepEqual(
        outcome.problems.map(({ severity }) => severity),
        ['warning'],
      );
      const counts = Object.values(outcome.objects).map((list) => list.length);
      assert.deepEqual(counts, [1, 1, 1, 1, 1, 5, 1, 4, 0, 0, 0, 0]);
    }
  });

  it('bytes', () => {
    const property = fc.property(names, fc.uint8Array({ maxLength: 300 }), (name, bytes) => {
      const outcome = read(name, Buffer.from(bytes));
      assert.ok(isEmpty(outcome));
    });
    fc.assert(property, { numRuns: cases(2000) });
  });

  it('words', () => {
    const property = fc.property(
      names,
      fc.array(fc.oneof(word, fc.string({ maxLength: 5 })), { maxLength: 60 }),
      (name, words) => {
        read(name, Buffer.from(words.join('')));
      },
    );
    fc.assert(property, { numRuns: cases(4000) });
  });

  it('one word many times', () => {
    const property = fc.property(fc.array(word, { minLength: 1, maxLength: 3 }), (words) => {
      read('a.yaml', Buffer.from(words.join('').repeat(2000)));
    });
    fc.assert(property, { numRuns: cases(150) });
  });

  it('text of valid manifests with pieces cut, doubled and put in', () => {
    const piece = fc.record({ at: fc.nat(1e6), length: fc.nat(40), put: fc.option(word, { nil: null }) });
    const property = fc.property(names, fc.array(piece, { minLength: 1, maxLength: 4 }), (name, pieces) => {
      let text = name === 'a.yaml' ? YAML : JSON_TEXT;
      for (const { at, length, put } of pieces) {
        const start = at % text.length;
        const cut = text.slice(start, start + length);
        text = text.slice(0, start) + (put ?? cut + cut) + text.slice(start + length);
      }
      const outcome = read(name, Buffer.from(text));
      assert.ok(!isEmpty(outcome) || outcome.problems.length > 0);
    });
    fc.assert(property, { numRuns: cases(800) });
  });

  it('handles the unchanged seed of egress gateways', () => {
    const text = EGRESS_SEED.map((object) => stringify(object)).join('---\n');
    const { objects, problems } = read('a.yaml', Buffer.from(text));
    assert.deepEqual(problems, []);
    const { pods, egressGateways, egressPolicies, insideNetworks } = objects;
    const counts = [pods, egressGateways, egressPolicies, insideNetworks].map((list) => list.length);
    assert.deepEqual(counts, [1, 2, 2, 2]);
  });

  for (const [kinds, seed, count] of [
    ['policies of Nodes', SEED, 800],
    ['egress gateways', EGRESS_SEED, 400],
  ] as const)
    it(`fields of ${kinds} replaced, removed, renamed and copied; YAML and JSON say the same`, () => {
      const property = fc.property(fc.array(mutation, { minLength: 1, maxLength: 4 }), (mutations) => {
        const objects = spoilt(mutations, seed);
        const json = read(
          'a.json',
          Buffer.from(JSON.stringify({ apiVersion: 'v1', kind: 'List', items: objects })),
        );
        const text = objects.map((object) => JSON.stringify(object)).join('\n---\n');
        const yaml = read('a.yaml', Buffer.from(text));
        assert.ok(!isEmpty(json) || json.problems.length > 0);
        assert.deepEqual(json.objects, yaml.objects);
      });
      fc.assert(property, { numRuns: cases(count) });
    });

  it('of egressgateway becomes valid objects, or an error that names the object', () => {
    let printed = 0;
    const property = fc.property(fc.array(mutation, { maxLength: 3 }), (mutations) => {
      const given = spoilt(mutations, SPIDERNET_SEED).flatMap((object) => {
        const raw = asFields(object);
        return raw === null ? [] : [{ raw, file: 'a.yaml', lineOf: () => 1, found: findings() }];
      });
      const translated = SPIDERNET.translate(given, []);
      for (const { manifest } of translated) {
        const { problems } = validateObject(manifest, { egress: true });
        assert.ok(!hasError(problems), JSON.stringify([manifest, problems]));
      }
      const gone = given.filter((one) => translated.every(({ from }) => from.found !== one.found));
      for (const { found, raw } of gone) assert.ok(found.problems.length > 0, JSON.stringify(raw));
      printed += translated.length;
    });
    fc.assert(property, { numRuns: cases(2000) });
    assert.ok(printed > cases(200), `${printed}`);
  });

  it('the schema gives the same results in Ajv', () => {
    const ajv = new Ajv.Ajv({ allErrors: true, strict: false });
    const kinds = {
      ClusterNetworkPolicy: CLUSTER_NETWORK_POLICY_SCHEMA,
      ClusterGroup: CLUSTER_GROUP_SCHEMA,
      Tier: TIER_SCHEMA,
      EgressGateway: EGRESS_GATEWAY_SCHEMA,
      EgressPolicy: EGRESS_POLICY_SCHEMA,
      ClusterEgressPolicy: CLUSTER_EGRESS_POLICY_SCHEMA,
    };
    const validators = Object.entries(kinds).map(([kind, schema]) => ({
      kind,
      schema,
      validate: ajv.compile(toAjv(schema)),
    }));
    let invalid = 0;
    const property = fc.property(fc.array(mutation, { minLength: 1, maxLength: 3 }), (mutations) => {
      for (const object of [...spoilt(mutations), ...spoilt(mutations, EGRESS_SEED)]) {
        for (const { kind, schema, validate } of validators) {
          if (asFields(object)?.kind !== kind) continue;
          const problems = checkSchema(schema, object).map(({ path }) => path.join('/'));
          const agreed = validate(object) === (problems.length === 0);
          assert.ok(agreed, `${problems} ${JSON.stringify(validate.errors)}`);
          if (problems.length > 0) invalid++;
        }
      }
    });
    fc.assert(property, { numRuns: cases(2000) });
    assert.ok(invalid > cases(200), `${invalid} of them were invalid`);
  });
});

/** The schema in JSON Schema's own words: objects with `properties` are closed. */
function toAjv(schema: JsonSchema): object {
  const { properties, additionalProperties, items, ...rest } = schema;
  const open = schema['x-kubernetes-preserve-unknown-fields'] === true || properties === undefined;
  return {
    ...rest,
    ...(schema['x-kubernetes-int-or-string'] === true ? { type: ['integer', 'string'] } : {}),
    ...(properties === undefined
      ? {}
      : {
          properties: Object.fromEntries(
            Object.entries(properties).map(([name, field]) => [name, toAjv(field)]),
          ),
        }),
    ...(additionalProperties === undefined ? (open ? {} : { additionalProperties: false }) : {}),
    ...(additionalProperties === undefined ? {} : { additionalProperties: toAjv(additionalProperties) }),
    ...(items === undefined ? {} : { items: toAjv(items) }),
  };
}
