/**
 * What egress gateways cost between the API's objects and the agents: one pod more, until the
 * agents of its node and of the gateway have it; and one pod more at a gateway with 100,000.
 */
import { fold } from '../../agent/receive/fold.ts';
import type { Compiled } from '../../apis/compiled.ts';
import { DEFAULT_EGRESS_CONFIG } from '../../apis/egress/config.ts';
import type { EgressArrival, NodeEgress } from '../../apis/egress/node-egress.ts';
import { NO_OBJECTS } from '../../apis/objects.ts';
import type { StreamMessage } from '../../apis/stream.ts';
import { compiler } from '../../controller/compile/compile.ts';
import { egressCompiler } from '../../controller/egress/compile-egress.ts';
import { nodeEgressCompiler } from '../../controller/egress/node-egress.ts';
import { Hub } from '../../controller/publish/hub.ts';
import { linePrefix } from '../../controller/publish/messages.ts';
import { BucketMap } from '../../lib/sharing/bucket-map.ts';
import { type EgressSize, egressCluster, pod } from '../generate/egress.ts';
import { median } from '../measure/statistics.ts';
import { answer, timed, trialInput } from './trial.ts';

const { size, changes, arrivals } = trialInput<{ size: EgressSize; changes: number; arrivals: number }>();

let objects = egressCluster(size);
const rules = compiler();
const compile = egressCompiler(DEFAULT_EGRESS_CONFIG);
const views = nodeEgressCompiler();
const compiled = (): Compiled => ({
  ...rules({ ...NO_OBJECTS, ...objects }),
  egress: views(compile(objects)),
});
const first = compiled();
const hub = new Hub({ gate: true });
hub.publish(first);
const resident = process.memoryUsage().rss / 1e6;
const watched = [...(first.egress ?? [])].toSorted(([, a], [, b]) => b.arrivals.size - a.arrivals.size);
const [gateway] = watched;
if (gateway === undefined) throw new Error('there are no nodes');
for (const { name } of objects.nodes)
  if (name !== gateway[0]) hub.watch(name, null, () => {}, { egress: true });
const atGateway = follow(gateway[0], hub);
const all: number[] = [];
const compiling: number[] = [];
for (let i = 0; i < changes; i++) {
  objects = { ...objects, pods: [...objects.pods, pod(size.pods + i, size.nodes, 250)] };
  const { result, milliseconds } = await timed(compiled);
  const sent = await timed(() => hub.publish(result));
  compiling.push(milliseconds);
  all.push(milliseconds + sent.milliseconds);
}

answer({
  all: median(all),
  allWorst: Math.max(...all),
  compile: median(compiling),
  resident,
  ...(await ofLargeGateway()),
  messages: atGateway.messages,
});

/** An agent that folds what it is sent, in the same call. */
function follow(node: string, from: Hub) {
  const receiver = fold(node);
  receiver.begin(false);
  let sequence = 0;
  const seen = { messages: 0, bytes: 0 };
  const take = (lines: Parameters<Parameters<Hub['watch']>[2]>[0]): void => {
    for (const line of lines) {
      const text = linePrefix(++sequence, line) + line.body.toString();
      seen.messages++;
      seen.bytes += text.length;
      receiver.receive(JSON.parse(text) as StreamMessage);
    }
  };
  from.watch(node, null, take, { egress: true });
  return seen;
}

async function ofLargeGateway(): Promise<Record<string, number>> {
  const [name, base] = gateway ?? ['', {} as NodeEgress];
  const peer = base.peers.keys().next().value ?? '';
  const takes = [{ range: { first: 0n, last: (1n << 32n) - 1n }, take: 1 }];
  const arrival: EgressArrival = { node: peer, takes };
  const address = (n: number): string => `10.${n >> 16}.${(n >> 8) & 255}.${n & 255}`;
  const entries = Array.from({ length: arrivals }, (_, n): [string, EgressArrival] => [address(n), arrival]);
  let pods = BucketMap.of(new Map(entries), 1024);
  const state = (): Compiled => ({
    ...first,
    egress: new Map([
      [
        name,
        {
          ...base,
          takes: new Map([[1, { kind: 'node', interface: null }]]),
          arrivals: pods,
          outcomes: new Map(),
          classes: new Map(),
          slots: new Map(),
          sources: new Map(),
          pods: new Map(),
          served: new Map(),
          subnets: [],
        },
      ],
    ]),
  });
  const other = new Hub({ gate: true });
  other.publish(state());
  const whole = await timed(() => follow(name, other));
  const seen = whole.result;
  const wholeBytes = seen.bytes;
  seen.bytes = 0;
  const taken: number[] = [];
  for (let i = 0; i < changes; i++) {
    pods = pods.with([[address(arrivals + i), arrival]], []);
    const next = state();
    taken.push((await timed(() => other.publish(next))).milliseconds);
  }
  return {
    wholeView: whole.milliseconds,
    wholeMegabytes: wholeBytes / 1e6,
    arrival: median(taken),
    arrivalWorst: Math.max(...taken),
    arrivalBytes: seen.bytes / changes,
  };
}
