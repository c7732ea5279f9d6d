import { readPressure } from '../../agent/egress/record/conntrack-pressure.ts';
import { egressCount } from '../../agent/egress/render/counted.ts';
import { readState, readTotals } from '../../agent/inspect/saved-state.ts';
import type { RuleTotals } from '../../agent/record/accounting.ts';
import type { Config } from '../../apis/config.ts';
import type { NodeEgress } from '../../apis/egress/node-egress.ts';
import type { EgressGateway, EgressPolicy } from '../../apis/egress/objects.ts';
import type { ClusterObjects } from '../../apis/objects.ts';
import type { Allocation, EgressPath } from '../../controller/egress/allocation.ts';
import { egressPolicyKey } from '../../controller/egress/class.ts';
import type { CompiledEgress } from '../../controller/egress/compile-egress.ts';
import { egressPolicyText } from '../../controller/egress/order.ts';
import { CommandError, EXIT, type ExitStatus } from '../../lib/process/exit.ts';
import { present } from '../../lib/sharing/present.ts';
import { clusterObjects } from '../cluster-api.ts';
import type { MachineOptions, Printed } from '../command-options.ts';
import { loadConfig, loadObjects } from '../load.ts';
import { json, print, table } from '../output.ts';
import { lastText } from '../rules.ts';
import { takeText } from './declared-egress.ts';

interface EgressStatusOptions extends NodeStatusOptions {
  readonly manifests?: readonly string[];
  readonly kubeconfig?: string;
}

/**
 * `nodewall egress status`: gateways and policies from manifests or a cluster, else what the agent
 * of this node does.
 */
export async function egressStatus(options: EgressStatusOptions): Promise<ExitStatus> {
  const { manifests, kubeconfig, config: file, output } = options;
  if (manifests === undefined && kubeconfig === undefined) {
    await loadConfig(file);
    return printNodeStatus(options);
  }
  const { objects, config } = await loadEgressObjects({ manifests, kubeconfig, config: file });
  const { compileEgress } = await import('../../controller/egress/compile-egress.ts');
  const status = toStatus(compileEgress(objects, config.egress));
  await print(output === 'json' ? json(status) : statusText(status));
  return EXIT.done;
}

/** The objects of manifests, or of a cluster. */
export async function loadEgressObjects({
  manifests,
  kubeconfig,
  config: file,
}: {
  readonly manifests: readonly string[] | undefined;
  readonly kubeconfig: string | undefined;
  readonly config: string | undefined;
}): Promise<{ objects: ClusterObjects; config: Config }> {
  if (manifests !== undefined) return loadObjects({ manifests, ...present({ config: file }) });
  const config = await loadConfig(file);
  return { config, objects: await clusterObjects(kubeconfig, config) };
}

type Status = ReturnType<typeof toStatus>;

function toStatus({ allocations, policies, ways }: CompiledEgress) {
  return {
    gateways: allocations.map(toGateway),
    policies: policies.map((policy) => toPolicy(policy, ways)),
  };
}

function toGateway({ gateway, candidates, slots, policies }: Allocation) {
  const { name, apiGroup, spec, status } = gateway;
  return {
    name,
    apiGroup,
    source: spec.source,
    choice: spec.choice,
    nodes: candidates.map((candidate) => ({
      name: candidate.name,
      ready: candidate.ready,
      reason: reasonOf(gateway, candidate.name),
    })),
    slots: (spec.source === 'Floating' ? slots : (status?.slots ?? [])).map((slot) => ({
      name: slot.name,
      node: slot.node,
      epoch: status?.slots.find((one) => one.name === slot.name)?.epoch ?? 0,
      addresses: slot.addresses,
    })),
    policies: policies.map(egressPolicyText),
  };
}

function reasonOf({ status }: EgressGateway, node: string): string | null {
  const found = status?.nodes.find(({ name }) => name === node);
  return found === undefined || found.ready ? null : (found.reason ?? 'unknown');
}

