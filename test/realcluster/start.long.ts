import { createInterface } from 'node:readline';
import type { Readable } from 'node:stream';
import { startBox } from '../../build/cluster/box.ts';
import type { RealCluster } from '../../build/cluster/cluster.ts';
import {
  AGENT_PODS,
  describeCluster,
  install,
  SYSTEM_NAMESPACE,
  untilReady,
} from '../../build/cluster/install.ts';
import type { RealNode } from '../../build/cluster/real-node.ts';
import { summarise } from '../../perf/measure/statistics.ts';
import { stop } from '../netns/namespace.ts';
import { untilClosed } from './installation.ts';
import { untilConfirmed } from './nodewall.ts';

const IMAGE = '/nodewall-agent:';
/** So long one agent may take to end and the next to enforce (milliseconds). */
const LIMIT = 180_000;
const CTR = ['ctr', '--namespace', 'k8s.io'];
/** A table whose rule the kernel tells of; any other name would do. */
const MARKER = 'listening';

/**
 * How long parts of the start of an agent's pod took: milliseconds until the rules were in force.
 */
interface AgentStart {
  /** From when the API server was asked to delete the pod before. */
  readonly sinceDeleted: number;
  /** From when containerd had made the container's namespaces (`runc create`). */
  readonly sinceCreated: number;
  /** From when its process runs, as containerd says it; kubelet's `startedAt` has whole seconds. */
  readonly sinceStarted: number;
}

/** An event of containerd. */
interface ContainerEvent {
  /** Milliseconds since 1970. */
  readonly at: number;
  readonly topic: string;
  readonly container: string;
  readonly image: string;
}

interface AgentPod {
  readonly metadata: { readonly name: string };
  readonly status: { readonly containerStatuses?: readonly { readonly containerID?: string }[] };
}

interface Replaced {
  /** Named by a rule, whose arrival in the kernel ends the measurement. */
  readonly policy: string;
  /** Whether the node loses the agent's state too, and so is as a new one. */
  readonly forgets: boolean;
}

/**
 * Replaces the agent's pod on a node. When the process before has ended, the rules are removed, as
 * a reboot does; the new one makes them again.
 */
async function startOfAgent(
  cluster: RealCluster,
  node: RealNode,
  { policy, forgets }: Replaced,
): Promise<AgentStart> {
  const children = [
    node.spawn([...CTR, 'events']),
    node.namespace.spawn(['nft', 'monitor', 'new', 'rules']),
  ] as const;
  const end = () => Promise.all(children.map((child) => stop(child)));
  const limit = setTimeout(end, LIMIT);
  try {
    const [events, rules] = [new HeardLines(children[0].stdout), new HeardLines(children[1].stdout)];
    await events.untilListening(() =>
      node.run([...CTR, 'namespaces', 'label', 'k8s.io', `mark=${Date.now()}`]),
    );
    await rules.untilListening(() => markRules(node));
    const event = (what: string, is: (event: ContainerEvent) => boolean): Promise<ContainerEvent> =>
      events.first(what, (line) => {
        const read = containerEvent(line);
        return read !== null && is(read) ? read : null;
      });
    const before = await agentOn(cluster, node);
    const deleted = Date.now();
    const deletion = [
      'delete',
      'pod',
      before.metadata.name,
      `--namespace=${SYSTEM_NAMESPACE}`,
      '--wait=false',
    ];
    await cluster.kubectlOutput(deletion);
    await event(
      'the agent ends',
      ({ topic, container }) => topic === '/tasks/exit' && isOf(before, container),
    );
    await node.namespace.run(['nft', 'delete', 'table', 'inet', 'nodewall']);
    if (forgets) await node.run(['rm', '-rf', '/var/lib/nodewall']);
    const removed = Date.now();
    const made = await event(
      'a container of the agent is made',
      ({ topic, image }) => topic === '/containers/create' && image.includes(IMAGE),
    );
    const ofIt = (topic: string) =>
      event(topic, (one) => one.topic === topic && one.container === made.container);
    const [created, started] = [await ofIt('/tasks/create'), await ofIt('/tasks/start')];
    if (made.at < removed) throw new Error('the new agent was there before the rules were removed');
    const inForce = await rules.first(`a rule of ${policy}`, ({ text, at }) =>
      text.includes(policy) && at > removed ? at : null,
    );
    return {
      sinceDeleted: inForce - deleted,
      sinceCreated: inForce - created.at,
      sinceStarted: inForce - started.at,
    };
  } finally {
    clearTimeout(limit);
    await end();
  }
}

async function markRules({ namespace }: RealNode): Promise<void> {
  const stdin = `table inet ${MARKER} { chain ${MARKER} { accept; }; }`;
  await namespace.run(['nft', '--file', '-'], { stdin });
  await namespace.run(['nft', 'delete', 'table', 'inet', MARKER]);
}

