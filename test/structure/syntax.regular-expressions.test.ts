import assert from 'node:assert/strict';
import { analyse } from 'scslre';
import { parseAllDocuments } from 'yaml';
import { filesBelow, readSource } from './source-file.ts';
import { type ExpressionFacts, expressionsIn } from './syntax.ts';

const PRODUCT = ['agent', 'apis', 'cli', 'controller', 'lib'];

/**
 * Those that the checker takes for quadratic, and why that does no harm. What others send, or write
 * in files, has no place here: mend the expression.
 */
const QUADRATIC: Readonly<Record<string, string>> = {
  'controller/console/static-files.ts /-[A-Za-z0-9_-]{8,}\\.[a-z]+$/': 'names of the files of the console',
};

/** Expressions that are made while the program runs: as they come out, or why they are harmless. */
const MADE: Readonly<Record<string, readonly RegExp[] | string>> = {
  'agent/apply/iptables/planned.ts': [/ ?-[jg] NODEWALL-\S*$/],
  'agent/apply/iptables/saved.ts': [/ -[jg] (NODEWALL-\S*)/],
  'agent/interfaces/classify.ts': 'patterns of the configuration, for names of 15 characters at most',
  'apis/schema/json-schema.ts': 'patterns of schemas, which are checked as such',
  'apis/validate/names.ts': 'the same as patterns of the CustomResourceDefinitions',
  'controller/console/static-files.ts': [/(^|[\s,])br(?!\s*;\s*q=0(\.0*)?\s*(,|$))/],
};

describe('regular expressions', function () {
  this.timeout(120_000);
  let expressions: ExpressionFacts[];

  before(() => {
    const sources = (folders: readonly string[]): string[] =>
      folders
        .flatMap((folder) => filesBelow(folder))
        .filter((path) => path.endsWith('.ts') && !path.endsWith('.test.ts') && !path.includes('/test/'));
    const ofConsole = sources(['console']).filter((path) => path !== 'console/bundle.ts');
    expressions = [
      ...expressionsIn('tsconfig.json', [...sources(PRODUCT), 'console/bundle.ts']),
      ...expressionsIn('console/tsconfig.json', ofConsole),
    ];
  });

  it('are found', () => {
    assert.ok(expressions.length > 300, `${expressions.length}`);
    assert.ok(expressions.some(({ file }) => file.startsWith('console/pages/')));
    const made = expressions.filter(({ pattern }) => pattern === null).map(({ file }) => file);
    assert.deepEqual([...new Set(made)].sort(), Object.keys(MADE));
  });

  it('need no exponential time on any text, nor quadratic time on what others write', () => {
    const patterns = [
      ...expressions.flatMap(({ file, line, pattern }) =>
        pattern === null ? [] : [{ file, line, pattern }],
      ),
      ...definitionPatterns(),
      ...Object.entries(MADE).flatMap(([file, made]) =>
        typeof made === 'string' ? [] : made.map((pattern) => ({ file, line: 0, pattern })),
      ),
    ];
    const slow = patterns.filter(({ pattern }) => slowness(pattern) !== null);
    const known = slow.filter(({ file, pattern }) => Object.hasOwn(QUADRATIC, `${file} ${pattern}`));
    assert.deepEqual(
      slow
        .filter((one) => !known.includes(one) || slowness(one.pattern) === 'exponential')
        .map(({ file, line, pattern }) => `${file}:${line}: ${pattern} is ${slowness(pattern)}`),
      [],
    );
    assert.equal(known.length, Object.keys(QUADRATIC).length, 'an exception that is not needed any more');
  });

  it('that are slow are told from others', () => {
    assert.equal(slowness(/^(%[^\n]*\n|#[^\n]*\n|\s*\n)*$/), 'exponential');
    assert.equal(slowness(/^(a+)+$/), 'exponential');
    assert.equal(slowness(/\s+$/), 'quadratic');
    assert.equal(slowness(/^\s*\w*\s*$/), 'quadratic');
    assert.equal(slowness(/^(?:a|b)*$/), null);
  });
});

/** Null: no slower than its text is long. */
function slowness(pattern: RegExp): 'exponential' | 'quadratic' | null {
  const { reports } = analyse(pattern);
  if (reports.length === 0) return null;
  return reports.some(({ exponential }) => exponential) ? 'exponential' : 'quadratic';
}

/** Patterns of CustomResourceDefinitions; `validate` uses the same expressions. */
function definitionPatterns(): { file: string; line: number; pattern: RegExp }[] {
  const found = new Map<string, { file: string; line: number; pattern: RegExp }>();
  const visit = (file: string, value: unknown): void => {
    if (typeof value !== 'object' || value === null) return;
    const { pattern } = value as { pattern?: unknown };
    if (typeof pattern === 'string') found.set(pattern, { file, line: 0, pattern: new RegExp(pattern, 'u') });
    for (const part of Object.values(value)) visit(file, part);
  };
  for (const file of filesBelow('deploy/crds'))
    for (const document of parseAllDocuments(readSource(file))) visit(file, document.toJS());
  return [...found.values()];
}
