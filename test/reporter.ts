import { writeFileSync } from 'node:fs';
import { relative } from 'node:path';
import Mocha from 'mocha';

/** What the file has that reporter option `counts` names, as JSON. */
export interface Counts {
  readonly passed: number;
  readonly failed: number;
  readonly skipped: number;
  /** One text for each test that failed: its full title, file and error. */
  readonly failures: readonly string[];
  /** Milliseconds of the tests and hooks of each file, by its path. */
  readonly files: Readonly<Record<string, number>>;
}

/** mocha's spec report, and the counts in a file. */
class CountingReporter extends Mocha.reporters.Spec {
  constructor(runner: Mocha.Runner, options: Mocha.MochaOptions) {
    super(runner, options);
    const path: string | undefined = options.reporterOptions?.counts;
    const failed: string[] = [];
    const files: Record<string, number> = {};
    const count = ({ file, duration = 0 }: Mocha.Runnable): void => {
      if (file === undefined) return;
      const name = relative(process.cwd(), file);
      files[name] = (files[name] ?? 0) + duration;
    };
    runner.on('test end', count);
    runner.on('hook end', count);
    runner.on('fail', (test, error: Error) => {
      const file = test.file === undefined ? '' : ` (${relative(process.cwd(), test.file)})`;
      failed.push(`${test.fullTitle()}${file}\n${error.stack ?? error.message}`);
    });
    runner.once('end', () => {
      const { passes, failures, pending } = this.stats;
      const counts: Counts = { passed: passes, failed: failures, skipped: pending, failures: failed, files };
      if (path !== undefined) writeFileSync(path, JSON.stringify(counts));
    });
  }
}

export { CountingReporter as default };
