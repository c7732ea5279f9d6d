import { writeFileSync } from 'node:fs';
import Mocha from 'mocha';

/** mocha's spec report, and the counts as JSON in the file that reporter option `counts` names. */
class CountingReporter extends Mocha.reporters.Spec {
  constructor(runner: Mocha.Runner, options: Mocha.MochaOptions) {
    super(runner, options);
    const path: string | undefined = options.reporterOptions?.counts;
    runner.once('end', () => {
      const { passes, failures, pending } = this.stats;
      if (path !== undefined)
        writeFileSync(path, JSON.stringify({ passed: passes, failed: failures, skipped: pending }));
    });
  }
}

export { CountingReporter as default };
