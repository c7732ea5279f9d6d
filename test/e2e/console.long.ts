/**
 * How long a change takes until a page that watches the overview has it: 500 nodes with simulated
 * agents, 100 policies for all of them. And what many readers and large texts do to the console.
 */

import assert from 'node:assert/strict';
import { type ChildProcess, spawn } from 'node:child_process';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { OVERVIEW_WATCH, type Overview } from '../../apis/console.ts';
import { LONGEST_PREVIEW } from '../../apis/console-documents.ts';
import { median } from '../../perf/measure/statistics.ts';
import { usersYaml } from '../cluster/admin-api.ts';
import { kernelSuite } from '../kernel/kernel-suite.ts';
import { policy, tcp } from '../kernel/manifests.ts';
import { until } from '../kernel/until.ts';
import { relay } from '../netns/namespace.ts';
import { CONSOLE_API, type DoorWatch, type RunningDoor, startDoor } from './console-door.ts';
import { controllerService, untilAggregated } from './controller-service.ts';
import { type SimulatedAgent, simulatedAgents } from './simulated-agent.ts';
import { type Story, startStory } from './story-bed.ts';
import { replicaPort } from './story-controllers.ts';

const NODES = 500;
const POLICIES = 100;
const TRIALS = 20;
/** Milliseconds until a change is seen: the target of issue 19. */
const TARGET = 500;
const PORT = replicaPort(0);
/** Of one user at the same time (publish/limits.ts), and of all (overview-watchers.ts). */
const WATCHES_OF_USER = 20;

const USER = usersYaml({ jane: ['nodewall-view'] });

/** Prints when it got which line of the watch. */
const READER = `
const { request } = require('node:http');
const { createInterface } = require('node:readline');
const [socketPath, path, host] = process.argv.slice(1);
request({ socketPath, path, headers: { host } }, (answer) => {
  createInterface({ input: answer }).on('line', (line) => {
    if (line === '') return;
    const { type, policies = [] } = JSON.parse(line);
    const shown = policies.map((one) => [one.name, one.generation, one.enforcedGeneration, one.exceptions.length]);
    console.log(JSON.stringify({ at: Date.now(), type, policies: shown }));
  });
}).end();
`;

interface Seen {
  readonly at: number;
  readonly type: string;
  /** Name, generation, generation in force, number of exceptions. */
  readonly policies: readonly (readonly [string, number, number, number])[];
}

