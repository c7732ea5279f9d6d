/**
 * Observes on the kernel what the firewall in the node namespace decides about flows.
 *
 * Each flow is one real packet that opens a connection, marked with a number that answers carry
 * back. Allow: the packet passed the observer's table, which is later than the firewall
 * (nwprobe.ts). Reject: it didn't, and the node made a TCP reset or an ICMP
 * administratively-prohibited for it. Drop: neither. That a closed port answers with a reset too,
 * or that nobody answers an accepted packet, doesn't matter. NodePort flows come after the others,
 * behind a table that hands them all to a pod; those are accepted that are forwarded.
 */

import { once } from 'node:events';
import { createInterface } from 'node:readline';
import type { Namespace } from '../netns/namespace.ts';
import { type AddressPair, CLIENT_INTERFACE, type Topology } from '../netns/topology.ts';
import { probeProgram } from '../probe/probe.ts';
import { type Flow, isIcmp, isMulticast, protocolNumber, unsendable, type Verdict } from './flow.ts';
import { deleteTable, loadTable, natTable, recorderTable } from './nwprobe.ts';

interface Observation {
  readonly flow: Flow;
  readonly verdict: Verdict;
  /** What the sender saw. `eperm`: its own kernel refused to send. */
  readonly saw: 'nothing' | 'eperm' | 'reset' | 'icmp' | 'reply' | 'error';
  /** Of an ICMP error that came back, as "type/code". */
  readonly icmp?: string;
  /**
   * The kernel said something else than EPERM when asked to send; the verdict means nothing then.
   */
  readonly error?: string;
}

interface ObserveOptions {
  /** Milliseconds to wait for answers after the last packet of a round; default 150. */
  readonly wait?: number;
  /**
   * The pod that NodePort flows end at; default the first client address of the group `pods`, or
   * the first of all.
   */
  readonly pod?: AddressPair;
}

/** A port that nothing listens on, and rules hardly name: what they name is the port before NAT. */
const POD_PORT = 9;

const NFLOG_GROUP = 7077;

/** The verdicts alone, in the order of the flows. Throws when a packet could not be sent. */
export async function observe(
  topology: Topology,
  flows: readonly Flow[],
  options: ObserveOptions = {},
): Promise<Verdict[]> {
  const observations = await observeDetails(topology, flows, options);
  for (const { error, flow } of observations) {
    if (error !== undefined) throw new Error(`${error}: ${JSON.stringify(flow)}`);
  }
  return observations.map(({ verdict }) => verdict);
}

/**
 * As {@link observe}, with what the sender saw. Throws on flows that no packet of this topology can
 * have.
 */
export async function observeDetails(
  topology: Topology,
  flows: readonly Flow[],
  options: ObserveOptions = {},
): Promise<Observation[]> {
  const packets = new Map<string, Packet>();
  const asked = flows.map((flow, id) => {
    const packet = toPacket(topology, flow, id);
    const key = JSON.stringify({ ...packet, id: 0, sender: '', flow: { ...flow, srcPort: packet.srcPort } });
    // The same flow twice is one packet: the second would be part of an established connection.
    const first = packets.get(key) ?? packet;
    packets.set(key, first);
    return first.id;
  });
  const results = new Map<number, Observation>();
  await loadTable(topology.node, 'nwprobe', recorderTable(NFLOG_GROUP));
  try {
    const { NodePort = [], Host = [] } = Object.groupBy(
      packets.values(),
      ({ flow }) => flow.traffic ?? 'Host',
    );
    const run = async (some: readonly Packet[]): Promise<void> => {
      for (const round of toRounds(some)) {
        for (const [id, observation] of await runRound(topology, round, options.wait ?? 150)) {
          results.set(id, observation);
        }
      }
    };
    await run(Host);
    if (NodePort.length > 0) await behindNat(topology, options.pod, () => run(NodePort));
  } finally {
    await deleteTable(topology.node, 'nwprobe');
  }
  return flows.map((flow, i) => {
    const result = results.get(asked[i] ?? Number.NaN);
    if (result === undefined) throw new Error(`no result for ${JSON.stringify(flow)}`);
    return { ...result, flow };
  });
}

