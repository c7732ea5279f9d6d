/** The outcome of a suite, of what its program or mocha's reporter (test/reporter.ts) said. */
import type { Outcome } from '../build/manifests/compatibility/results.ts';
import { output } from '../build/programs/command.ts';
import { ROOT } from '../build/programs/folder.ts';
import type { Counts } from './reporter.ts';

const LONGEST_TEXT = 160;
/** What changes with each run. */
const WRITTEN = [':!build/manifests/compatibility/*.json', ':!docs/compatibility.md'];

export function ofProgram(code: number | null, text: string): Outcome {
  const isPassed = code === 0;
  const last = text.trimEnd().split('\n').at(-1) ?? '';
  const counts = { passed: Number(isPassed), failed: Number(!isPassed), skipped: 0, skips: [] };
  return { result: isPassed ? 'passed' : 'failed', failures: isPassed ? [] : [shortened(last)], ...counts };
}

/** `counts` is what the reporter wrote, `text` what the tests printed. */
export function ofMocha(counts: string, text: string): Outcome {
  const { passed, failed, skipped, failures }: Counts = JSON.parse(counts);
  return {
    result: failed === 0 && passed > 0 ? 'passed' : 'failed',
    passed,
    failed,
    skipped,
    failures: failures.map((failure) => shortened(failure.split('\n', 1)[0] ?? '')),
    skips: [...new Set([...text.matchAll(/^skipped: (.*)$/gm)].map(([, why = '']) => shortened(why)))].sort(),
  };
}

/** Of a suite that did not end; the first line of the text says why. */
export function ofUnfinished(text: string): Outcome {
  const failures = [shortened(text.split('\n', 1)[0] ?? '')];
  return { result: 'unfinished', passed: 0, failed: 0, skipped: 0, failures, skips: [] };
}

function shortened(text: string): string {
  return text.length <= LONGEST_TEXT ? text : `${text.slice(0, LONGEST_TEXT)}…`;
}

/** The repository's; with `+` where files were changed since. */
export async function revision(): Promise<string> {
  const head = (await output(['git', 'rev-parse', '--short=8', 'HEAD'], { cwd: ROOT })).trim();
  const changed = await output(['git', 'status', '--porcelain', '--', '.', ...WRITTEN], { cwd: ROOT });
  return changed === '' ? head : `${head}+`;
}
