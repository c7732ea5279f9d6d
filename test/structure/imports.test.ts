import assert from 'node:assert/strict';
import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { filesBelow, importsOf, ROOT, readSource, specifiers, withoutComments } from './source-file.ts';
import { isWithin, refusal, WORKSPACES, ZONES } from './zones.ts';

const SOURCES = filesBelow('.').filter((path) => path.endsWith('.ts'));

/**
 * Pure and synchronous: no clock, no environment, no logger, no I/O. What they import counts with
 * them.
 */
const PURE = ['controller/index', 'controller/compile', 'agent/render', 'agent/observe'];
/** Builtin modules that only compute. */
const PURE_BUILTINS = ['node:net', 'node:crypto'];
const PURE_PACKAGES = ['ipaddr.js'];
const IMPURE =
  /\b(process|performance|setTimeout|setInterval|setImmediate|queueMicrotask|fetch)\b|\bDate\b|\bMath\.random\b|\bawait\b/;

describe('imports', () => {
  it('are found in every form', () => {
    const text = [
      "import a from 'a';",
      "import type { B } from './b.ts';",
      "import './side.ts';",
      'import {\n  c,\n  d,\n} from "./cd.ts";',
      "export { e } from './e.ts';",
      "export * from './f.ts';",
      "const g = await import('./zones.ts');",
      "const h = require('h');",
      'const i = await import(name);',
      "// import j from 'j'",
      "/* import k from 'k' */",
      "const l = 'import m from';",
      "export const url = 'http://n'; // import('o')",
    ].join('\n');
    const found = ['a', './b.ts', './side.ts', './cd.ts', './e.ts', './f.ts', './zones.ts', 'h', null];
    assert.deepEqual(specifiers(text), found);
  });

  it('follow the rules of zones.ts', () => {
    const wrong = SOURCES.flatMap((path) =>
      ownImports(path).flatMap((target) => {
        const why = refusal(path, target);
        return why === null ? [] : [`${path} imports ${target}: ${why}`];
      }),
    );
    assert.deepEqual(wrong, []);
  });

  it('are rejected against the rules of zones.ts', () => {
    const pairs = [
      ['apis/a.ts', 'controller/compile/compile.ts'],
      ['controller/a.ts', 'agent/render/render.ts'],
      ['agent/a.ts', 'controller/compile/compile.ts'],
      ['agent/a.ts', 'test/netns/namespace.ts'],
      ['agent/ipset-ts/a.ts', 'agent/nftables-napi/lib/index.ts'],
      ['agent/ipset-ts/a.ts', 'test/netns/namespace.ts'],
      ['agent/nftables-napi/a.ts', 'lib/sharing/hash.ts'],
      ['agent/nftables-napi/a.ts', 'agent/render/render.ts'],
      ['cli/a.ts', 'test/netns/namespace.ts'],
      ['cli/a.ts', 'perf/a.ts'],
      ['cli/a.ts', 'build/programs/folder.ts'],
      ['build/a.ts', 'test/kernel/until.ts'],
      ['test/oracle/a.ts', 'lib/net/address.ts'],
      ['other/a.ts', 'lib/sharing/hash.ts'],
    ] as const;
    for (const [from, to] of pairs) assert.ok(refusal(from, to) !== null, `${from} to ${to}`);
  });

  it('are all static', () => {
    const wrong = SOURCES.filter(
      (path) =>
        !['build', 'test'].some((folder) => isWithin(folder, path)) &&
        importsOf(path, readSource(path)).includes(null),
    );
    // The addon's own loader names the built file.
    assert.deepEqual(
      wrong.filter((path) => !isWithin('agent/nftables-napi', path)),
      [],
    );
  });

  it('name existing files', () => {
    const missing = SOURCES.flatMap((path) =>
      ownImports(path).flatMap((target) =>
        existsSync(join(ROOT, target)) || isWithin('agent/nftables-napi/build', target)
          ? []
          : [`${path}: ${target}`],
      ),
    );
    assert.deepEqual(missing, []);
  });

  it('use no clock, environment, timer or file in a pure folder', () => {
    const wrong: string[] = [];
    for (const path of reachable(
      SOURCES.filter((source) => PURE.some((folder) => isWithin(folder, source))),
    )) {
      const text = readSource(path);
      for (const target of importsOf(path, text)) {
        const isFile = target !== null && existsSync(join(ROOT, target));
        const known = target !== null && [...PURE_BUILTINS, ...PURE_PACKAGES].includes(target);
        if (!isFile && !known) wrong.push(`${path} imports ${target}`);
      }
      const [use] = IMPURE.exec(withoutStrings(withoutComments(text))) ?? [];
      if (use !== undefined) wrong.push(`${path} uses ${use}`);
    }
    assert.deepEqual(wrong, []);
  });

  it('load nothing that compiles egress into the processes beside the controller', () => {
    const compiler = 'controller/egress/compile-egress.ts';
    assert.ok(loadedBy('controller/run/controller.ts').includes(compiler));
    const children = SOURCES.filter((path) => /^controller\/.*-child\.ts$/.test(path));
    assert.equal(children.length, 4, children.join());
    assert.deepEqual(
      children.filter((path) => loadedBy(path).includes(compiler)),
      [],
    );
  });

  it('form no cycles, type imports included', () => {
    const known = new Set(SOURCES);
    const state = new Map<string, 'open' | 'done'>();
    const circles: string[] = [];
    const visit = (path: string, trail: readonly string[]): void => {
      if (state.get(path) === 'done') return;
      if (state.get(path) === 'open')
        return void circles.push([...trail.slice(trail.indexOf(path)), path].join(' > '));
      state.set(path, 'open');
      for (const target of ownImports(path)) if (known.has(target)) visit(target, [...trail, path]);
      state.set(path, 'done');
    };
    for (const path of SOURCES) visit(path, []);
    assert.deepEqual(circles, []);
  });

  it('have a rule for every folder with code', () => {
    const folders = new Set(SOURCES.filter((path) => path.includes('/')).map((path) => path.split('/')[0]));
    const known = ZONES.map(({ folder }) => folder.split('/')[0]);
    assert.deepEqual(
      [...folders].filter((folder) => !known.includes(folder)),
      [],
    );
  });
});

/** Files of the repository that a file imports, workspaces by their folder. */
function ownImports(path: string, text = readSource(path)): string[] {
  return importsOf(path, text).flatMap((target) => {
    if (target === null) return [];
    const workspace = WORKSPACES[target];
    if (workspace !== undefined) return isWithin(workspace, path) ? [] : [workspace];
    return target.includes('/') && !/^(@|node:)/.test(target) ? [target] : [];
  });
}

/** The files, and what they import, without tests. */
function reachable(paths: readonly string[], read = readSource): string[] {
  const found = new Set(paths.filter((path) => !path.endsWith('.test.ts')));
  for (const path of found) {
    for (const target of ownImports(path, read(path))) if (target.endsWith('.ts')) found.add(target);
  }
  return [...found].sort();
}

/** What a process loads that starts with a file: imports of types are gone then. */
function loadedBy(path: string): string[] {
  return reachable([path], (file) => readSource(file).replaceAll(/^(import|export) type\s[^;]*;/gm, ''));
}

function withoutStrings(text: string): string {
  return text.replaceAll(/'[^'\n]*'|"[^"\n]*"|`[^`]*`/g, "''");
}