function toPolicy(policy: EgressPolicy, ways: CompiledEgress['ways']) {
  const { kind, apiGroup, namespace, name, spec } = policy;
  const way = ways.get(egressPolicyKey(policy));
  const paths = way === undefined ? [] : [way.paths[4], way.paths[6]];
  const exits = paths.flatMap((path) => exitsOf(path));
  return {
    kind,
    apiGroup,
    policy: egressPolicyText({ namespace, name }),
    mode: spec.mode,
    action: spec.action,
    gateway: way?.gateway?.name ?? null,
    addresses: unique(exits.flatMap(({ addresses }) => addresses)),
    nodes: unique(exits.map(({ node }) => node)),
    unavailable: {
      ipv4: way === undefined ? null : reasonFor(way.paths[4]),
      ipv6: way === undefined ? null : reasonFor(way.paths[6]),
    },
    whenUnavailable: spec.whenUnavailable,
  };
}

function exitsOf(path: EgressPath): { readonly node: string; readonly addresses: readonly string[] }[] {
  switch (path.kind) {
    case 'floating':
      return [...path.parts];
    case 'node':
      return path.nodes.map(({ name }) => ({ node: name, addresses: [] }));
    case 'unavailable':
      return [];
  }
}

function reasonFor(path: EgressPath): string | null {
  return path.kind === 'unavailable' ? path.reason : null;
}

function unique(texts: readonly string[]): string[] {
  return [...new Set(texts)];
}

function statusText({ gateways, policies }: Status): string {
  if (gateways.length === 0 && policies.length === 0)
    return 'There are no egress gateways and no policies.\n';
  const nodes = gateways.flatMap(({ name, source, choice, nodes: all }) =>
    all.length === 0
      ? [[name, source, choice, 'none', 'no node is selected']]
      : all.map((node) => [
          ...[name, source, choice, node.name],
          node.ready ? 'ready' : `not ready: ${node.reason ?? 'unknown'}`,
        ]),
  );
  const slots = gateways.flatMap(({ name, slots: all }) =>
    all.map(({ name: slot, node, epoch, addresses }) => [
      ...[name, slot, node === '' ? 'none' : node, String(epoch)],
      addresses.length === 0 ? '-' : addresses.join(', '),
    ]),
  );
  const rows = policies.map((policy) => [
    policy.policy,
    policy.mode === 'Audit' ? `${policy.action} (audit)` : policy.action,
    policy.gateway ?? '-',
    exitText(policy),
    unavailableText(policy),
  ]);
  const parts = [
    table(['gateway', 'source', 'choice', 'node', 'state'], nodes),
    slots.length === 0 ? '' : table(['gateway', 'slot', 'owner', 'epoch', 'addresses'], slots),
    rows.length === 0 ? '' : table(['policy', 'action', 'gateway', 'leaves by', 'unavailable'], rows),
  ];
  return parts.filter((part) => part !== '').join('\n');
}

function exitText({ addresses, nodes }: Status['policies'][number]): string {
  if (nodes.length === 0) return '-';
  return addresses.length === 0 ? nodes.join(', ') : `${addresses.join(', ')} on ${nodes.join(', ')}`;
}

function unavailableText({ unavailable, whenUnavailable }: Status['policies'][number]): string {
  const reasons = [
    ...(unavailable.ipv4 === null ? [] : [`IPv4 ${unavailable.ipv4}`]),
    ...(unavailable.ipv6 === null ? [] : [`IPv6 ${unavailable.ipv6}`]),
  ];
  return reasons.length === 0 ? '-' : `${reasons.join(', ')}: ${whenUnavailable}`;
}

interface NodeStatusOptions extends MachineOptions, Printed<'text' | 'json'> {}

/**
 * Prints the connections that the agent of this node steers, takes and drops, with the counters of
 * the kernel.
 */
