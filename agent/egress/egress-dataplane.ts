import type { NodeState } from '../../apis/compiled.ts';
import type { Config } from '../../apis/config.ts';
import type { NodeEgress } from '../../apis/egress/node-egress.ts';
import { Enforcer } from '../apply/enforcer.ts';
import type { Envelope } from '../apply/envelope.ts';
import type {
  DataplaneExtension,
  ExtendedRules,
  ExtensionOptions,
  OpenExtension,
  Running,
} from '../dataplane/dataplane.ts';
import type { Ruleset } from '../render/ruleset.ts';
import { EgressReconciler, type EgressRuleset } from './egress-reconciler.ts';
import { LIVE_SETS } from './floating/live-sets.ts';
import { type OpenFloating, openFloating } from './floating/open-floating.ts';
import type { FloatingKernel } from './floating-kernel.ts';
import { EgressHealth, type EgressHealthReport } from './health/egress-health.ts';
import { type EgressMemory, toEgressMemory, withLingering } from './lingering.ts';
import { openNetwork } from './open-network.ts';
import type { WireGuardKeys } from './wireguard-keys.ts';

interface EgressDataplaneOptions {
  readonly config: Config;
  /** The state that an earlier run had in force, whose connections go on; null: not known. */
  readonly last: NodeEgress | null;
  /** Gateway nodes that did not answer an earlier run. */
  readonly lost: readonly string[];
  /** Keys of the encrypted tunnel; null: it is not encrypted. */
  readonly keys: WireGuardKeys | null;
  /** Called when the network configuration lacks something else than before. */
  readonly problems: (problems: readonly string[]) => void;
  /** Called when the node finds out something else about gateways. */
  readonly reported: (report: EgressHealthReport) => void;
}

/** The parts of one run. */
interface OpenDataplaneOptions {
  readonly floating: OpenFloating;
  readonly health: EgressHealth;
  readonly rulesets: EgressRulesets;
}

/**
 * Egress gateways in the dataplane: their network configuration and floating addresses, enforced
 * with the rules (EgressReconciler). It is opened once.
 */
export class EgressDataplane implements DataplaneExtension {
  readonly #options: EgressDataplaneOptions;
  #floating: OpenFloating | null = null;
  #parts: OpenDataplaneOptions | null = null;

  constructor(options: EgressDataplaneOptions) {
    this.#options = options;
  }

  /** Null before it is open. */
  get floating(): FloatingKernel | null {
    return this.#floating?.kernel ?? null;
  }

  /** The health of gateways, as this node finds it; null before it is open. */
  health(): EgressHealthReport | null {
    return this.#parts?.health.report() ?? null;
  }

  /** Facts for the next run; null before it is open. */
  memory(): EgressMemory | null {
    return this.#parts?.rulesets.memory() ?? null;
  }

  open(options: ExtensionOptions): OpenExtension {
    const floating = openFloating(options);
    this.#floating = floating;
    return {
      kernel: floating.keptIn(options.kernel),
      quietSets: LIVE_SETS,
      enforce: (extended) => this.#enforce(floating, options, extended),
    };
  }

  #enforce(
    floating: OpenFloating,
    { clock, log, troubled }: ExtensionOptions,
    { rules, render, timed, enforcer: parts }: ExtendedRules,
  ): Running['enforcer'] {
    const { config, last, lost, keys, problems, reported } = this.#options;
    const network = openNetwork({
      config,
      log,
      clock,
      troubled,
      floating,
      keys,
      drifted: (repairs) => parts.events.drifted(repairs),
      addressesChanged: () => health.refresh(),
      incomplete: problems,
    });
    let latest: Envelope | null = null;
    const health = new EgressHealth({
      clock,
      log,
      interfaces: network.interfaces,
      lost,
      changed() {
        if (latest !== null) enforcer.submit(latest);
      },
      reported,
    });
    const rulesets = new EgressRulesets(render, health, last);
    this.#parts = { floating, health, rulesets };
    const enforcer = new Enforcer<EgressRuleset>({
      ...parts,
      events: {
        ...parts.events,
        enforced(result) {
          parts.events.enforced(result);
          health.inForce(result.resolved.egress === undefined ? null : rulesets.known());
        },
      },
      reconciler: timed(new EgressReconciler(rules, network, last)),
      renderer: (canLog) => rulesets.renderer(canLog),
    });
    return {
      submit(envelope) {
        latest = envelope;
        enforcer.submit(envelope);
      },
      verify: () => enforcer.verify(),
      async idle() {
        await health.idle();
        await enforcer.idle();
      },
      async close() {
        await enforcer.close();
        // After the apply in progress, which asks what it put in force.
        health.close();
        await network.close();
        await floating.close();
      },
    };
  }
}

class EgressRulesets {
  readonly #render: ExtendedRules['render'];
  readonly #health: EgressHealth;
  /** With what lingers of earlier states. */
  #known: NodeEgress | null;
  #wanted: NodeEgress | null = null;

  constructor(render: ExtendedRules['render'], health: EgressHealth, last: NodeEgress | null) {
    this.#render = render;
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
    const render = this.#render(canLog);
    return (state) => {
      const egress = this.#localOf(state);
      const ruleset: Ruleset = render(egress === null ? state : { ...state, egress });
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
