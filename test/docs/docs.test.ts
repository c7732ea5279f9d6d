import assert from 'node:assert/strict';
import { globSync, readFileSync, writeFileSync } from 'node:fs';
import { basename, join } from 'node:path';
import { DEFAULT_CONFIG, type FailsafeEntry } from '../../apis/config.ts';
import { parseConfig } from '../../apis/config-file.ts';
import { hosted } from '../cli/command-host.ts';
import { fencesOf } from './markdown.ts';
import {
  brokenFragments,
  brokenLinks,
  consoleCommands,
  fileNames,
  isTest,
  missingFiles,
  securityClaims,
  WIDTH,
  wideLines,
} from './page-checks.ts';

const root = join(import.meta.dirname, '..', '..');
const documents = globSync(
  ['*.md', '{docs,perf,deploy,apis,build,lib,controller,agent,cli,console,test}/**/*.md'],
  {
    cwd: root,
    exclude: ['**/node_modules/**'],
  },
).sort();
const update = process.env.NODEWALL_UPDATE_GOLDENS === '1';

describe('documents', () => {
  for (const path of documents) {
    const text = readFileSync(join(root, path), 'utf8');
    const commands = consoleCommands(path, text);
    for (const { line, args, shown } of update ? [] : commands) {
      it(`${path}:${line} shows what ${args.slice(0, 2).join(' ')} prints`, async () => {
        assert.equal(shown, await output(args), `${path}:${line}; NODEWALL_UPDATE_GOLDENS=1 rewrites it`);
      });
    }
    if (update && commands.length > 0)
      it(`${path} is rewritten`, async () => writeFileSync(join(root, path), await rewritten(path, text)));

    it(`${path} links to files that are there`, () => {
      assert.deepEqual(brokenLinks(root, path, text), []);
    });
    it(`${path} links to headings that are there`, () => {
      assert.deepEqual(brokenFragments(root, path, text), []);
    });

    if (basename(path) === 'README.md')
      it(`${path} names files that are there`, () => {
        assert.deepEqual(missingFiles(root, path, text), []);
      });
  }
});

describe('docs/security.md', () => {
  it('names a test for each claim', () => {
    const claims = securityClaims(readFileSync(join(root, 'docs/security.md'), 'utf8'));
    assert.ok(claims.length > 25, `${claims.length} rows`);
    const unheld = claims.filter(({ heldBy }) => {
      const isHeld = (link: string) =>
        link === 'limit' || isTest(link, readFileSync(join(root, 'docs', link), 'utf8'));
      return heldBy.length === 0 || !heldBy.every(isHeld);
    });
    assert.deepEqual(unheld, []);
  });
});

describe('prose', () => {
  it(`wraps at ${WIDTH} columns`, () => {
    const wide = documents
      .filter((path) => !/^(test\/(cases|invalid)|perf\/results)\//.test(path))
      .flatMap((path) => wideLines(readFileSync(join(root, path), 'utf8')).map((line) => `${path}:${line}`));
    assert.deepEqual(wide, []);
  });

  it('is what is not code, a table, a heading or one word', () => {
    const long = 'word '.repeat(30);
    const lines = [long, `# ${long}`, `| ${long}`, '```', long, '```', `- ${'x'.repeat(130)}`, `- ${long}`];
    assert.deepEqual(wideLines(lines.join('\n')), [1, 8]);
  });
});

describe('names of files', () => {
  it('are words that end in .ts, and paths in backticks', () => {
    const text =
      'docs.test.ts and `a/b.ts`, c-*.ts; [d.ts](e.ts), `f/g`, h/i, Node.js\n```\nj.ts\n```\n    k.ts\n';
    assert.deepEqual(fileNames(text), ['docs.test.ts', 'a/b.ts', 'c-*.ts', 'f/g']);
  });

  it('are searched in the folder of the page and in the root', () => {
    const missing = (text: string) => missingFiles(root, 'test/docs/README.md', text);
    assert.deepEqual(
      missing('page-checks.ts, lib/net/address.ts, *s.test.ts, `test/docs`, `kube-system/dns`'),
      [],
    );
    assert.deepEqual(missing('address.ts, net/address.ts, *.none.ts, `test/none`'), [
      'address.ts',
      'net/address.ts',
      '*.none.ts',
      'test/none',
    ]);
  });
});

describe('docs/configuration.md', () => {
  it('shows the defaults', () => {
    const text = readFileSync(join(root, 'docs', 'configuration.md'), 'utf8');
    const [yaml] = fencesOf('docs/configuration.md', text, 'yaml');
    const { config, problems } = parseConfig(yaml?.text ?? '', 'docs/configuration.md');
    assert.deepEqual(problems, []);
    // That a port is the API server's can't be written.
    const written = (entries: readonly FailsafeEntry[]) => entries.map(({ apiServer: _, ...entry }) => entry);
    const { ingress, egress } = DEFAULT_CONFIG.failsafe;
    const failsafe = { ingress: written(ingress), egress: written(egress) };
    assert.deepEqual(config, {
      ...DEFAULT_CONFIG,
      failsafe,
      featureGates: { NodeNetworkPolicy: true, EgressGateway: false },
    });
  });
});

async function output([program, ...args]: readonly string[]): Promise<string> {
  assert.equal(program, 'nodewall', 'a document shows nodewall commands only');
  const { stdout, stderr } = await hosted(...args);
  return stdout + stderr;
}

async function rewritten(path: string, text: string): Promise<string> {
  const lines = text.split('\n');
  for (const { args, span } of consoleCommands(path, text).reverse()) {
    const fresh = (await output(args)).split('\n').slice(0, -1);
    lines.splice(span[0], span[1] - span[0], ...fresh);
  }
  return lines.join('\n');
}
