import type { NodeState } from '../apis/compiled.ts';
import type { Config } from '../apis/config.ts';
import { MOST_SLOTS } from '../apis/egress/node-egress.ts';
import type { ClusterObjects } from '../apis/objects.ts';
import { nodeEgressViewer } from '../controller/egress/node-egress.ts';
import { policyText } from '../controller/egress/order.ts';
import type { Log } from '../lib/process/log.ts';

const FLOATING =
  'EgressGateways of source Floating need leases, which a stand-alone agent does not have: ' +
  'connections of pods that leave by them are dropped (no-gateway). Use source: Node';
const INTERFACE =
  'EgressGateways with an interface are not built: connections of pods that leave by them are dropped ' +
  "(no-address). Leave interface out: then the node's address for the route is used";
const CROWDED = `more than ${MOST_SLOTS} ways to gateways: connections of these policies are dropped (no-route)`;

/**
 * Adds to each state what the node does for egress gateways, if the feature gate is on. Gateways
 * that need leases are left out: the policies that name them drop, for the reason no-gateway.
 */
export function egressView(
  node: string,
  { featureGates, egress }: Config,
  log: Pick<Log, 'error'>,
): (state: NodeState, objects: ClusterObjects) => NodeState {
  if (featureGates.EgressGateway !== true) return (state) => state;
  const view = nodeEgressViewer(egress, node);
  const told = new Map<string, string>();
  /** An error that goes on is told once. */
  function tell(message: string, names: readonly string[]): void {
    const text = names.join(', ');
    if (text !== '' && text !== told.get(message)) log.error(message, { node, objects: text });
    told.set(message, text);
  }
  return (state, objects) => {
    const { egressGateways: all } = objects;
    const usable = all.filter(({ spec }) => spec.source === 'Node');
    const floating = all.filter((gateway) => !usable.includes(gateway));
    tell(
      FLOATING,
      floating.map(({ name }) => name),
    );
    tell(
      INTERFACE,
      usable.filter(({ spec }) => spec.interface !== undefined).map(({ name }) => name),
    );
    const own = view({ ...objects, egressGateways: floating.length === 0 ? all : usable });
    tell(CROWDED, (own?.refused ?? []).map(policyText));
    return own === null ? state : { ...state, egress: own };
  };
}
