import { readPressure } from '../../agent/egress/record/conntrack-pressure.ts';
import { egressCount } from '../../agent/egress/render/counted.ts';
import { readState, readTotals } from '../../agent/inspect/saved-state.ts';
import type { RuleTotals } from '../../agent/record/accounting.ts';
import type { NodeEgress } from '../../apis/egress/node-egress.ts';
import { CommandError, EXIT, type ExitStatus } from '../../lib/process/exit.ts';
import { json, print, table } from '../output.ts';
import { lastText } from '../rules.ts';
import { takeText } from './compile-egress.ts';

export interface NodeStatusOptions {
  readonly stateDir: string;
  readonly config?: string;
  readonly output: 'text' | 'json';
}

/**
 * Prints the connections that the agent of this node steers, takes and drops, with the counters of
 * the kernel.
 */
export async function printNodeStatus({ stateDir, output }: NodeStatusOptions): Promise<ExitStatus> {
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
  const status = { node, ...toStatus(egress, totals), conntrack };
  await print(output === 'json' ? json(status) : nodeText(status));
  return EXIT.done;
}

type NodeStatus = ReturnType<typeof toStatus> & {
  readonly node: string;
  readonly conntrack: Awaited<ReturnType<typeof readPressure>>;
};

function toStatus(egress: NodeEgress, totals: ReadonlyMap<string, RuleTotals>) {
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
