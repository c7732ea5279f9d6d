import { isDeepStrictEqual } from 'node:util';
import type { NodeState } from '../../apis/compiled.ts';
import type { Config } from '../../apis/config.ts';
import { leaseName, MOST_SLOTS, type NodeEgress } from '../../apis/egress/node-egress.ts';
import type { EgressGateway } from '../../apis/egress/objects.ts';
import type { ClusterObjects } from '../../apis/objects.ts';
import { nodeEgressViewer } from '../../controller/egress/node-egress.ts';
import { egressPolicyText } from '../../controller/egress/order.ts';
import type { Log } from '../../lib/process/log.ts';
import { memo } from '../../lib/sharing/memo.ts';

const FLOATING =
  'EgressGateways of source Floating need leases, which a stand-alone agent does not have: ' +
  'connections of pods that leave by them are dropped (no-gateway). Use source: Node';
const CROWDED = `more than ${MOST_SLOTS} ways to gateways: connections of these policies are dropped (no-route)`;

interface EgressView {
  /** Adds to a state what the node does for egress gateways. */
  view(state: NodeState, objects: ClusterObjects): NodeState;
  /**
   * From now on this node is not ready for these gateways, by name as leases have it, with reasons.
   * Other agents hear it by silence: a node that is ready for none of its gateways serves no pod,
   * and so answers none of their nodes. One that is ready for some goes on to serve them all.
   *
   * @param changed called if the view of the same objects is another now
   */
  unready(gateways: ReadonlyMap<string, string>, changed?: () => void): void;
}

/**
 * A stand-alone agent's view of egress gateways, if the feature gate is on. Gateways that need
 * leases are left out: the policies that name them drop, for the reason no-gateway.
 */
export function egressView(
  node: string,
  { featureGates, egress }: Config,
  log: Pick<Log, 'error'>,
): EgressView {
  if (featureGates.EgressGateway !== true) return { view: (state) => state, unready() {} };
  const view = nodeEgressViewer(egress, node);
  const told = new Map<string, string>();
  let unready: ReadonlyMap<string, string> = new Map();
  let candidacies: NodeEgress['candidacies'] = [];
  let ownStatus = memo((gateway: EgressGateway) => withOwnStatus(gateway, node, unready));
  /** An error that goes on is told once. */
  function tell(message: string, names: readonly string[]): void {
    const text = names.join(', ');
    if (text !== '' && text !== told.get(message)) log.error(message, { node, objects: text });
    told.set(message, text);
  }
  return {
    unready(gateways, changed) {
      const isNone = candidacies.every(({ gateway }) => gateways.has(gateway));
      const now = isNone ? gateways : new Map<string, string>();
      if (isDeepStrictEqual(now, unready)) return;
      unready = now;
      ownStatus = memo((gateway: EgressGateway) => withOwnStatus(gateway, node, unready));
      changed?.();
    },
    view(state, objects) {
      const { egressGateways: all } = objects;
      const usable = all.filter(({ spec }) => spec.source === 'Node');
      const floating = all.filter((gateway) => !usable.includes(gateway));
      tell(
        FLOATING,
        floating.map(({ name }) => name),
      );
      const isSame = floating.length === 0 && unready.size === 0;
      const own = view({ ...objects, egressGateways: isSame ? all : usable.map(ownStatus) });
      candidacies = own?.candidacies ?? [];
      tell(CROWDED, (own?.refused ?? []).map(egressPolicyText));
      return own === null ? state : { ...state, egress: own };
    },
  };
}

/** There is no controller that would write into the status what the node says of itself. */
function withOwnStatus(
  gateway: EgressGateway,
  node: string,
  unready: ReadonlyMap<string, string>,
): EgressGateway {
  const reason = unready.get(leaseName(gateway));
  if (reason === undefined) return gateway;
  const { nodes, ...status } = gateway.status ?? { nodes: [], slots: [] };
  const others = nodes.filter(({ name }) => name !== node);
  return { ...gateway, status: { ...status, nodes: [...others, { name: node, ready: false, reason }] } };
}
