import assert from 'node:assert/strict';
import { filesBelow } from './source-file.ts';
import { type FunctionFacts, functionsIn } from './syntax.ts';

const PRODUCT = ['agent', 'apis', 'cli', 'controller', 'lib'];
const OWN = 'test/structure/syntax.test.ts';
const LONGEST = 100;
/** The most variables of a function that functions in it assign. */
const MOST_CAPTURED = 3;

describe('functions', function () {
  this.timeout(120_000);
  let functions: FunctionFacts[];
  let own: FunctionFacts[];

  before(() => {
    const product = PRODUCT.flatMap((folder) => filesBelow(folder)).filter(
      (path) => path.endsWith('.ts') && !isTest(path),
    );
    const all = functionsIn('tsconfig.json', [...product, OWN]);
    functions = all.filter(({ file }) => file !== OWN);
    own = all.filter(({ file }) => file === OWN);
  });

  it('are found, and measured with the functions in them', () => {
    assert.ok(functions.length > 4_000, `${functions.length}`);
    const found = own.find(({ name }) => name === example.name);
    assert.deepEqual([found?.length, found?.captured], [11, ['a', 'c', 'd', 'b', 'e']]);
  });

  it(`have at most ${LONGEST} lines`, () => {
    const long = functions.filter(({ length }) => length > LONGEST);
    assert.deepEqual(
      long.map((one) => `${where(one)} has ${one.length} lines`),
      [],
    );
  });

  it(`have at most ${MOST_CAPTURED} variables that functions in them assign; a class declares more`, () => {
    const full = functions.filter(({ captured }) => captured.length > MOST_CAPTURED);
    assert.deepEqual(
      full.map((one) => `${where(one)}: functions in it assign ${one.captured.join(', ')}`),
      [],
    );
  });
});

function isTest(path: string): boolean {
  return path.endsWith('.test.ts') || path.includes('/test/');
}

function where({ file, line, name }: FunctionFacts): string {
  return `${name} (${file}:${line})`;
}

/** Functions in it assign the first five variables. */
function example(): () => number[] {
  let [a, b, c, d, e, f] = [0, 0, 0, 0, 0, 0];
  f = 1;
  const inner = (b: number) => b++;
  return () => {
    [a, { c, x: d }] = [1, { c: 1, x: 1 }];
    b++;
    e += inner(f);
    return [a, b, c, d, e, f];
  };
}