async function behindNat(
  topology: Topology,
  pod: AddressPair | undefined,
  run: () => Promise<void>,
): Promise<void> {
  const { node, plan } = topology;
  const to = pod ?? plan.clientAddresses.find(({ group }) => group === 8) ?? plan.clientAddresses[0];
  if (to === undefined) throw new Error('no client that could be a pod');
  await loadTable(node, 'nwnat', natTable(to, POD_PORT));
  try {
    await run();
  } finally {
    await deleteTable(node, 'nwnat');
  }
}

/** What `probe send` reads, and where from. */
interface Packet {
  readonly id: number;
  readonly flow: Flow;
  readonly sender: Namespace;
  readonly protocol: number;
  readonly srcPort: number;
  readonly dstPort: number;
  readonly icmpType: number;
  readonly icmpCode: number;
}

function toPacket(topology: Topology, flow: Flow, id: number): Packet {
  const reason = unsendable(flow) ?? misplaced(topology, flow);
  const sender = topology.owner(flow.src);
  if (reason !== undefined || sender === undefined) {
    throw new Error(`${reason ?? 'nobody has the source address'}: ${JSON.stringify(flow)}`);
  }
  const protocol = protocolNumber(flow.protocol);
  return {
    id,
    flow,
    sender,
    protocol,
    // Distinct where the flow doesn't say: no two of a run share a connection by accident.
    srcPort: flow.srcPort ?? 32768 + (id % 28000),
    dstPort: flow.dstPort ?? 0,
    icmpType: flow.icmpType ?? flow.igmpType ?? 0,
    icmpCode: flow.icmpCode ?? 0,
  };
}

/** Why this topology cannot carry a flow. */
function misplaced({ node, owner, plan }: Topology, flow: Flow): string | undefined {
  const from = owner(flow.src);
  const to = owner(flow.dst);
  if (from === undefined) return 'nobody has the source address';
  if (flow.direction === 'egress' && from !== node) return 'egress starts on the node';
  if (flow.direction === 'ingress' && to !== node && !isMulticast(flow.dst))
    return 'ingress ends on the node';
  const client = plan.clientAddresses.find(({ v4, v6 }) =>
    [v4, v6].includes(flow.direction === 'ingress' ? flow.src : flow.dst),
  );
  if (typeof flow.interfaceGroup === 'number' && client && client.group !== flow.interfaceGroup) {
    return `that address is behind an interface of group ${client.group}`;
  }
  return undefined;
}

/**
 * Packets of one conntrack entry go in different rounds, with conntrack flushed between: the second
 * would be part of an established connection. ICMP carries the number of the packet as identifier,
 * so its entries are distinct. Without ports, packets of one direction do not establish anything
 * for each other, but all packets between two addresses have one entry.
 */
function toRounds(packets: readonly Packet[]): Packet[][] {
  const next = new Map<string, number>();
  const rounds = Map.groupBy(packets, (packet) => {
    if (packet.flow.dstPort === undefined && !isIcmp(packet.flow))
      return Number(packet.flow.direction === 'egress');
    const key = connectionKey(packet);
    const round = next.get(key) ?? 0;
    next.set(key, round + 1);
    return round;
  });
  return [...rounds.values()];
}

/** The same for both directions of a connection. */
function connectionKey({ id, flow, protocol, srcPort, dstPort }: Packet): string {
  const ends = [`${flow.src} ${srcPort}`, `${flow.dst} ${dstPort}`].sort();
  return [protocol, ...ends, ...(isIcmp(flow) ? [id] : [])].join(' ');
}

