import { Document, isMap } from 'yaml';
import type { Problem } from '../apis/objects.ts';
import { asFields } from '../apis/schema/json-schema.ts';
import { fileText, findings, formatPath, hasError } from '../apis/validate/problem.ts';
import { readRawObjects } from '../controller/watch/manifests.ts';
import { EXIT, type ExitStatus } from '../lib/process/exit.ts';
import { printable } from '../lib/sharing/safe-text.ts';
import { printProblems } from './load.ts';
import { SPIDERNET } from './migrate/spidernet.ts';
import type { Given, SourceSystem, Translated } from './migrate/translation.ts';
import { json, print } from './output.ts';

const SYSTEMS: readonly SourceSystem[] = [SPIDERNET];

interface MigrateOptions {
  readonly manifests: readonly string[];
  readonly output: 'yaml' | 'json';
}

/**
 * `nodewall migrate`: objects of other systems as objects of nodewall.io, and on standard error
 * what has no equal. Exit status 1 if an object cannot be translated; the others are printed.
 */
export async function migrateCommand({ manifests, output }: MigrateOptions): Promise<ExitStatus> {
  const read = await readRawObjects(manifests);
  const given = read.objects.map((object): Given => ({ ...object, found: findings() }));
  const translated = SYSTEMS.flatMap(({ group, translate }) => {
    const { own = [], others = [] } = Object.groupBy(given, (one) =>
      groupOf(one) === group ? 'own' : 'others',
    );
    return translate(own, others);
  });
  const problems = [...read.problems, ...given.flatMap(toProblems)];
  if (output === 'yaml') await print(translated.map(toYaml).join('---\n'));
  else {
    const items = translated.map(({ manifest }) => manifest);
    await print(json({ apiVersion: 'v1', kind: 'List', items, problems }));
  }
  printProblems(problems, '');
  const own = given.filter((one) => SYSTEMS.some(({ group }) => group === groupOf(one)));
  process.stderr.write(`${summary(own.length, translated.length, problems)}\n`);
  return hasError(problems) ? EXIT.invalid : EXIT.done;
}

function groupOf({ raw: { apiVersion } }: Given): string {
  return typeof apiVersion === 'string' ? (apiVersion.split('/', 1)[0] ?? '') : '';
}

/** Kind and name as they are written, with the namespace. */
function identityOf({ raw: { kind, metadata } }: Given): { readonly kind: string; readonly name: string } {
  const { name, namespace } = asFields(metadata) ?? {};
  const parts = [namespace, name].filter((part) => typeof part === 'string' && part !== '');
  return { kind: typeof kind === 'string' ? kind : '', name: parts.join('/') };
}

function toProblems(given: Given): Problem[] {
  const { file, lineOf, found } = given;
  const { kind, name } = identityOf(given);
  return found.problems.map(({ severity, path, message }) => {
    return { severity, file, line: lineOf(path), kind, name, path: formatPath(path), message };
  });
}

/** With the object that it comes from as a comment. */
function toYaml({ manifest, from }: Translated): string {
  const { kind, name } = identityOf(from);
  const document = new Document(manifest, { aliasDuplicateObjects: false });
  const metadata = document.get('metadata');
  if (isMap(metadata)) metadata.flow = true;
  const text = document.toString({ lineWidth: 110, flowCollectionPadding: false });
  return `${printable(`# ${kind}/${name}, ${fileText(from.file)}:${from.lineOf([])}`)}\n${text}`;
}

function summary(own: number, translated: number, problems: readonly Problem[]): string {
  if (own === 0) {
    const groups = SYSTEMS.map(({ group }) => group).join(', ');
    return `nothing to translate: no object is of ${groups}`;
  }
  const of = (severity: Problem['severity']) => problems.filter((one) => one.severity === severity).length;
  const counts = `${of('error')} errors, ${of('warning')} warnings, ${of('notice')} notices`;
  return `objects: ${own} read, ${translated} printed; ${counts}`;
}