kernelSuite('the console of a large cluster', function () {
  this.timeout(900_000);
  let story: Story;
  let door: RunningDoor;
  const simulated: SimulatedAgent[] = [];
  const watches: DoorWatch[] = [];
  const readers: ChildProcess[] = [];

  before(async () => {
    story = await startStory({ workers: 1, apiServerFlags: ['--enable-aggregator-routing=true'] });
    const { cluster, controlPlane, address } = story;
    await cluster.apply(`${controllerService(address, [PORT])}---${USER}`);
    await untilAggregated(cluster);
    const names = Array.from({ length: NODES - 2 }, (_, i) => `node-${i}`);
    const nodes = names.map((name) => ({
      apiVersion: 'v1',
      kind: 'Node',
      metadata: { name, labels: { role: 'worker' } },
    }));
    await cluster.apply(nodes.map((one) => JSON.stringify(one)).join('\n---\n'));
    const policies = Array.from({ length: POLICIES }, (_, i) => numbered(i, 80));
    await story.applied(...policies);
    const path = join(cluster.folder, 'agents.socket');
    await relay(controlPlane, { path }, { host: address, port: PORT });
    simulated.push(...(await simulatedAgents(cluster, names, () => [{ socketPath: path }])));
    for (const agent of simulated) agent.start();
    const kubeconfig = await cluster.kubeconfigFor('jane', { token: await cluster.token('default/jane') });
    door = await startDoor(controlPlane, cluster.folder, ['--kubeconfig', kubeconfig]);
    await until(
      'all nodes enforce all policies',
      async () => {
        const { status, text } = await door.ask(`${CONSOLE_API}/overviews/cluster`);
        if (status !== 200) return false;
        const { nodes: all, policies: found }: Overview = JSON.parse(text);
        return (
          all.length === NODES &&
          all.every(({ phase }) => phase === 'Enforced') &&
          found.length === POLICIES &&
          found.every(({ exceptions }) => exceptions.length === 0)
        );
      },
      { limit: 300_000 },
    );
  });
  after(async () => {
    for (const one of watches) one.close();
    for (const one of readers) one.kill();
    for (const one of simulated) one.stop();
    await door?.end();
    await story?.close();
  });

  function numbered(i: number, port: number): object {
    const ingress = [{ name: 'close', action: 'Drop', ports: [tcp(port)] }];
    return {
      ...policy(`policy-${i}`, {}),
      spec: { priority: 10 + i, appliedTo: [{ nodeSelector: {} }], ingress },
    };
  }

  it(`shows a change within ${TARGET} ms`, async () => {
    const { socketPath, prefix, host } = door;
    const path = `${prefix}${CONSOLE_API}/${OVERVIEW_WATCH}`;
    // A process of its own: the agents of this one are busy with the change.
    const child = spawn(process.execPath, ['-e', READER, socketPath, path, host], {
      stdio: ['ignore', 'pipe', 'inherit'],
    });
    readers.push(child);
    const lines = createInterface({ input: child.stdout })[Symbol.asyncIterator]();
    const next = async (): Promise<Seen> => JSON.parse((await lines.next()).value ?? '');
    assert.equal((await next()).type, 'overview');
    const seen: number[] = [];
    const enforced: number[] = [];
    for (let i = 0; i < TRIALS; i++) {
      const began = Date.now();
      const applied = story.applied(numbered(3, 1000 + i));
      for (let isSeen = false; ; ) {
        const { at, policies } = await next();
        const found = policies.find(([name, generation]) => name === 'policy-3' && generation === 2 + i);
        if (found === undefined) continue;
        const [, generation, inForce, exceptions] = found;
        if (!isSeen) seen.push(at - began);
        isSeen = true;
        if (inForce !== generation || exceptions > 0) continue;
        enforced.push(at - began);
        break;
      }
      await applied;
    }
    const text = (what: string, times: readonly number[]): string =>
      `      ${what}: median ${median(times).toFixed(0)} ms, worst ${Math.max(...times).toFixed(0)} ms\n`;
    process.stdout.write(text('apply begins to seen by the page', seen));
    process.stdout.write(text('apply begins to shown as in force on 500 nodes', enforced));
    assert.ok(median(seen) <= TARGET, String(median(seen)));
  });

  it('is small on the wire', async () => {
    const { text } = await door.ask(`${CONSOLE_API}/overviews/cluster`);
    process.stdout.write(
      `      overview of ${NODES} nodes × ${POLICIES} policies: ${(text.length / 1000).toFixed(0)} kB\n`,
    );
    assert.ok(text.length < 300_000, String(text.length));
  });

  it('refuses watches beyond those of one user, and serves others', async () => {
    let refused = 0;
    for (let i = 0; i < WATCHES_OF_USER + 20; i++) {
      try {
        watches.push(await door.watch(`${CONSOLE_API}/${OVERVIEW_WATCH}`));
      } catch (error) {
        assert.match((error as Error).message, /^429/);
        refused++;
      }
    }
    assert.ok(refused >= 20, String(refused));
    assert.equal((await door.ask(`${CONSOLE_API}/overviews/cluster`)).status, 200);
    for (const one of watches.splice(0)) one.close();
  });

  it('refuses texts that are too long, and goes on', async () => {
    const post = async (body: string) => {
      const asking = { method: 'POST', headers: { 'content-type': 'application/json' }, body };
      return await door.ask(`${CONSOLE_API}/previews`, asking).catch((error: NodeJS.ErrnoException) => error);
    };
    for (const length of [LONGEST_PREVIEW + 1, 8 << 20]) {
      const answer = await post(JSON.stringify({ yaml: 'x'.repeat(length) }));
      // The rest of a body that is too long is not read.
      if (answer instanceof Error) assert.match(String(answer.code), /EPIPE|ECONNRESET/);
      else assert.equal(answer.status, 413, answer.text);
    }
    for (const body of ['', '{', '[]', '{"yaml":7}', 'null'])
      assert.ok([400, 422].includes(((await post(body)) as { status: number }).status), body);
    assert.equal((await door.ask(`${CONSOLE_API}/overviews/drops`)).status, 200);
  });
});
