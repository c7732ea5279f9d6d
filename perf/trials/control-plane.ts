/**
 * What stages 1 to 3 of a controller cost at the size of a large cluster: from the API server's
 * lists on, then one change after another.
 */
import { createReadStream } from 'node:fs';
import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';
import {
  type ClusterNetworkPolicy,
  type ClusterObjects,
  type Namespace,
  NO_OBJECTS,
  type Node,
  type Pod,
} from '../../apis/objects.ts';
import { validateObject } from '../../apis/validate/object.ts';
import { compiler } from '../../controller/compile/compile.ts';
import { Hub } from '../../controller/publish/hub.ts';
import { median } from '../measure/statistics.ts';
import { answer, timed, trialInput } from './trial.ts';

/**
 * A file with a page of a list a line (generate/control-plane.ts); how many changes of each kind
 * are tried.
 */
const { pages, changes } = trialInput<{ pages: string; changes: number }>();

/** Processor time, all threads: what is measured on a busy machine is told by it. */
const cpu = { parse: 0, narrow: 0 };
const wait = { megabytes: 0, parse: 0, narrow: 0 };
const whole = await timed(coldStart);
let { objects } = whole.result;
const { compile, hub } = whole.result;
setFlagsFromString('--expose-gc');
const collect = runInNewContext('gc') as () => void;
collect();
const resident = process.memoryUsage().rss / 1e6;
const prepared = await timed(() => compile.prepare());
collect();
const figures: Record<string, number> = {
  ...wait,
  compile: whole.result.compiled.milliseconds,
  publish: whole.result.published.milliseconds,
  views: whole.result.views.milliseconds,
  compileCpu: whole.result.compiled.cpu,
  viewsCpu: whole.result.views.cpu,
  narrowCpu: cpu.narrow,
  parseCpu: cpu.parse,
  start: whole.milliseconds,
  startCpu: whole.cpu,
  prepare: prepared.milliseconds,
  resident,
};
for (const [name, change] of Object.entries(changesOf())) {
  const taken: Record<'compile' | 'cpu' | 'publish', number[]> = { compile: [], cpu: [], publish: [] };
  for (let i = 0; i < changes; i++) {
    const next = change(objects, i);
    const compiled = await timed(() => compile(next));
    const published = await timed(() => hub.publish(compiled.result));
    taken.compile.push(compiled.milliseconds);
    taken.cpu.push(compiled.cpu);
    taken.publish.push(published.milliseconds);
    objects = next;
  }
  figures[name] = median(taken.compile);
  figures[`${name}Cpu`] = median(taken.cpu);
  figures[`${name}Least`] = Math.min(...taken.compile);
  figures[`${name}Worst`] = Math.max(...taken.compile);
  figures[`${name}Publish`] = median(taken.publish);
}
collect();
figures.residentAfter = process.memoryUsage().rss / 1e6;
answer(figures);

/** From lists as they come to every node's view there to be sent. */
async function coldStart() {
  const objects = await readObjects();
  const compile = compiler();
  const compiled = await timed(() => compile(objects));
  const hub = new Hub({ gate: true });
  const published = await timed(() => hub.publish(compiled.result));
  // Every node asks for its view, and gets the lines of it.
  const views = await timed(() => {
    for (const node of hub.nodes().keys()) hub.watch(node, null, () => {}).close();
  });
  return { objects, compile, hub, compiled, published, views };
}

async function readObjects(): Promise<ClusterObjects> {
  const found = {
    Node: [] as Node[],
    Namespace: [] as Namespace[],
    Pod: [] as Pod[],
    ClusterNetworkPolicy: [] as ClusterNetworkPolicy[],
  };
  let before = performance.now();
  let cpuBefore = process.cpuUsage();
  const spent = (on: keyof typeof cpu): void => {
    const { user, system } = process.cpuUsage(cpuBefore);
    cpu[on] += (user + system) / 1000;
    cpuBefore = process.cpuUsage();
  };
  for await (const bytes of lines(pages)) {
    wait.megabytes += bytes.length / 1e6;
    const { items } = JSON.parse(bytes.toString()) as { items: readonly object[] };
    const parsed = performance.now();
    wait.parse += parsed - before;
    spent('parse');
    for (const item of items) {
      const { object, problems } = validateObject(item);
      if (object === null) throw new Error(`${JSON.stringify(item)}: ${JSON.stringify(problems)}`);
      (found[object.kind as keyof typeof found] as object[]).push(object);
    }
    before = performance.now();
    wait.narrow += before - parsed;
    spent('narrow');
  }
  return {
    ...NO_OBJECTS,
    nodes: found.Node,
    namespaces: found.Namespace,
    pods: found.Pod,
    policies: found.ClusterNetworkPolicy,
  };
}