async function agentOn(cluster: RealCluster, node: RealNode): Promise<AgentPod> {
  const { items } = await cluster.get<{ items: AgentPod[] }>(
    'pods',
    `--namespace=${SYSTEM_NAMESPACE}`,
    `--selector=${AGENT_PODS}`,
    `--field-selector=spec.nodeName=${node.name}`,
  );
  const [agent] = items;
  if (agent === undefined || items.length !== 1) throw new Error(`${items.length} agents on ${node.name}`);
  return agent;
}

function isOf({ status }: AgentPod, container: string): boolean {
  return (
    status.containerStatuses?.some(({ containerID }) => containerID === `containerd://${container}`) === true
  );
}

/** A line of `ctr events` (containerd 1.6): time, namespace, topic, JSON. */
function containerEvent({ text }: HeardLine): ContainerEvent | null {
  const parts = /^(\S+ \S+) \+0000 UTC \S+ (\S+) (\{.*\})$/.exec(text);
  if (parts === null) return null;
  const [, time = '', topic = '', json = ''] = parts;
  const { container_id, id = '', image = '' } = JSON.parse(json);
  return { at: Date.parse(`${time.replace(' ', 'T')}Z`), topic, container: container_id ?? id, image };
}

interface HeardLine {
  readonly text: string;
  /** When it arrived, in milliseconds since 1970. */
  readonly at: number;
}

/** The lines that a program says, kept from the first on. */
class HeardLines {
  readonly #lines: HeardLine[] = [];
  #isEnded = false;
  #news = Promise.withResolvers<void>();

  constructor(stream: Readable) {
    const told = (): void => {
      this.#news.resolve();
      this.#news = Promise.withResolvers();
    };
    createInterface({ input: stream })
      .on('line', (text) => {
        this.#lines.push({ text, at: Date.now() });
        told();
      })
      .on('close', () => {
        this.#isEnded = true;
        told();
      });
  }

  /** The first line of which `read` makes something; rejects where the program ends before. */
  async first<T>(what: string, read: (line: HeardLine) => T | null): Promise<T> {
    for (let seen = 0; ; ) {
      for (; seen < this.#lines.length; seen++) {
        const line = this.#lines[seen];
        const made = line === undefined ? null : read(line);
        if (made !== null) return made;
      }
      if (this.#isEnded) throw new Error(`not heard: ${what}\n${this.#last()}`);
      await this.#news.promise;
    }
  }

  /** Does something again and again until it is heard of: from then on the program listens. */
  async untilListening(act: () => Promise<unknown>): Promise<void> {
    while (this.#lines.length === 0) {
      if (this.#isEnded) throw new Error('the program has ended');
      await act();
    }
  }

  #last(): string {
    return this.#lines
      .slice(-20)
      .map(({ text }) => text)
      .join('\n');
  }
}

const TRIALS = 12;
const POLICY = 'closed-port';

/** How long a node is without rules when its agent starts, the image being there. */
describe('the start of an agent on a real cluster', function () {
  this.timeout(900_000);
  let cluster: RealCluster;

  before(async function () {
    this.timeout(3_600_000);
    cluster = await startBox();
    await install(cluster);
    await untilClosed(cluster);
  });
  after(() => cluster?.close());
  afterEach(async function () {
    if (this.currentTest?.state === 'failed') process.stderr.write(`${await describeCluster(cluster)}\n`);
  });

  /** Guarded apply has ended, and no agent is about to be replaced. */
  async function untilCalm(): Promise<void> {
    await untilReady(cluster);
    await untilConfirmed(cluster, POLICY);
  }

  for (const [what, forgets] of [
    ['from the state that the agent before has saved', false],
    ['from the controller, on a node without a state', true],
  ] as const) {
    it(`ends with the rules in force, ${what}`, async () => {
      const starts: AgentStart[] = [];
      for (let i = 0; i < TRIALS; i++) {
        await untilCalm();
        starts.push(await startOfAgent(cluster, cluster.node('worker-1'), { policy: POLICY, forgets }));
      }
      for (const [from, part] of [
        ['the container’s start', 'sinceStarted'],
        ['its creation', 'sinceCreated'],
        ['the deletion of the pod before', 'sinceDeleted'],
      ] as const) {
        const { median, min, max } = summarise(starts.map((start) => start[part] / 1000));
        const figures = [median, min, max].map((value) => value.toFixed(2));
        process.stdout.write(
          `      from ${from}: median ${figures[0]} s, ${figures[1]} to ${figures[2]} s\n`,
        );
      }
    });
  }
});
