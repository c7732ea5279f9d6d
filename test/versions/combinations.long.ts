/**
 * Every suite of clusters with each combination of versions; each result is recorded for
 * docs/compatibility.md. mocha's `--grep` takes some: `--grep 'Kubernetes 1.37, containerd 2:'`.
 */
import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { CONTAINERD_NAMES, KUBERNETES_NAMES } from '../../build/cluster/versions.ts';
import { CLUSTER_SUITES } from '../../build/manifests/compatibility/matrix.ts';
import { CLUSTER_RESULTS, type Outcome } from '../../build/manifests/compatibility/results.ts';
import { output } from '../../build/programs/command.ts';
import { ROOT, scratchFolder } from '../../build/programs/folder.ts';
import { ofMocha, ofUnfinished, revision } from '../outcome.ts';

const MINUTE = 60_000;
/** Programs and images are made first, once; on a busy machine Kubernetes alone takes an hour. */
const BUILD_LIMIT = 180 * MINUTE;

interface Run extends Outcome {
  readonly text: string;
}

for (const kubernetes of KUBERNETES_NAMES)
  for (const containerd of CONTAINERD_NAMES)
    describe(`Kubernetes ${kubernetes}, containerd ${containerd}:`, () => {
      const env = { ...process.env, NODEWALL_KUBERNETES: kubernetes, NODEWALL_CONTAINERD: containerd };
      let at = '';

      before(async function () {
        this.timeout(BUILD_LIMIT);
        at = await revision();
        await output([process.execPath, 'build/cluster/box.ts'], { cwd: ROOT, env, shown: true });
      });

      for (const { name, file, minutes } of CLUSTER_SUITES)
        it(name, async function () {
          this.timeout((minutes + 1) * MINUTE);
          const date = new Date().toISOString().slice(0, 10);
          const { text, ...outcome } = await runFile(file, env, minutes * MINUTE);
          const [, node = null] = /^ *cluster: (.*)$/m.exec(text) ?? [];
          CLUSTER_RESULTS.record({
            kubernetes,
            containerd,
            suite: name,
            node,
            date,
            revision: at,
            ...outcome,
          });
          assert.equal(outcome.result, 'passed');
        });
    });

/** Its output is shown as it comes. Ended where it takes longer than the limit (milliseconds). */
async function runFile(file: string, env: NodeJS.ProcessEnv, limit: number): Promise<Run> {
  const scratch = await scratchFolder('nodewall-versions-');
  try {
    const report = join(scratch.path, 'counts.json');
    const mocha = join(ROOT, 'node_modules/.bin/mocha');
    const child = spawn(mocha, ['--reporter-option', `counts=${report}`, file], {
      cwd: ROOT,
      env,
      stdio: ['ignore', 'pipe', 'pipe'],
      timeout: limit,
    });
    let text = '';
    child.stdout.setEncoding('utf8').on('data', (part) => {
      text += part;
      process.stdout.write(part);
    });
    child.stderr.pipe(process.stderr);
    const [code, signal] = await once(child, 'close');
    if (existsSync(report)) return { ...ofMocha(readFileSync(report, 'utf8'), text), text };
    return { ...ofUnfinished(`mocha ended with ${signal ?? `status ${code}`}`), text };
  } finally {
    await scratch.remove();
  }
}