async function* lines(file: string): AsyncIterable<Buffer> {
  let parts: Buffer[] = [];
  for await (const chunk of createReadStream(file, { highWaterMark: 1 << 20 }) as AsyncIterable<Buffer>) {
    let from = 0;
    for (let end = chunk.indexOf(10); end >= 0; end = chunk.indexOf(10, from)) {
      yield Buffer.concat([...parts, chunk.subarray(from, end)]);
      parts = [];
      from = end + 1;
    }
    if (from < chunk.length) parts.push(chunk.subarray(from));
  }
}

type Change = (objects: ClusterObjects, nth: number) => ClusterObjects;

function changesOf(): Record<string, Change> {
  return {
    podAddress: (now, nth) => ({
      ...now,
      pods: edited(now.pods, nth, (pod) => ({ ...pod, addresses: [`10.99.${nth >> 8}.${nth & 255}`] })),
    }),
    podLabels: (now, nth) => ({
      ...now,
      pods: edited(now.pods, nth, (pod) => ({ ...pod, labels: { ...pod.labels, app: `app-${nth % 7}` } })),
    }),
    podGone: (now, nth) => ({ ...now, pods: now.pods.toSpliced(place(now.pods, nth), 1) }),
    podNew: (now, nth) => ({
      ...now,
      pods: now.pods.toSpliced(place(now.pods, nth), 0, {
        ...one(now.pods, nth),
        name: `new-${nth}`,
        addresses: [`10.98.${nth >> 8}.${nth & 255}`],
      }),
    }),
    nodeLabels: (now, nth) => ({
      ...now,
      nodes: edited(now.nodes, nth, (node) => ({
        ...node,
        labels: { ...node.labels, pool: `pool-${(nth * 3 + 1) % 50}` },
      })),
    }),
    nodeGone: (now, nth) => ({ ...now, nodes: now.nodes.toSpliced(place(now.nodes, nth), 1) }),
    nodeNew: (now, nth) => ({
      ...now,
      nodes: now.nodes.toSpliced(place(now.nodes, nth), 0, {
        ...one(now.nodes, nth),
        name: `new-${nth}`,
        addresses: [`192.168.200.${nth & 255}`],
      }),
    }),
    namespaceLabels: (now, nth) => ({
      ...now,
      namespaces: edited(now.namespaces, nth, (namespace) => ({
        ...namespace,
        labels: { ...namespace.labels, team: `team-${(nth * 7 + 3) % 500}` },
      })),
    }),
    policyEdited: (now, nth) => ({
      ...now,
      policies: edited(now.policies, nth, (policy) => {
        const [first, ...rest] = policy.spec.ingress ?? [];
        if (first === undefined) return policy;
        const from = [{ podSelector: { matchLabels: { app: `app-${nth % 200}`, tier: 'web' } } }];
        return {
          ...policy,
          generation: policy.generation + 1,
          spec: { ...policy.spec, ingress: [{ ...first, from }, ...rest] },
        };
      }),
    }),
  };
}

/** Spread over the list, another one each time. */
function place(list: readonly unknown[], nth: number): number {
  return (nth * 7919 + 13) % list.length;
}

function one<T>(list: readonly T[], nth: number): T {
  const found = list[place(list, nth)];
  if (found === undefined) throw new Error('an empty list');
  return found;
}

function edited<T>(list: readonly T[], nth: number, edit: (one: T) => T): readonly T[] {
  return list.with(place(list, nth), edit(one(list, nth)));
}
