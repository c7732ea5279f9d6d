import type { NodeState } from '../../../apis/compiled.ts';
import type { Config } from '../../../apis/config.ts';
import type { NodeEgress } from '../../../apis/egress/node-egress.ts';
import { Enforcer, type EnforcerOptions } from '../../apply/enforcer.ts';
import type { NodeRuleReconciler } from '../../apply/reconciler.ts';
import { EgressReconciler, type EgressRuleset } from '../../egress/egress-reconciler.ts';
import { withLingering } from '../../egress/lingering.ts';
import type { OpenNetwork } from '../../egress/open-network.ts';
import { renderer } from '../../render/render.ts';

interface EgressEnforcerOptions {
  readonly config: Config;
  readonly enforcer: Omit<EnforcerOptions<unknown>, 'reconciler' | 'renderer'>;
  readonly reconciler: NodeRuleReconciler;
  readonly network: OpenNetwork;
  /** What an earlier run had in force; null: not known. */
  readonly last: NodeEgress | null;
}

/** Enforces rules and, with them, the network configuration of egress gateways. */
export function egressEnforcer({
  config,
  enforcer,
  reconciler,
  network,
  last,
}: EgressEnforcerOptions): Enforcer<EgressRuleset> {
  return new Enforcer<EgressRuleset>({
    ...enforcer,
    reconciler: new EgressReconciler(reconciler, network, last),
    renderer: (canLog) => egressRulesets(config, canLog, last),
  });
}

function egressRulesets(
  config: Config,
  canLog: boolean,
  last: NodeEgress | null,
): (state: NodeState) => EgressRuleset {
  const render = renderer(config, canLog);
  let known = last;
  let wanted: NodeEgress | null = null;
  return (state) => {
    // The same value for the same state: what is the same object is not applied again.
    if (state.egress !== undefined && state.egress !== wanted) {
      wanted = state.egress;
      known = withLingering(known, wanted);
    }
    const egress = state.egress === undefined ? null : known;
    const ruleset = render(egress === null ? state : { ...state, egress });
    return { chains: ruleset.chains, sets: ruleset.sets, maps: ruleset.maps, egress };
  };
}