interface Sight {
  readonly id: number;
  readonly at: 'in' | 'out' | 'forward' | 'answer';
  readonly kind: 'probe' | 'reset' | 'reply' | 'icmp';
  readonly type?: number;
  readonly code?: number;
}

interface SendReport {
  readonly id: number;
  readonly saw: Observation['saw'];
  readonly type?: number;
  readonly code?: number;
  readonly errno?: string;
}

async function runRound(topology: Topology, packets: readonly Packet[], wait: number) {
  await topology.node.run(['conntrack', '-F']);
  const recorder = await record(topology.node);
  const senders = Map.groupBy(packets, ({ sender }) => sender);
  const reports = await Promise.all([...senders].map(([sender, list]) => send(topology, sender, list, wait)));
  const sights = await recorder.finish();
  const accepted = new Set<number>();
  const refused = new Set<number>();
  const byId = new Map(packets.map((packet) => [packet.id, packet]));
  for (const sight of sights) {
    const flow = byId.get(sight.id)?.flow;
    const end = flow?.traffic === 'NodePort' ? 'forward' : flow?.direction === 'ingress' ? 'in' : 'out';
    if (sight.at === 'answer') {
      if (isRefusal(sight)) refused.add(sight.id);
    } else if (sight.kind === 'probe' && sight.at === end) {
      accepted.add(sight.id);
    }
  }
  const observations = new Map<number, Observation>();
  for (const report of reports.flat()) {
    const flow = byId.get(report.id)?.flow;
    if (flow === undefined) throw new Error(`the probe answered for a flow nobody asked about: ${report.id}`);
    observations.set(report.id, {
      flow,
      verdict: accepted.has(report.id) ? 'Allow' : refused.has(report.id) ? 'Reject' : 'Drop',
      saw: report.saw,
      ...(report.saw === 'icmp' ? { icmp: `${report.type}/${report.code}` } : {}),
      ...(report.errno === undefined ? {} : { error: report.errno }),
    });
  }
  return observations;
}

/** RFC 1812: 3/9, 3/10, 3/13 administratively prohibited (nft sends 13); RFC 4443: 1/1. */
function isRefusal({ kind, type, code }: Sight): boolean {
  if (kind === 'reset') return true;
  return kind === 'icmp' && ((type === 3 && code === 13) || (type === 1 && code === 1));
}

async function send(topology: Topology, sender: Namespace, packets: readonly Packet[], wait: number) {
  const out = sender === topology.node ? topology.nodeInterface(0) : CLIENT_INTERFACE;
  const lines = packets.map(({ id, flow, protocol, srcPort, dstPort, icmpType, icmpCode }) =>
    JSON.stringify({ id, src: flow.src, dst: flow.dst, protocol, srcPort, dstPort, icmpType, icmpCode }),
  );
  const argv = [await probeProgram(), 'send', '--wait', String(wait), '--interface', out];
  const { stdout } = await sender.run(argv, { stdin: `${lines.join('\n')}\n` });
  return parseLines<SendReport>(stdout);
}

/** Starts `probe watch` in the node and waits until it listens. */
async function record(node: Namespace) {
  const watcher = node.spawn([await probeProgram(), 'watch', '--group', String(NFLOG_GROUP)]);
  const lines = createInterface({ input: watcher.stdout });
  const texts: string[] = [];
  const errors: string[] = [];
  lines.on('line', (line) => texts.push(line));
  watcher.stderr.on('data', (part) => errors.push(String(part)));
  const closed = once(watcher, 'close');
  await Promise.race([once(lines, 'line'), closed]);
  return {
    async finish(): Promise<Sight[]> {
      watcher.stdin.end();
      const [status] = await closed;
      if (status !== 0) throw new Error(`probe watch ended with ${status}: ${errors.join('')}`);
      return parseLines<Sight>(texts.slice(1).join('\n'));
    },
  };
}

function parseLines<T>(text: string): T[] {
  return text
    .split('\n')
    .filter((line) => line !== '')
    .map((line) => JSON.parse(line) as T);
}
