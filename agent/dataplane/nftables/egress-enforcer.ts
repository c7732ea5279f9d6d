import type { NodeState } from '../../../apis/compiled.ts';
import type { Config } from '../../../apis/config.ts';
import type { NodeEgress } from '../../../apis/egress/node-egress.ts';
import { type DeadlineKeeper, withDeadline } from '../../apply/deadline.ts';
import { Enforcer, type EnforcerOptions } from '../../apply/enforcer.ts';
import type { NodeRuleReconciler } from '../../apply/reconciler.ts';
import { type EgressMemory, toEgressMemory } from '../../egress/egress-memory.ts';
import { EgressReconciler, type EgressRuleset } from '../../egress/egress-reconciler.ts';
import type { EgressHealth } from '../../egress/health/egress-health.ts';
import { withLingering } from '../../egress/lingering.ts';
import type { OpenNetwork } from '../../egress/open-network.ts';
import { deadlineOf } from '../../render/deadline.ts';
import { renderer } from '../../render/render.ts';

interface EgressEnforcerOptions {
  readonly config: Config;
  readonly enforcer: Omit<EnforcerOptions<unknown>, 'reconciler' | 'renderer'>;
  readonly reconciler: NodeRuleReconciler;
  readonly network: OpenNetwork;
  readonly health: EgressHealth;
  /** The state that an earlier run had in force; null: not known. */
  readonly last: NodeEgress | null;
  readonly deadline: DeadlineKeeper;
}

interface EgressEnforcing {
  readonly enforcer: Enforcer<EgressRuleset>;
  readonly memory: () => EgressMemory;
}

/** Enforces rules and, with them, the network configuration of egress gateways. */
export function egressEnforcer({
  config,
  enforcer,
  reconciler,
  network,
  health,
  last,
  deadline,
}: EgressEnforcerOptions): EgressEnforcing {
  const rulesets = new EgressRulesets(config, health, last);
  const running = new Enforcer<EgressRuleset>({
    ...enforcer,
    events: {
      ...enforcer.events,
      enforced(result) {
        enforcer.events.enforced(result);
        health.inForce(result.resolved.egress === undefined ? null : rulesets.known());
      },
    },
    reconciler: withDeadline(new EgressReconciler(reconciler, network, last), deadline, deadlineOf),
    renderer: (canLog) => rulesets.renderer(canLog),
  });
  return { enforcer: running, memory: () => rulesets.memory() };
}

class EgressRulesets {
  readonly #config: Config;
  readonly #health: EgressHealth;
  /** With what lingers of earlier states. */
  #known: NodeEgress | null;
  #wanted: NodeEgress | null = null;

  constructor(config: Config, health: EgressHealth, last: NodeEgress | null) {
    this.#config = config;
    this.#health = health;
    this.#known = last;
  }

  known(): NodeEgress | null {
    return this.#known;
  }

  memory(): EgressMemory {
    return toEgressMemory(this.#known, this.#wanted, this.#health.report().unreachable);
  }

  renderer(canLog: boolean): (state: NodeState) => EgressRuleset {
    const render = renderer(this.#config, canLog);
    return (state) => {
      const egress = this.#localOf(state);
      const ruleset = render(egress === null ? state : { ...state, egress });
      return { chains: ruleset.chains, sets: ruleset.sets, maps: ruleset.maps, egress };
    };
  }

  /** The same value for the same state: what is the same object is not applied again. */
  #localOf({ egress }: NodeState): NodeEgress | null {
    if (egress === undefined) return null;
    if (egress !== this.#wanted) this.#known = withLingering(this.#known, egress);
    this.#wanted = egress;
    return this.#known === null ? null : this.#health.local(this.#known);
  }
}
