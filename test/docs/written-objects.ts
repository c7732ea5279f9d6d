import { globSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { parseAllDocuments } from 'yaml';
import { asFields, type FieldMap } from '../../apis/schema/json-schema.ts';
import { EGRESS_KINDS } from '../../apis/validate/egress/kinds.ts';
import { validateObject } from '../../apis/validate/object.ts';
import { parseCases } from '../invalid/cases.ts';
import { ROOT } from '../structure/source-file.ts';
import { parseMarkdown } from './markdown.ts';

/** An object of nodewall.io as some page or file of the repository has it. */
export interface Written {
  /** Path from the repository's root; of a bad one, with its claim. */
  readonly from: string;
  readonly raw: FieldMap;
  /** Whether validate takes the object for itself. */
  readonly isValid: boolean;
}

/** Every object of our kinds in the examples, the golden cases and the pages of bad input. */
export function writtenObjects(): Written[] {
  const examples = globSync(['docs/examples/**/*.yaml', 'deploy/examples/**/*.yaml'], { cwd: ROOT });
  const pages = globSync('test/cases/*.md', { cwd: ROOT });
  const invalid = globSync('test/invalid/*.md', { cwd: ROOT }).filter((path) => !path.endsWith('README.md'));
  return [
    ...examples.flatMap((path) => objectsIn(path, readText(path))),
    ...pages.flatMap((path) => yamlFences(path).flatMap((text) => objectsIn(path, text))),
    ...invalid.flatMap((path) =>
      parseCases(readText(path)).flatMap(({ claim, input }) => objectsIn(`${path}: ${claim}`, input)),
    ),
  ];
}

function readText(path: string): string {
  return readFileSync(join(ROOT, path), 'utf8');
}

/** Fences `yaml` and `yaml FILE`: the others are no manifests. */
function yamlFences(path: string): string[] {
  const fences = parseMarkdown(path, readText(path)).flatMap((section) => section.fences);
  return fences.filter(({ info }) => /^yaml(?: \S+\/\S+)?$/.test(info)).map(({ text }) => text);
}

const KINDS: readonly unknown[] = [
  'ClusterNetworkPolicy',
  'ClusterGroup',
  'Tier',
  'Guardrail',
  ...EGRESS_KINDS,
];

function objectsIn(from: string, text: string): Written[] {
  return documents(text).flatMap((raw) => {
    const fields = asFields(raw);
    if (fields?.apiVersion !== 'nodewall.io/v1alpha1' || !KINDS.includes(fields.kind)) return [];
    return [{ from, raw: fields, isValid: validateObject(fields, { egress: true }).object !== null }];
  });
}

/** What can be read; some of the bad pages can't. */
function documents(text: string): unknown[] {
  try {
    return parseAllDocuments(text, { merge: true, logLevel: 'silent' }).flatMap((document) =>
      document.errors.length > 0 ? [] : [document.toJS()],
    );
  } catch {
    return [];
  }
}