async function printNodeStatus({ stateDir, output }: NodeStatusOptions): Promise<ExitStatus> {
  const { node, egress } = await readState(stateDir);
  if (egress === undefined) {
    throw new CommandError(
      EXIT.invalid,
      `the agent of ${node} has the feature gate EgressGateway off; give --manifests or --kubeconfig to see the gateways of the cluster`,
    );
  }
  const { totals, remark } = await readTotals(stateDir, () => new Date().toISOString());
  if (remark !== null) process.stderr.write(`nodewall: ${remark}\n`);
  const conntrack = await readPressure();
  const status = { node, ...toNodeStatus(egress, totals), conntrack };
  await print(output === 'json' ? json(status) : nodeText(status));
  return EXIT.done;
}

type NodeStatus = ReturnType<typeof toNodeStatus> & {
  readonly node: string;
  readonly conntrack: Awaited<ReturnType<typeof readPressure>>;
};

function toNodeStatus(egress: NodeEgress, totals: ReadonlyMap<string, RuleTotals>) {
  const counts = [...totals]
    .flatMap(([id, { packets, bytes, lastHit }]) => {
      const of = egressCount(id);
      return of === null ? [] : [{ ...of, packets, bytes, lastHit }];
    })
    .sort((a, b) => (JSON.stringify(a) < JSON.stringify(b) ? -1 : 1));
  return {
    tunnel: egress.tunnel?.address ?? null,
    pods: [...egress.sources.values()].filter((id) => id !== null).length,
    slots: [...egress.slots.values()].map(({ number, node: to }) => ({ number, node: to })),
    takes: [...egress.takes].map(([number, take]) => ({ number, address: takeText(take) })),
    served: egress.arrivals.size,
    owned: egress.owned,
    policies: counts.filter((one) => 'policy' in one),
    audited: counts.filter((one) => 'audited' in one),
    drops: counts.filter((one) => 'reason' in one),
  };
}

function nodeText(status: NodeStatus): string {
  const { node, tunnel, pods, served, slots, takes, owned } = status;
  const { policies, audited, drops, conntrack } = status;
  const counted = (
    of: string,
    { packets, bytes, lastHit }: Pick<RuleTotals, 'packets' | 'bytes' | 'lastHit'>,
  ) => [...[of, String(packets), String(bytes), lastText({ lastHit })]];
  const own = owned.map(({ gateway, slot, addresses }) => `${gateway}/${slot} (${addresses.join(', ')})`);
  const ways = [
    ...slots.map(({ number, node: to }) => [`slot ${number}`, `to ${to}`]),
    ...takes.map(({ number, address }) => [`take ${number}`, `source NAT to ${address}`]),
  ];
  const rows = [
    ...policies.map((one) => counted(one.policy, one)),
    ...audited.map((one) => counted(`${one.audited} (audit)`, one)),
  ];
  const dropped = drops.filter(({ packets }) => packets > 0).map((one) => counted(one.reason, one));
  const parts = [
    `Egress gateways on ${node}: tunnel address ${tunnel ?? 'none'}, ${pods} addresses of own pods steered, ${served} addresses of other nodes' pods served\n`,
    ways.length === 0 ? '' : table(['way', 'leads'], ways),
    own.length === 0 ? '' : `Owned: ${own.join(', ')}\n`,
    rows.length === 0 ? '' : table(['policy', 'packets', 'bytes', 'last hit'], rows),
    dropped.length === 0 ? '' : table(['dropped as', 'packets', 'bytes', 'last hit'], dropped),
    conntrack === null ? '' : conntrackText(conntrack),
  ];
  return parts.filter((part) => part !== '').join('\n');
}

function conntrackText({ entries, max, failures }: NonNullable<NodeStatus['conntrack']>): string {
  const counts = Object.entries(failures).map(([kind, count]) => `${kind} ${count}`);
  return `connection tracking: ${entries} of ${max} entries; since boot ${counts.join(', ')}\n`;
}
