import type { NodeState } from '../apis/compiled.ts';
import type { Config } from '../apis/config.ts';
import { MOST_SLOTS } from '../apis/egress/node-egress.ts';
import type { ClusterObjects } from '../apis/objects.ts';
import { nodeEgressViewer } from '../controller/egress/node-egress.ts';
import { policyText } from '../controller/egress/order.ts';
import type { Log } from '../lib/process/log.ts';

/**
 * Adds to each state what the node does for egress gateways, if the feature gate is on. Gateways
 * that need leases are left out: the policies that name them drop, for the reason no-gateway.
 */
export function egressView(
  node: string,
  { featureGates, egress }: Config,
  log: Log,
): (state: NodeState, objects: ClusterObjects) => NodeState {
  if (featureGates.EgressGateway !== true) return (state) => state;
  const view = nodeEgressViewer(egress, node);
  let told = '';
  let refusedBefore = '';
  return (state, objects) => {
    const floating = objects.egressGateways.filter(({ spec }) => spec.source === 'Floating');
    const names = floating.map(({ name }) => name).join(', ');
    if (names !== '' && names !== told) {
      log.error(
        'EgressGateways of source Floating need leases, which a stand-alone agent does not have: ' +
          'connections of pods that leave by them are dropped (no-gateway). Use source: Node',
        { node, gateways: names },
      );
    }
    told = names;
    const egressGateways =
      floating.length === 0
        ? objects.egressGateways
        : objects.egressGateways.filter((gateway) => !floating.includes(gateway));
    const own = view({ ...objects, egressGateways });
    const refused = (own?.refused ?? []).map(policyText).join(', ');
    if (refused !== '' && refused !== refusedBefore) {
      log.error(
        `more than ${MOST_SLOTS} ways to gateways: connections of these policies are dropped (no-route)`,
        { node, policies: refused },
      );
    }
    refusedBefore = refused;
    return own === null ? state : { ...state, egress: own };
  };
}
