import assert from 'node:assert/strict';
import { filesBelow, readSource, withoutComments } from './source-file.ts';
import { isWithin } from './zones.ts';

const PRODUCT = filesBelow('.').filter(
  (path) =>
    path.endsWith('.ts') &&
    !path.endsWith('.test.ts') &&
    !['build', 'test', 'perf', 'agent/nftables-napi/test', 'agent/ipset-ts/test'].some((folder) =>
      isWithin(folder, path),
    ),
);

/** `path: name`, each with its reason. There is none; a new one needs a reason that it stays. */
const EXCEPTIONS: Readonly<Record<string, string>> = {};

/**
 * Declarations at module level of what can change: `let`, caches, and collections without a type
 * that forbids changes. The name of a type is taken for one that does. Formatting puts these at the
 * start of a line.
 */
const CHANGEABLE = String.raw`: (?:(?:Weak)?(?:Map|Set)<|Record<|Array<|(?!readonly )[^=]+\[\])[^=]*`;
const COLLECTION = String.raw`(?:new (?:Weak)?(?:Map|Set|Ref)\b|new LRUCache\b|memo\(|(?:\[\]|\{\})(?: as [^;]+)?;)`;
const STATE = new RegExp(
  String.raw`^(?:export )?(?:(?:let|var) (\w+)|const (\w+)(?:${CHANGEABLE})?\s=\s${COLLECTION})`,
  'gm',
);

function stateOf(text: string): string[] {
  return [...withoutComments(text).matchAll(STATE)].map(
    ([, variable, constant]) => variable ?? constant ?? '',
  );
}

describe('product code has no state at module level', () => {
  it('besides the named exceptions', () => {
    const found = PRODUCT.flatMap((path) => stateOf(readSource(path)).map((name) => `${path}: ${name}`));
    assert.deepEqual(found, Object.keys(EXCEPTIONS));
  });

  it('and state is found in every form', () => {
    const text = [
      'let a = 1;',
      'export let b;',
      'const c = new Map<string, number>();',
      'export const d = new WeakMap<\n  A,\n  B\n>();',
      'const e: Set<string> = new Set();',
      'const f: string[] = [];',
      'const g = memo((one: One) => two(one));',
      'const h: Record<string, A> = {};',
      "const NO_A: ReadonlySet<string> = new Set(['a']);",
      'const NO_B: readonly string[] = [];',
      'function f() {\n  const inner = new Map();\n  let other = 1;\n}',
    ].join('\n');
    assert.deepEqual(stateOf(text), ['a', 'b', 'c', 'd', 'e', 'f', 'g', 'h']);
  });
});
