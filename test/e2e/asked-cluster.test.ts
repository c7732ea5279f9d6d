/** One cluster, and who asks it: Prometheus, users, the console, the kubectl plugin. */
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { kernelSuite } from '../kernel/kernel-suite.ts';
import { type AskedBed, startAskedBed } from './asked-bed.ts';
import { describeConsoleBrowser } from './console-browser.ts';
import { describeConsoleServer, writePages } from './console-server.ts';
import { describeNodeData } from './node-data.ts';
import { describeNodeFlows } from './node-flows.ts';
import { describeNodeMetrics } from './node-metrics.ts';
import { describeOnCall } from './on-call.ts';
import { describePluginExecutable } from './plugin-executable.ts';

kernelSuite('a cluster that is asked', function () {
  this.timeout(120_000);
  let bed: AskedBed;
  let pages: string;
  before(async function () {
    this.timeout(1_800_000);
    pages = await mkdtemp(join(tmpdir(), 'nodewall-console-'));
    await writePages(pages);
    bed = await startAskedBed(['--console-files', pages]);
  });
  after(async () => {
    await bed?.close();
    await rm(pages, { recursive: true, force: true });
  });

  // Each begins with policies of its own; the last one leaves nodes that are silent.
  describeNodeMetrics(() => bed);
  describeNodeFlows(() => bed);
  describeConsoleServer(() => bed);
  describeConsoleBrowser(() => bed);
  describePluginExecutable(() => bed);
  describeOnCall(() => bed);
  describeNodeData(() => bed);
});
