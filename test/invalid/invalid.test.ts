import assert from 'node:assert/strict';
import { readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { displayName } from '../../apis/validate/metadata.ts';
import { formatProblem } from '../../apis/validate/problem.ts';
import { assemble } from '../../controller/watch/assemble.ts';
import { checkBytes } from '../../controller/watch/files.ts';
import { NO_LAST_VALID } from '../../controller/watch/last-valid-versions.ts';
import { NO_CACHE, parseManifest } from '../../controller/watch/read-file.ts';
import { type InvalidCase, parseCases, replaceProblems } from './cases.ts';

const folder = new URL('.', import.meta.url);
const pages = readdirSync(folder).filter((name) => name.endsWith('.md') && name !== 'README.md');

/** What validate says of the case, one line per problem, without the file. */
function problemsOf({ language, input }: InvalidCase): string[] {
  const name = language === 'json' ? 'case.json' : 'case.yaml';
  const { content } = parseManifest(name, checkBytes(Buffer.from(input)), NO_CACHE, { egress: true });
  const { problems, objects } = assemble({
    contents: [content],
    lastValidVersions: NO_LAST_VALID,
    unreadable: [],
    lastValid: () => undefined,
  });
  const rejected = problems.some(({ severity }) => severity === 'error');
  const { policies, groups, tiers, egressGateways, egressPolicies, insideNetworks } = objects;
  const all = [policies, groups, tiers, egressGateways, egressPolicies, insideNetworks];
  const taken = all.flatMap((list) => list.map(displayName));
  // What was taken beside a problem is part of the claim; that nothing was goes without saying.
  const beside = taken.length === 0 || !rejected ? [] : [`taken: ${taken.join(', ')}`];
  return [...problems.map((problem) => formatProblem({ ...problem, file: '' })), ...beside];
}

describe('invalid input', () => {
  let total = 0;
  for (const page of pages) {
    const url = new URL(page, folder);
    const cases = parseCases(readFileSync(url, 'utf8'));
    total += cases.length;
    if (process.env.NODEWALL_UPDATE_GOLDENS === '1') {
      writeFileSync(url, replaceProblems(readFileSync(url, 'utf8'), cases.map(problemsOf)));
    }
    describe(page, () => {
      for (const { claim, line, problems, ...input } of parseCases(readFileSync(url, 'utf8'))) {
        it(claim, () => {
          const actual = problemsOf({ claim, line, problems, ...input });
          assert.ok(actual.length > 0, `test/invalid/${page}:${line}: nothing is wrong with it`);
          assert.deepEqual(actual, problems, `test/invalid/${page}:${line}`);
        });
      }
    });
  }
  it('has at least 120 cases', () => assert.ok(total >= 120, `${total}`));
});
