import { readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { setTimeout as pause } from 'node:timers/promises';
import { dnsProcess } from '../../test/dns/process.ts';
import { addressOf } from '../../test/dns/zone.ts';
import { type Namespace, stop } from '../../test/netns/namespace.ts';
import { addressPlan, createTopology } from '../../test/netns/topology.ts';
import { NODE_NAME } from '../generate/cluster.ts';
import { yamlText } from '../generate/manifests.ts';
import { agentCommand } from '../measure/agent.ts';
import { amount, atMost, type Benchmark, figure } from '../measure/figure.ts';
import { column, memoryOf } from '../measure/process.ts';

const NAMES = 1_000;
const NAMES_A_RULE = 10;
const TTL = 30;
/**
 * From the start of the agent: all names have been asked for, and what was needed to start is
 * collected (milliseconds).
 */
const SETTLE = 15_000;
/** USER_HZ of proc(5), the same on every Linux that Node.js runs on. */
const TICKS = 100;

export const names: Benchmark = {
  name: 'names',
  title: 'fqdn peers',
  how: `\`bin/nodewall agent\` with ${NAMES} names in ${NAMES / NAMES_A_RULE} rules, TTL ${TTL} s, answered by a DNS server in another process and network namespace; the copies of the answers (nflog) are read too. Processor time of the whole process (proc(5), stat) over three TTLs (two in a run of all benchmarks) after ${SETTLE / 1000} s, resident memory at their end; against the same rules with addresses instead of names.`,
  async run(settings) {
    const seconds = amount(settings, [1, 2, 3]) * TTL + 5;
    const place = (name: string) => ({ folder: settings.folder, name, seconds });
    const one = () => trial({ ...place('addresses'), peer: toBlock });
    const other = () => trial({ ...place('names'), peer: toName });
    // By the benchmark's name neither disturbs the other.
    const [without, withNames] = amount(settings, [false, false, true])
      ? [await one(), await other()]
      : await Promise.all([one(), other()]);
    const rows = [
      {
        ...withNames,
        growth: (withNames.memory ?? 0) - (without.memory ?? 0),
        idle: without.processor ?? Number.NaN,
      },
    ];
    const queries = column(rows, 'queries').map((count) => Math.round(count / seconds));
    return [
      figure('1,000 names, TTL 30 s: share of a core', '%', column(rows, 'processor'), {
        target: atMost(3),
        note: `${queries.join(', ')} queries a second`,
      }),
      figure('… of an agent without names', '%', column(rows, 'idle')),
      figure('1,000 names: memory more than with addresses', 'MB', column(rows, 'growth'), {
        target: atMost(40),
      }),
      figure('… all of the agent', 'MB', column(rows, 'memory')),
    ];
  },
};

interface Trial {
  readonly folder: string;
  readonly name: string;
  readonly seconds: number;
  readonly peer: (index: number) => object;
}

const nameOf = (index: number): string => `service-${index}.perf.test`;
const toName = (index: number): object => ({ fqdn: nameOf(index) });
const toBlock = (index: number): object => ({ ipBlock: { cidr: `${addressOf(nameOf(index))}/32` } });

async function trial({ folder, name, seconds, peer }: Trial): Promise<Record<string, number>> {
  const plan = addressPlan({ clients: 1, nodeAddresses: 1 });
  const topology = await createTopology(plan);
  const [servers] = topology.clients;
  const server = plan.clientAddresses[0]?.v4 ?? '';
  const manifests = join(folder, `${name}.yaml`);
  const config = join(folder, `${name}-config.yaml`);
  await writeFile(manifests, yamlText([node(plan.nodeAddresses[0]?.v4 ?? ''), policy(peer)]));
  // The server is behind a veth pair, as pods are.
  await writeFile(
    config,
    yamlText([{ interfaceGroupFile: '', exemptions: { localPods: false }, names: { servers: [server] } }]),
  );
  try {
    const dns = await dnsProcess(servers as Namespace, server, { '*.perf.test': { byName: true, ttl: TTL } });
    const stateDir = join(folder, `${name}-state`);
    const agent = topology.node.spawn(agentCommand({ manifests, stateDir, options: ['--config', config] }));
    const log: string[] = [];
    agent.stderr.on('data', (part) => log.push(String(part)));
    await pause(SETTLE);
    const before = {
      ticks: await ticksOf(agent.pid ?? 0),
      queries: await dns.queries(),
      at: performance.now(),
    };
    await pause(seconds * 1000);
    const ticks = (await ticksOf(agent.pid ?? 0)) - before.ticks;
    const elapsed = (performance.now() - before.at) / 1000;
    if (!log.join('').includes('"enforced"')) throw new Error(`not enforced:\n${log.join('').slice(-3000)}`);
    const memory = await memoryOf(agent.pid ?? 0);
    const queries = (await dns.queries()) - before.queries;
    await stop(agent, 'SIGTERM');
    return { processor: (100 * ticks) / TICKS / elapsed, memory: memory.now, queries };
  } finally {
    await topology.close();
  }
}

/** Processor time of all threads so far, user and system: fields 14 and 15 of /proc/PID/stat. */
async function ticksOf(pid: number): Promise<number> {
  const text = await readFile(`/proc/${pid}/stat`, 'utf8');
  const fields = text.slice(text.lastIndexOf(')') + 2).split(' ');
  return Number(fields[11]) + Number(fields[12]);
}

function node(address: string): object {
  return {
    apiVersion: 'v1',
    kind: 'Node',
    metadata: { name: NODE_NAME },
    status: { addresses: [{ type: 'InternalIP', address }] },
  };
}

function policy(peer: (index: number) => object): object {
  const egress = Array.from({ length: NAMES / NAMES_A_RULE }, (_, rule) => ({
    name: `rule-${rule}`,
    action: 'Allow',
    to: Array.from({ length: NAMES_A_RULE }, (_, i) => peer(rule * NAMES_A_RULE + i)),
    ports: [{ protocol: 'TCP', port: 443 }],
  }));
  return {
    apiVersion: 'nodewall.io/v1alpha1',
    kind: 'ClusterNetworkPolicy',
    metadata: { name: 'names' },
    spec: { priority: 5, appliedTo: [{ nodeSelector: {} }], egress },
  };
}
