/**
 * The set of `npm run demo -- egress`: a pod, its node, two gateways and a server, with real
 * agents.
 */
import { once } from 'node:events';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { type EgressAgents, egressAgents, egressPolicy, gateway } from '../../test/kernel/egress-agents.ts';
import { createEgressLab, type EgressLab, SERVER } from '../../test/kernel/egress-lab.ts';
import { until } from '../../test/kernel/until.ts';
import type { CallerEvent } from './egress-caller.ts';

const PORT = 8080;
export const SOURCE = 'worker-1';
export const GATEWAYS = ['edge-1', 'edge-2'] as const;
export const POD = `${SOURCE}-0`;
const EVENT_WITHIN = 30_000;
const now = (): number => Number(process.hrtime.bigint()) / 1e6;

export interface EgressDemoStage {
  readonly lab: EgressLab;
  readonly agents: EgressAgents;
  /** The source that the server sees of one new connection of the pod. */
  seen(): Promise<CallerEvent>;
  /** The pod connects all the time from now on. */
  watch(): void;
  stopWatching(): void;
  /** The first event since `after` (milliseconds of the events' clock) that is meant. */
  event(what: string, isMeant: (event: CallerEvent) => boolean, after: number): Promise<CallerEvent>;
  /** Returns when it was out, by the events' clock: on a busy kernel it may take seconds. */
  pullCable(node: string): Promise<number>;
  /** The node whose address this is. */
  nodeOf(address: string | null): string;
}

export async function createEgressStage(undo: AsyncDisposableStack): Promise<EgressDemoStage> {
  const lab = await createEgressLab({ nodes: [SOURCE, ...GATEWAYS], podsPerNode: 1 });
  undo.defer(() => lab.close());
  const agents = await egressAgents(lab, { log: { egressConnections: true } });
  undo.defer(() => agents.close());
  const program = (name: string): string => join(import.meta.dirname, name);
  const server = lab.server.spawn([process.execPath, program('egress-server.ts'), String(PORT)]);
  await once(server.stdout, 'data');
  const call = [process.execPath, program('egress-caller.ts'), SERVER.v4, String(PORT)];
  const caller = lab.pod(POD).namespace.spawn(call);
  const events: CallerEvent[] = [];
  createInterface({ input: caller.stdout }).on('line', (line) => events.push(JSON.parse(line)));

  async function event(
    what: string,
    isMeant: (event: CallerEvent) => boolean,
    after: number,
  ): Promise<CallerEvent> {
    const find = () => events.find((one) => one.at > after && isMeant(one));
    const detail = () => agents.agent(SOURCE).log().slice(-2000);
    await until(what, async () => find() !== undefined, { limit: EVENT_WITHIN, detail });
    return find() ?? fail(what);
  }

  return {
    lab,
    agents,
    event,
    seen() {
      const asked = now();
      caller.stdin.write('once\n');
      return event('a connection of the pod ends', (one) => one.event === 'seen', asked);
    },
    watch: () => void caller.stdin.write('watch\n'),
    stopWatching: () => void caller.stdin.write('stop\n'),
    async pullCable(node) {
      const { namespace } = lab.node(node);
      await namespace.run(['ip', 'link', 'set', 'eth0', 'down']);
      return now();
    },
    nodeOf: (address) => [...lab.nodes.values()].find(({ v4 }) => v4 === address)?.name ?? 'nobody',
  };
}

export const OBJECTS: readonly object[] = [
  gateway('internet', GATEWAYS),
  egressPolicy('partner', [POD], { gateway: 'internet', to: ['198.51.100.0/24'] }),
];

function fail(message: string): never {
  throw new Error(message);
}
